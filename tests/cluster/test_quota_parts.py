"""Limits of a tenant hold for all nodes together, and what one node does not use is there for the others."""

import anyio
import pytest
from tests.cluster.conftest import Gate
from tests.cluster.talking import Talker
from tests.faults.process import until

from agentvm.errors import Conflict, QuotaExceeded, WalletEmpty
from agentvm.model.account import Quota
from agentvm.model.ids import UserId
from agentvm.model.ledger import Credit
from agentvm.tenants.wallet import add_credit
from agentvm.vm import OPEN_ACCESS, AgentVM

TENANT = OPEN_ACCESS.tenant_id
ALICE = UserId("alice")

Nodes = tuple[AgentVM, AgentVM]


async def limit(nodes: Nodes, metric: str, hard: int, user_id: UserId | None = None) -> None:
    await nodes[0].store.accounts(TENANT).quotas.put(Quota(metric=metric, hard=hard, user_id=user_id), 1)
    for node in nodes:
        await node.tenancy.quotas.reread(TENANT)


async def credit(node: AgentVM, amount: int, reference: str) -> None:
    ledger = node.store.accounts(TENANT).ledger
    await add_credit(
        ledger, node.tenancy.quotas, TENANT, Credit(reference=reference, at=1, amount=amount, note=None, actor="x")
    )


def be_asked_again(nodes: Nodes) -> None:
    """As half a second after a refusal, in which nobody is asked."""
    for node in nodes:
        assert node.tenancy.quotas.parts is not None
        node.tenancy.quotas.parts.forget_refusals()


@pytest.mark.parametrize("user_id", [None, ALICE])
async def test_requests_per_minute_are_those_of_all_nodes(
    nodes: Nodes, user_id: UserId | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limit(nodes, "requests_per_minute", 20, user_id)
    # A minute must not end in between: the time of both stands still.
    now = nodes[0].clock()
    for node in nodes:
        for counting in (node.tenancy.quotas, node.tenancy.quotas.parts):
            monkeypatch.setattr(counting, "_clock", lambda: now)
    # The first takes more than it uses; the second gets the rest of it all the same.
    for _ in range(5):
        await nodes[0].tenancy.quotas.hit(TENANT, user_id)
    for _ in range(15):
        await nodes[1].tenancy.quotas.hit(TENANT, user_id)
    for node in nodes:
        with pytest.raises(QuotaExceeded) as refused:
            await node.tenancy.quotas.hit(TENANT, user_id)
        assert refused.value.details["used"] == 20


async def test_no_token_and_no_money_is_spent_twice_and_none_is_left_over(nodes: Nodes) -> None:
    await limit(nodes, "tokens_per_day", 1_200)
    await limit(nodes, "budget_per_month", 900)
    await credit(nodes[0], 500, "first")
    await nodes[1].tenancy.quotas.reread(TENANT)
    held = []

    async def call(node: AgentVM) -> None:
        while True:
            try:
                held.append(await node.tenancy.quotas.hold(TENANT, None, 20, 10, force=False))
            except WalletEmpty:
                return

    async with anyio.create_task_group() as tasks:
        for node in nodes:
            tasks.start_soon(call, node)
    # 500 of money are 50 calls; of those each uses half of what it had set aside.
    assert len(held) == 50
    for one in held:
        one.settle(10, 5)
    be_asked_again(nodes)
    assert len([await nodes[1].tenancy.quotas.hold(TENANT, None, 20, 10, force=False) for _ in range(25)]) == 25
    be_asked_again(nodes)
    assert len([await nodes[0].tenancy.quotas.hold(TENANT, None, 20, 0, force=False) for _ in range(10)]) == 10
    for node in nodes:
        with pytest.raises(QuotaExceeded):
            await node.tenancy.quotas.hold(TENANT, None, 20, 0, force=False)


async def test_a_call_gets_as_long_an_answer_as_all_nodes_together_have_left(nodes: Nodes) -> None:
    await limit(nodes, "tokens_per_day", 1_000)
    await nodes[0].tenancy.quotas.hold(TENANT, None, 600, 0, force=False)
    left = await nodes[1].tenancy.quotas.remaining(TENANT, None, 5_000, 0)
    assert left.tokens == 400


async def test_credit_that_is_added_or_withdrawn_on_a_node_is_known_to_the_others(nodes: Nodes) -> None:
    a, b = nodes
    await credit(a, 100, "first")
    await b.tenancy.quotas.reread(TENANT)
    held = await a.tenancy.quotas.hold(TENANT, None, 0, 60, force=False)
    with pytest.raises(Conflict):
        await credit(b, -50, "too much")
    await credit(b, -30, "back")
    with pytest.raises(WalletEmpty):
        await b.tenancy.quotas.hold(TENANT, None, 0, 11, force=False)
    await b.tenancy.quotas.hold(TENANT, None, 0, 10, force=False)
    with pytest.raises(WalletEmpty):
        await a.tenancy.quotas.hold(TENANT, None, 0, 1, force=False)
    await credit(a, 100, "second")

    async def knows() -> bool:
        assert b.membership is not None
        b.membership.note_beat()
        return (await b.tenancy.quotas.book(TENANT)).wallet.credited == 170

    with anyio.fail_after(60):
        while not await knows():
            await anyio.lowlevel.checkpoint()
    await b.tenancy.quotas.hold(TENANT, None, 0, 50, force=False)
    held.release()


async def test_turns_and_connections_at_a_time_are_those_of_all_nodes(nodes: Nodes, gate: Gate) -> None:
    await limit(nodes, "running_agents", 1)
    # A connection from before there was a limit counts as well.
    await nodes[0].admit(OPEN_ACCESS)
    first = Talker(nodes[0])
    await limit(nodes, "connections", 2)
    await nodes[1].admit(OPEN_ACCESS)
    second = Talker(nodes[1])
    with pytest.raises(QuotaExceeded):
        await nodes[1].admit(OPEN_ACCESS)
    nodes[0].detach(first.peer)
    be_asked_again(nodes)
    await nodes[1].admit(OPEN_ACCESS)
    first = Talker(nodes[0])
    image_id, session_id = await first.create()
    other, _ = await second.create()
    first.listen(session_id)
    await first.send(image_id, "hold")
    with pytest.raises(QuotaExceeded):
        await second.send(other, "now?")
    gate.opened.set()
    await first.until("turn_response")
    with anyio.fail_after(60):
        await until(lambda: nodes[0].runtime.roster.count_running(TENANT) == 0)
    be_asked_again(nodes)
    await second.send(other, "now?")


async def test_tool_calls_wait_for_those_of_other_nodes(nodes: Nodes) -> None:
    await limit(nodes, "running_tools", 1)
    a, b = (node.runtime.tool_meter for node in nodes)
    ran: list[str] = []

    async def run_there() -> None:
        async with b.running(TENANT):
            ran.append("b")

    async with anyio.create_task_group() as tasks:
        async with a.running(TENANT):
            tasks.start_soon(run_there)
            await anyio.wait_all_tasks_blocked()
            ran.append("a")
    assert ran == ["a", "b"]
