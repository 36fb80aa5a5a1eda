import pytest
from tests.cli.desk import avm, open_desk

from agentvm.cli.key import state_of
from agentvm.tenants.keys import parse_key

NOWHERE = "http://127.0.0.1:1"


def test_a_new_key_for_the_operator_needs_no_server_and_is_all_that_is_printed() -> None:
    first, second = (avm("key", "new", url=NOWHERE) for _ in range(2))
    assert parse_key(first.out.strip()) is not None
    assert (first.code, first.err, first.out != second.out) == (0, "", True)


async def test_a_key_is_shown_once_alone_and_then_only_described() -> None:
    async with open_desk() as desk:
        await desk.ok("user", "create", "alice")
        done = await desk.avm("key", "create", "笔记本", "--user", "alice", "--expires", "30d")
        assert parse_key(done.out.strip()) is not None
        assert "笔记本" in done.err
        listed = await desk.ok("key", "list")
        assert "笔记本" in listed
        assert done.out.strip() not in listed
        (one,) = await desk.record("key", "list", "--user", "alice")
        assert one["name"] == "笔记本"
        assert one["expiresAt"] > one["createdAt"]


async def test_permissions_and_containers_are_the_keys_own() -> None:
    async with open_desk() as desk:
        arguments = ("--permission", "sessions:read", "--permission", "images:read", "--container", "user-*")
        made = await desk.record("key", "create", "reader", *arguments)
        one = await desk.record("whoami", key=made["key"])
        assert (one["permissions"], one["containers"]) == (["images:read", "sessions:read"], ["user-*"])


async def test_a_rotated_key_goes_on_for_its_grace_and_a_revoked_one_ends() -> None:
    async with open_desk() as desk:
        made = await desk.record("key", "create", "robot")
        new = (await desk.ok("key", "rotate", made["keyId"], "--grace", "1h")).strip()
        for key in (made["key"], new):
            await desk.ok("whoami", key=key)
        assert await desk.ok("key", "revoke", made["keyId"], "--yes") == f"The key {made['keyId']} (robot) is revoked.\n"
        assert (await desk.avm("whoami", key=made["key"])).code == 4
        await desk.ok("whoami", key=new)
        assert "revoked" in await desk.ok("key", "list")
        once_more = await desk.record("key", "rotate", (await desk.record("whoami", key=new))["keyId"])
        assert (await desk.avm("whoami", key=new)).code == 4
        await desk.ok("whoami", key=once_more["key"])


async def test_the_holder_of_a_revoked_key_is_told_so() -> None:
    async with open_desk() as desk:
        await desk.ok("user", "create", "alice")
        key = (await desk.ok("key", "create", "laptop", "--user", "alice")).strip()
        (one,) = await desk.record("key", "list", "--user", "alice")
        await desk.ok("key", "revoke", one["keyId"], "--yes")
        said = await desk.avm("whoami", key=key)
        assert "key was revoked" in said.err
        assert "AVM_KEY=<key>" in said.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create",), 2, "NAME"),
        (("create", "x", "--expires", "soon"), 2, "30d"),
        (("create", "x", "--permission", "sessions:raed"), 1, "sessions:read"),
        (("create", "x", "--expires", "2001-01-01"), 1, "expiresAt is in the past"),
        (("create", "x", "--user", "nobody"), 5, "User not found"),
        (("rotate", "nothing"), 5, "Key not found: nothing"),
        (("rotate", "nothing", "--grace", "1"), 2, "12h"),
        (("revoke", "nothing", "--yes"), 5, "Key not found: nothing (not_found"),
    ],
)
async def test_what_cannot_be_done_is_explained(arguments: tuple[str, ...], code: int, said: str) -> None:
    async with open_desk() as desk:
        done = await desk.avm("key", *arguments)
        assert (done.code, done.out) == (code, "")
        assert said in done.err


def test_a_key_is_active_until_it_ends() -> None:
    assert state_of({}) == state_of({"expiresAt": 10**15}) == "active"
    assert state_of({"expiresAt": 1}) == "expired"
    assert state_of({"expiresAt": 1, "revokedAt": 1}) == "revoked"
