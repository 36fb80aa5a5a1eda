from tests.cli.desk import avm, open_desk
from tests.cli.fake_server import Asked, answering


async def test_what_was_done_is_listed_newest_first() -> None:
    async with open_desk() as desk:
        await desk.ok("user", "create", "alice")
        await desk.ok("key", "create", "hers", "--user", "alice")
        await desk.avm("user", "create", "alice")
        assert [item["action"] for item in await desk.record("audit", "list")] == ["user.create", "key.create", "user.create"]
        (newest,) = await desk.record("audit", "list", "--limit", "1")
        assert newest["result"] == "refused:conflict"
        lines = (await desk.ok("audit", "list", "--action", "key.create")).splitlines()
        assert len(lines) == 2
        assert "key.create" in lines[1]


def test_as_many_as_were_asked_for_are_read_and_no_more() -> None:
    def answer(asked: Asked) -> tuple[int, object]:
        return 200, {"items": [{"action": "a"}] * 1000, "nextCursor": "7"}

    with answering(answer) as (url, asked):
        done = avm("audit", "list", "--limit", "1500", "--json", url=url)
        assert len(done.json) == 1500
        assert avm("audit", "list", "--limit", "0", url=url).code == 2
    assert [one.path for one in asked] == ["/v1/audit?limit=1000", "/v1/audit?limit=1000&cursor=7"]
