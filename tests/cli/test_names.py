from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from tests.cli.desk import avm, open_desk
from tests.cli.fake_server import Answering, Asked, answering
from tests.cli.program import environment, run_avm

from agentvm import create_agentx, remote_runtime
from agentvm.cli.api import Api, RequestFailed
from agentvm.cli.exit_codes import ExitCode
from agentvm.cli.names import KEY, SESSION, TURN, USER, Ambiguous, find, id_of, names_of
from agentvm.model.secret import Secret

WHOLE = "sess_mwhhh3mx_5zwio2k0q1ab"


def listing(member: str, *items: dict[str, Any]) -> Answering:
    """A server that knows these things by their ids, and lists them."""

    def answer(asked: Asked) -> tuple[int, object]:
        path = asked.path.partition("?")[0]
        if found := [item for item in items if path.endswith(f"/{item[member]}")]:
            return 200, found[0]
        if path.rpartition("/")[2] in ("sessions", "turns", "users", "keys"):
            return 200, {"items": items, "total": len(items)}
        return 404, {"error": {"code": "not_found", "message": "No such thing"}}

    return answer


def test_a_whole_id_is_taken_as_it_is_without_asking() -> None:
    with answering(listing("sessionId")) as (url, asked), Api(url, None) as api:
        assert id_of(api, SESSION, WHOLE) == WHOLE
        assert id_of(api, SESSION, "my-own-id") == "my-own-id"
        assert asked == []


def test_a_unique_beginning_of_an_id_is_enough() -> None:
    items = ({"sessionId": "sess_aaaa1111"}, {"sessionId": "sess_aaaa2222", "title": "Trip"}, {"sessionId": "sess_bbbb1111"})
    with answering(listing("sessionId", *items)) as (url, _), Api(url, None) as api:
        assert id_of(api, SESSION, "sess_bbbb") == "sess_bbbb1111"
        assert id_of(api, SESSION, "sess_aaaa1") == "sess_aaaa1111"
        with pytest.raises(Ambiguous) as refused:
            id_of(api, SESSION, "sess_aaaa")
        assert refused.value.exit_code == ExitCode.USAGE
        assert "sess_aaaa1111" in refused.value.message
        assert "sess_aaaa2222  Trip" in refused.value.message
        with pytest.raises(RequestFailed) as absent:
            id_of(api, SESSION, "sess_cccc")
        assert absent.value.exit_code == ExitCode.NOT_FOUND


def test_the_last_session_is_the_one_in_which_something_was_said_last_pinned_or_not() -> None:
    items = (
        {"sessionId": "pinned", "createdAt": 1, "lastMessageAt": 2, "pinnedAt": 9},
        {"sessionId": "latest", "createdAt": 1, "lastMessageAt": 5},
        {"sessionId": "empty", "createdAt": 4},
    )
    with answering(listing("sessionId", *items)) as (url, _), Api(url, None) as api:
        assert id_of(api, SESSION, "last") == "latest"


def test_without_any_there_is_no_last() -> None:
    with answering(listing("turnId")) as (url, _), Api(url, None) as api, pytest.raises(RequestFailed, match="No turn found"):
        id_of(api, TURN, "last")


def test_a_name_goes_before_a_beginning_and_a_key_in_force_before_one_that_is_revoked() -> None:
    items = (
        {"keyId": "aaaa", "name": "laptop", "revokedAt": 1},
        {"keyId": "bbbb", "name": "laptop"},
        {"keyId": "cccc", "name": "robot"},
        {"keyId": "dddd", "name": "robot"},
        {"keyId": "robotABCD", "name": "other"},
    )
    with answering(listing("keyId", *items)) as (url, _), Api(url, None) as api:
        assert find(api, KEY, "laptop")["keyId"] == "bbbb"
        assert find(api, KEY, "aaaa")["keyId"] == "aaaa"
        with pytest.raises(Ambiguous, match="cccc"):
            find(api, KEY, "robot")
        assert find(api, KEY, "robotA")["keyId"] == "robotABCD"
        for short in ("rob", "b"):
            with pytest.raises(RequestFailed):
                find(api, KEY, short)


def test_an_external_id_goes_before_another_users_name() -> None:
    items = ({"userId": "usr_1", "externalId": "alice"}, {"userId": "usr_2", "externalId": "bob", "displayName": "alice"})
    with answering(listing("userId", *items)) as (url, _), Api(url, None) as api:
        assert find(api, USER, "alice")["userId"] == "usr_1"
        assert names_of(api, USER) == {"usr_1": "alice", "usr_2": "bob"}


def test_who_may_not_list_users_sees_ids() -> None:
    with answering(lambda asked: (403, {"error": {"code": "permission_denied"}})) as (url, _), Api(url, None) as api:
        assert names_of(api, USER) == {}


def test_a_server_that_answers_otherwise_is_no_bug_of_ours() -> None:
    with answering(lambda asked: (200, {})) as (url, _):
        done = avm("key", "revoke", "laptop", "--yes", url=url)
    assert (done.code, "like AgentVM" in done.err) == (1, True)


async def test_keys_users_and_tenants_are_named_as_people_name_them() -> None:
    async with open_desk() as desk:
        await desk.ok("tenant", "create", "acme", "--name", "Acme Corporation")
        of_acme = ("--tenant", "Acme Corporation")
        alice = await desk.record("user", "create", "alice@acme.example", "--name", "Alice Liddell", *of_acme)
        made = await desk.record("key", "create", "laptop", "--user", "Alice Liddell", *of_acme)
        assert made["userId"] == alice["userId"]
        assert "alice@acme.example" in await desk.ok("key", "list", *of_acme)
        assert "alice@acme.example" in await desk.ok("user", "show", alice["userId"][:14], *of_acme)
        await desk.ok("quota", "set", "tokens_per_day", "--hard", "5", "--user", "Alice Liddell", *of_acme)
        assert "alice@acme.example" in await desk.ok("quota", "list", "--user", "alice@acme.example", *of_acme)
        assert "(laptop)" in await desk.ok("key", "revoke", "laptop", "--yes", *of_acme)
        assert f"{made['keyId']} (laptop)" in await desk.ok("audit", "list", *of_acme)
        await desk.ok("tenant", "suspend", "Acme Corporation")
        assert "suspended" in await desk.ok("tenant", "show", "Acme Corporation")


async def test_a_key_can_be_revoked_by_itself_and_is_not_sent() -> None:
    async with open_desk() as desk:
        made = await desk.record("key", "create", "found-in-a-log")
        assert made["keyId"] in await desk.ok("key", "revoke", made["key"], "--yes")


async def test_the_variable_names_the_tenant_where_no_flag_does() -> None:
    async with open_desk() as desk:
        await desk.ok("tenant", "create", "acme")
        await desk.ok("user", "create", "alice", "--tenant", "acme")
        here = {"AVM_TENANT": "acme"}
        named = avm_of(desk.server.url, desk.operator, here)
        assert "alice" in await named("user", "list")
        assert "alice" not in await named("user", "list", "--tenant", "default")
        # What is about no tenant does not mind it.
        await named("whoami")
        await named("tenant", "list")


def avm_of(url: str, key: str, variables: dict[str, str]) -> Any:
    async def run(*arguments: str) -> str:
        done = await anyio.to_thread.run_sync(lambda: avm(*arguments, url=url, key=key, variables=variables))
        assert done.code == 0, done.err
        return done.out + done.err

    return run


async def test_last_is_what_was_just_said(tmp_path: Path) -> None:
    async with open_desk() as desk:
        async with create_agentx(remote_runtime(desk.server.ws_url, key=Secret(desk.operator))) as agentx:
            image = await agentx.images.create(container_id="notes")
            agent = await agentx.images.run(image.image_id)
            async for _ in agent.stream("hello"):
                pass
        shown = await desk.record("session", "show", "last")
        assert shown["sessionId"] == image.session_id
        assert (await desk.record("session", "show", image.session_id[:16]))["sessionId"] == image.session_id
        env = environment(tmp_path, AVM_URL=desk.server.url, AVM_KEY=desk.operator)
        chat = await anyio.to_thread.run_sync(lambda: run_avm("chat", "--session", "last", env=env, given="and again"))
        assert (chat.returncode, chat.stdout) == (0, "and again\n")
        assert image.session_id in chat.stderr
        turn = await desk.record("turn", "show", "last")
        assert turn["sessionId"] == image.session_id
        assert "and again" in await desk.ok("turn", "replay", "last")
        assert (await desk.record("turn", "list", "--session", "last"))[0]["turnId"] == turn["turnId"]
