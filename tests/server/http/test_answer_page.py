"""One-use links: looking decides nothing, the form decides once."""

from functools import partial
from typing import Any

import anyio
import msgspec
import pytest
from tests.operations.fixtures import Desk
from tests.operations.test_tool import struck, waiting
from tests.server.http.fixtures import Reply, request

from agentvm.errors import InvalidInput, PermissionDenied
from agentvm.errors.cluster import SessionMoved
from agentvm.errors.tool import WaitAlreadyAnswered, WaitForbidden, WaitNotFound
from agentvm.model.account import ApiKey, User
from agentvm.model.ids import DEFAULT_TENANT, KeyId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.operations.context import Context
from agentvm.operations.tool import WaitLinkMake, WaitLinkReply, make_link
from agentvm.server.http.answer_page import STYLE, answer_routes
from agentvm.server.http.api import ManagementApi
from agentvm.server.http.reference import source_of
from agentvm.vm import OPEN_ACCESS

pytestmark = pytest.mark.anyio


async def link(desk: Desk, wait: Any, principal: Principal = OPEN_ACCESS, **more: Any) -> str:
    context = Context(vm=desk.vm, workspace=desk.vm.attach(principal).workspace)
    fields = {"wait_id": wait["waitId"], "fingerprint": wait["fingerprint"], **more}
    made: WaitLinkReply = await make_link(context, WaitLinkMake(**fields))
    return made.path


async def ask(desk: Desk, method: str, path: str, body: str = "") -> Reply:
    app = ManagementApi(answer_routes(desk.vm), lambda request: None)
    return await request(app, method, path, [(b"content-type", b"application/x-www-form-urlencoded")], body.encode())


async def test_the_page_shows_the_call_and_decides_nothing() -> None:
    async with waiting() as (desk, wait):
        path = await link(desk, wait)
        for _ in range(3):
            shown = await ask(desk, "GET", path)
            assert shown.status == 200
            assert b"hammer" in shown.raw
            assert b"<script" not in shown.raw
        policy = shown.headers["content-security-policy"]
        assert policy.startswith(f"default-src 'none'; style-src {source_of(STYLE)};")
        assert "script-src" not in policy
        assert (shown.headers["referrer-policy"], shown.headers["cache-control"]) == ("no-referrer", "no-store")
        assert len((await desk.ask("tool_waits", state="open"))["waits"]) == 1
        assert struck == []


async def test_characters_that_nobody_sees_cannot_hide_or_turn_around_what_is_approved() -> None:
    async with waiting(path="a\u202egpj.exe\u200b\x7f") as (desk, wait):
        shown = await ask(desk, "GET", await link(desk, wait))
        assert rb"a\u202egpj.exe\u200b\u007f" in shown.raw


@pytest.mark.parametrize(("decision", "runs"), [("approve", [1]), ("deny&reason=too+loud%3Cb%3E", [])])
async def test_the_form_decides_once_and_is_audited(decision: str, runs: list[int]) -> None:
    async with waiting() as (desk, wait):
        path = await link(desk, wait)
        assert (await ask(desk, "POST", path, "decision=perhaps")).status == 422
        assert (await ask(desk, "POST", path, f"decision={decision}")).status == 200
        heard = await desk.hear("turn_response")
        assert struck == runs
        reasons = [event["data"]["reason"] for event in heard if event["type"] == "tool_denied"]
        assert reasons == ([] if runs else ["The call was denied: too loud<b>"])
        for method in ("GET", "POST"):
            assert (await ask(desk, method, path, "decision=approve")).status == 410
        entries = await desk.peer.workspace.accounts.audit.list(limit=10)
        assert [entry.result for _, entry in entries if entry.action == "wait.answer_by_link"] == ["ok"]


async def test_a_link_whose_answer_could_not_be_stored_is_good_for_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> bool:
        raise SessionMoved("s", 2)

    async with waiting() as (desk, wait):
        path = await link(desk, wait)
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(desk.vm.runtime, "answer_wait", fail)
            assert (await ask(desk, "POST", path, "decision=approve")).status >= 400
        assert (await ask(desk, "POST", path, "decision=approve")).status == 200
        await desk.hear("turn_response")
        assert struck == [1]


async def test_the_token_is_not_stored_and_a_link_ends_with_its_wait_and_its_time() -> None:
    async with waiting() as (desk, wait):
        first, second = await link(desk, wait), await link(desk, wait)
        token = first.rpartition("/")[2]
        rows = await desk.vm.store._database.read(lambda connection: connection.fetch("SELECT * FROM wait_links"))
        assert len(rows) == 2
        assert token not in str(rows)
        assert await desk.vm.store.wait_links.find(token, wait["expiresAt"] + 1) is None
        assert (await ask(desk, "GET", "/answer/unknown")).status == 410
        answer = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"], "decision": "deny"}
        await desk.ask("tool_answer", **answer)
        await desk.hear("turn_response")
        for path in (first, second):
            assert (await ask(desk, "POST", path, "decision=approve")).status == 410
        with pytest.raises(WaitAlreadyAnswered):
            await link(desk, wait)
        assert struck == []


async def test_only_who_may_answer_makes_a_link() -> None:
    async with waiting() as (desk, wait):
        with pytest.raises(InvalidInput, match="fingerprint"):
            await link(desk, {**wait, "fingerprint": "sha256:0"})
        await desk.vm.store._database.write(
            lambda connection: connection.execute(
                "UPDATE waits SET body = CAST(replace(CAST(body AS TEXT), '\"sender\"', '\"admins\"') AS BLOB)"
            )
        )
        member = Principal(tenant_id=DEFAULT_TENANT, user_id=UserId("bob"), permissions=MEMBER)
        with pytest.raises(WaitForbidden):
            await link(desk, wait, member)


@pytest.mark.parametrize("ends", ["user", "key", "tenant"])
async def test_a_link_ends_with_the_rights_of_who_made_it(ends: str) -> None:
    async with waiting() as (desk, wait):
        tenant_id, store, now = DEFAULT_TENANT, desk.vm.store, desk.vm.clock()
        people, users = desk.vm.tenancy.people, store.accounts(tenant_id).users
        ann = User(user_id=UserId("ann"), tenant_id=tenant_id, external_id="ann", role="owner", created_at=now, updated_at=now)
        await users.add(ann)
        await people.bind(tenant_id, ann.user_id, wait["containerId"])
        key = ApiKey(
            key_id=KeyId("k1"), tenant_id=tenant_id, name="", user_id=ann.user_id, role="owner",
            permissions=tuple(MEMBER), created_by="", created_at=now,
        )  # fmt: skip
        await store.accounts(tenant_id).keys.add(key, b"digest")
        principal = await desk.vm.tenancy.access.recall(tenant_id, ann.user_id, key.key_id)
        assert principal is not None
        path = await link(desk, wait, principal)
        assert (await ask(desk, "GET", path)).status == 200
        if ends == "user":
            assert await people.change_user(ann.tenant_id, ann.user_id, partial(msgspec.structs.replace, status="suspended"))
        elif ends == "key":
            assert await store.accounts(tenant_id).keys.revoke(key.key_id, now)
        else:
            await store._database.write(lambda connection: connection.execute("UPDATE tenants SET status = 'suspended'"))
        for method in ("GET", "POST"):
            assert (await ask(desk, method, path, "decision=approve")).status == 410
        assert struck == []


async def test_who_may_not_read_the_call_makes_no_page_of_it() -> None:
    async with waiting() as (desk, wait):
        with pytest.raises(PermissionDenied):
            await link(desk, wait, Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({"agent:use"})))


async def test_strangers_make_no_link_and_do_not_learn_of_the_wait() -> None:
    async with waiting() as (desk, wait):
        strangers = [
            Principal(tenant_id=TenantId("rival"), permissions=EVERYTHING),
            Principal(tenant_id=DEFAULT_TENANT, user_id=UserId("eve"), permissions=MEMBER, containers=("c9",)),
        ]
        for stranger in strangers:
            refused = []
            for wait_id in (wait["waitId"], "wait_none"):
                with pytest.raises(WaitNotFound) as error:
                    await link(desk, {**wait, "waitId": wait_id}, stranger)
                refused.append(str(error.value).replace(wait_id, ""))
            assert refused[0] == refused[1]
        rows = await desk.vm.store._database.read(lambda connection: connection.fetch("SELECT * FROM wait_links"))
        assert rows == []


async def test_of_two_who_send_the_form_at_once_one_decides() -> None:
    async with waiting() as (desk, wait):
        path, replies = await link(desk, wait), list[int]()

        async def send(decision: str) -> None:
            replies.append((await ask(desk, "POST", path, f"decision={decision}")).status)

        async with anyio.create_task_group() as tasks:
            for decision in ("approve", "deny"):
                tasks.start_soon(send, decision)
        await desk.hear("turn_response")
        assert sorted(replies) == [200, 410]


async def test_a_link_that_has_expired_shows_and_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with waiting() as (desk, wait):
        path = await link(desk, wait)
        monkeypatch.setattr(desk.vm, "clock", lambda: wait["expiresAt"])
        for method in ("GET", "POST"):
            reply = await ask(desk, method, path, "decision=approve")
            assert reply.status == 410
            assert b"hammer" not in reply.raw
        assert struck == []
        assert len((await desk.ask("tool_waits", state="open"))["waits"]) == 1
