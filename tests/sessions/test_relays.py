from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.gateways.relays import config_of
from tests.support import answers
from tests.support.provider import Answer, ScriptedProvider, Stall, open_provider

from agentvm.app import open_agentvm
from agentvm.drivers.models import Chosen
from agentvm.drivers.relay import RelayingDriver, RelayRequest
from agentvm.errors import DriverNotFound, Refused, WalletEmpty
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.ledger import Credit, LedgerEntry
from agentvm.sessions import relays
from agentvm.sessions.relays import ModelRelay, RelayPlan
from agentvm.vm import AgentVM

DOLLAR = 10**9


def plan_of(model: str = "anthropic/claude-test", most_output: int = 100) -> RelayPlan:
    return RelayPlan(model=model, driver="anthropic", size=10, most_input=100, input_tokens=40, most_output=most_output)


def build(chosen: Chosen, driver: RelayingDriver) -> RelayRequest:
    return RelayRequest(path="v1/messages", body=b"{}", streams=True)


def start(vm: AgentVM, plan: RelayPlan | None = None) -> ModelRelay:
    return vm.relays.start(DEFAULT_TENANT, None, ContainerId("home"), plan or plan_of(), build)


async def ledger(vm: AgentVM) -> tuple[LedgerEntry, ...]:
    return tuple(entry for _, entry in await vm.store.accounts(DEFAULT_TENANT).ledger.list())


@asynccontextmanager
async def opened(answer: Answer) -> AsyncIterator[tuple[AgentVM, ScriptedProvider]]:
    with anyio.fail_after(60):
        async with open_provider() as provider, open_agentvm(config_of(provider.base_url)) as vm:
            provider.play(answer)
            yield vm, provider


async def test_a_call_is_reserved_made_and_billed_to_its_container() -> None:
    async with opened(answers.anthropic_text("Hi")) as (vm, _):
        relay, pieces = start(vm), list[bytes]()
        while piece := await relay.take():
            pieces.append(piece)
        (entry,) = await ledger(vm)
    assert b"message_stop" in pieces[-1]
    assert (entry.container_id, entry.session_id, entry.model, entry.usage.input_tokens) == ("home", "", "claude-test", 10)
    assert entry.key.startswith("relay_")
    assert relay.failure is relay.untold is None


async def test_a_call_that_cannot_be_paid_for_is_not_made() -> None:
    async with opened(answers.anthropic_text("Hi")) as (vm, provider):
        await vm.store.accounts(DEFAULT_TENANT).ledger.credit(Credit(reference="r", at=1, amount=DOLLAR // 1000, actor="test"))
        await vm.tenancy.quotas.reread(DEFAULT_TENANT)
        relay = start(vm, plan_of(most_output=1_000_000))
        await relay.ended.wait()
        assert isinstance(relay.failure, WalletEmpty)
        assert not provider.requests
        assert await ledger(vm) == ()


async def test_a_model_of_another_protocol_is_not_asked() -> None:
    async with opened(answers.anthropic_text("Hi")) as (vm, provider):
        relay = start(vm, plan_of("deep/deep-1"))
        await relay.ended.wait()
        assert isinstance(relay.failure, DriverNotFound)
        with pytest.raises(DriverNotFound):
            await vm.relays.fetch(DEFAULT_TENANT, "deep/deep-1", "anthropic", RelayRequest(path="v1/models"))
        assert not provider.requests


async def test_a_reader_that_stops_reading_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "PIECES_MAX", 2)
    monkeypatch.setattr(relays, "READ_TIMEOUT_SECONDS", 0.0)
    async with opened(answers.anthropic_text(*["word "] * 20)) as (vm, provider):
        relay = start(vm)
        await relay.ended.wait()
        (entry,) = await ledger(vm)
        assert entry.usage.input_tokens == 10
        assert len(provider.requests) == 1


async def test_a_server_that_stops_bills_the_calls_that_run() -> None:
    stalled = answers.stream([answers.message_start(), *answers.text_block(0, "One ")[:2], Stall()])
    async with opened(stalled) as (vm, _):
        relay = start(vm)
        await relay.take()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.leave)
        (entry,) = await ledger(vm)
        assert (entry.usage.input_tokens, entry.usage.output_tokens) == (10, 2)


async def test_nothing_is_begun_before_the_server_runs_and_after() -> None:
    async with opened(answers.anthropic_text("Hi")) as (vm, _):
        pass
    with pytest.raises(Refused):
        start(vm)
