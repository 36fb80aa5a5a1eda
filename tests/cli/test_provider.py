from tests.cli.desk import avm, open_desk
from tests.cli.fake_server import Asked, answering


async def test_the_providers_are_listed_with_how_they_are() -> None:
    async with open_desk() as desk:
        title, line = (await desk.ok("provider", "list")).splitlines()
        assert title.split()[:2] == ["NAME", "DRIVER"]
        assert {"scripted", "default", "unknown"} <= set(line.split())
        (item,) = await desk.record("provider", "list")
        assert (item["name"], item["calls"]) == ("scripted", 0)


def test_what_is_wrong_with_one_is_in_its_line() -> None:
    item = {"name": "corp", "driver": "openai", "defaultModel": "gpt", "state": "limited", "since": 1_700_000_000_000,
            "lastError": "provider_rate_limited", "retryAt": 1_700_000_030_000, "calls": 12, "failures": 3,
            "consecutiveFailures": 2, "baseUrl": "https://llm.test/v1"}  # fmt: skip

    def answer(asked: Asked) -> tuple[int, object]:
        return 200, {"items": [item]}

    with answering(answer) as (url, asked):
        shown = avm("provider", "list", url=url).out
    assert [one.path for one in asked] == ["/v1/providers?limit=1000"]
    for part in ("corp", "limited", "provider_rate_limited", "2023-11-14 22:13", "https://llm.test/v1", "12", "3", "2"):
        assert part in shown
