"""Waits beside everything else that people do with a session, and who reaches them."""

from contextlib import nullcontext
from typing import Any, Literal, cast

import pytest
from tests.operations.fixtures import Desk, ask_at_once
from tests.operations.test_tool import answer_to, struck, waiting

from agentvm.errors.tool import WaitForbidden
from agentvm.model.account import UserRole
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, KeyId, SessionId, TurnId, UserId
from agentvm.model.policy import Approval
from agentvm.model.principal import MEMBER, Principal
from agentvm.model.wait import ToolWait, WaitId
from agentvm.operations.wait_answer import check_audience, why_not_answer
from agentvm.storage.sessions import TurnQuery

pytestmark = pytest.mark.anyio


async def open_waits(desk: Desk) -> list[Any]:
    waits: list[Any] = (await desk.ask("tool_waits", state="open"))["waits"]
    return waits


async def image_of(desk: Desk, wait: Any) -> str:
    session = await desk.ask("session_get", sessionId=wait["sessionId"])
    return str(session["session"]["imageId"])


async def test_a_fork_of_a_session_that_waits_goes_on_by_itself_and_leaves_the_wait_alone() -> None:
    async with waiting() as (desk, wait):
        fork = (await desk.ask("session_fork", sessionId=wait["sessionId"]))["session"]
        desk.forget()
        await desk.ask("message_send", imageId=fork["imageId"], sessionId=fork["sessionId"], content="hi")
        heard = await desk.hear("turn_response")
        assert [event["data"]["outcome"] for event in heard if event["type"] == "turn_response"] == ["completed"]
        assert struck == []
        assert [other["waitId"] for other in await open_waits(desk)] == [wait["waitId"]]


async def test_a_wait_is_away_while_its_session_is_deleted_and_back_when_it_is_restored() -> None:
    async with waiting() as (desk, wait):
        await desk.ask("session_delete", sessionId=wait["sessionId"])
        assert await open_waits(desk) == []
        refused = await desk.ask("tool_answer", **answer_to(wait, decision="approve"))
        assert refused["errorCode"] == "wait_not_found"
        await desk.ask("session_restore", sessionId=wait["sessionId"])
        await desk.ask("tool_answer", **answer_to(wait, decision="approve"))
        await desk.hear("turn_response")
        assert struck == [1]


async def test_a_wait_goes_with_its_image() -> None:
    async with waiting() as (desk, wait):
        await desk.ask("image_delete", imageId=await image_of(desk, wait))
        refused = await desk.ask("tool_answer", **answer_to(wait, decision="approve"))
        assert refused["errorCode"] == "wait_not_found"
        assert await open_waits(desk) == []


async def test_of_two_answers_at_once_one_counts() -> None:
    async with waiting() as (desk, wait):
        codes = await ask_at_once(
            [(desk.another(), "tool_answer", answer_to(wait, decision=decision)) for decision in ("approve", "deny")]
        )
        assert codes == ["wait_answered"]
        heard = await desk.hear("turn_response")
        (told,) = [event["data"]["decision"] for event in heard if event["type"] == "tool_answered"]
        assert struck == ([1] if told == "approve" else [])


async def test_an_interrupt_ends_a_turn_whose_agent_has_left_memory() -> None:
    async with waiting() as (desk, wait):
        image_id, runtime = await image_of(desk, wait), desk.vm.runtime
        for agent in list(runtime.roster):
            await runtime.stop_agent(agent)
        assert (await desk.ask("agent_interrupt", imageId=image_id, sessionId="sess_none")) == {"imageId": image_id}
        assert len(await open_waits(desk)) == 1
        await desk.ask("agent_interrupt", imageId=image_id)
        await desk.hear("turn_response")
        assert await open_waits(desk) == []
        assert struck == []


async def test_a_turn_that_waits_is_listed_as_parked_and_not_as_running() -> None:
    async with waiting() as (desk, wait):
        turns = desk.vm.runtime._ports.store.tenant(DEFAULT_TENANT).sessions(None).turns
        outcomes: tuple[Literal["running", "parked"], ...] = ("running", "parked")
        listed = [(await turns(TurnQuery(outcome=outcome, now=9_999))).items for outcome in outcomes]
        assert [[turn.turn_id for turn in page] for page in listed] == [[], [wait["turnId"]]]


async def test_a_key_of_another_container_does_not_reach_a_wait() -> None:
    async with waiting() as (desk, wait):
        principal = Principal(tenant_id=DEFAULT_TENANT, user_id=UserId("bob"), permissions=MEMBER, containers=("other",))
        bob = Desk(desk.vm, desk.vm.attach(principal))
        assert (await bob.ask("tool_waits"))["waits"] == []
        assert (await bob.ask("tool_waits", containerId="c1"))["errorCode"] == "container_forbidden"
        refused = await bob.ask("tool_answer", **answer_to(wait, decision="approve"))
        assert refused["errorCode"] == "wait_not_found"
        assert struck == []


@pytest.mark.parametrize(
    ("audience", "not_sender", "user", "rights", "may"),
    [
        ("sender", False, "alice", MEMBER, True),
        ("sender", False, "bob", MEMBER, False),
        ("sender", False, None, MEMBER, True),
        ("sender", True, "alice", MEMBER, False),
        ("admins", False, "alice", MEMBER, False),
        ("admins", False, "bob", MEMBER | {"tenants:admin"}, True),
        ("admins", True, "alice", MEMBER | {"tenants:admin"}, False),
        ("owner", False, "bob", MEMBER, False),
        ("owner", False, "bob", MEMBER | {"tenants:admin"}, False),
        ("owner", False, "bob", "owner", True),
        ("owner", True, "alice", "owner", False),
        ("owner", False, None, MEMBER | {"tenants:admin"}, True),
        ("owner", False, None, MEMBER, False),
        ("user:bob", False, "bob", MEMBER, True),
        ("user:bob", False, "alice", MEMBER, False),
        ("user:bob", False, None, MEMBER, False),
    ],
)
def test_who_may_answer(
    audience: str, not_sender: bool, user: str | None, rights: frozenset[str] | Literal["owner"], may: bool
) -> None:
    user_id = None if user is None else UserId(user)
    role, permissions = ("owner", MEMBER | {"tenants:admin"}) if rights == "owner" else ("member", rights)
    principal = Principal(
        tenant_id=DEFAULT_TENANT,
        user_id=user_id,
        permissions=frozenset(permissions),
        role=None if user is None else cast(UserRole, role),
    )
    wait = ToolWait(
        wait_id=WaitId("w"),
        container_id=ContainerId("c1"),
        session_id=SessionId("s"),
        turn_id=TurnId("t"),
        call_id="c",
        kind="approval",
        tool="hammer",
        fingerprint="",
        input={},
        why="",
        audience=audience,
        not_sender=not_sender,
        sender=UserId("alice"),
        asked_at=1,
        expires_at=2,
    )
    with nullcontext() if may else pytest.raises(WaitForbidden):
        check_audience(principal, wait)


@pytest.mark.parametrize(
    ("sender_key", "key", "may"), [("k1", "k1", False), ("k1", "k2", True), (None, None, False), (None, "k2", True)]
)
def test_a_key_without_a_user_does_not_approve_what_it_has_sent_itself(
    sender_key: str | None, key: str | None, may: bool
) -> None:
    principal = Principal(
        tenant_id=DEFAULT_TENANT, key_id=None if key is None else KeyId(key), permissions=MEMBER | {"tenants:admin"}
    )
    approval = Approval(audience="admins", not_sender=True)
    why = why_not_answer(principal, approval, None, None if sender_key is None else KeyId(sender_key))
    assert (why is None) == may


async def test_a_key_that_may_not_read_sessions_sees_no_content_of_a_wait() -> None:
    async with waiting() as (desk, wait):
        blind = Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({"agent:use"}))
        (seen,) = (await Desk(desk.vm, desk.vm.attach(blind)).ask("tool_waits"))["waits"]
        assert seen["waitId"] == wait["waitId"]
        assert (seen["tool"], seen["fingerprint"]) == (wait["tool"], wait["fingerprint"])
        assert not {"input", "questions", "url", "answer"} & set(seen)
        assert wait["input"] == {"n": 1}


async def test_an_approval_in_a_session_that_is_set_aside_is_refused_and_the_wait_stays() -> None:
    async with waiting() as (desk, wait):
        place = (ContainerId(wait["containerId"]), SessionId(wait["sessionId"]))
        await desk.vm.runtime.quarantine.put(DEFAULT_TENANT, *place, "a test")
        refused = await desk.ask("tool_answer", **answer_to(wait, decision="approve"))
        assert refused["errorCode"] == "session_quarantined"
        assert len(await open_waits(desk)) == 1
        await desk.vm.runtime.quarantine.release(DEFAULT_TENANT, *place)
        await desk.ask("tool_answer", **answer_to(wait, decision="approve"))
        await desk.hear("turn_response")
        assert struck == [1]


@pytest.mark.parametrize("command", ["agent_destroy", "agent_destroy_all", "image_stop"])
async def test_who_stops_the_agent_of_a_parked_turn_ends_the_turn(command: str) -> None:
    async with waiting() as (desk, wait):
        image_id = await image_of(desk, wait)
        (agent,) = (await desk.ask("agent_list", containerId=wait["containerId"]))["agents"]
        named = {"agentId": agent["agentId"], "containerId": wait["containerId"], "imageId": image_id}
        wanted = {"agent_destroy": "agentId", "agent_destroy_all": "containerId", "image_stop": "imageId"}[command]
        await desk.ask(command, **{wanted: named[wanted]})
        heard = await desk.hear("turn_response")
        assert [event["data"]["outcome"] for event in heard if event["type"] == "turn_response"] == ["interrupted"]
        assert await open_waits(desk) == []
        assert struck == []
