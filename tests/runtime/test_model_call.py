from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from agentvm.drivers.account_health import AccountHealth
from agentvm.drivers.base import ModelOutput, Prompt, UserEntry
from agentvm.drivers.models import Chosen
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply
from agentvm.errors import ProviderBadRequest, ProviderUnreachable, WalletEmpty
from agentvm.model.ids import TenantId
from agentvm.runtime import model_call
from agentvm.runtime.attached import Filled
from agentvm.runtime.provider_chain import ProviderAttempt, ProviderChain

PROMPT = Prompt(model="m", conversation=(UserEntry(content="hi"),), max_tokens=10, thinking=5)


class Steps:
    """A record that remembers in which order it was called."""

    tenant_id = TenantId("acme")

    def __init__(self, *, refuses: str = "") -> None:
        self.steps: list[str] = []
        self.has_begun = False
        self._refuses = refuses

    @asynccontextmanager
    async def prompt(self, chosen: Chosen) -> AsyncGenerator[Filled | None]:
        yield Filled(PROMPT, lambda: None)

    async def admit(self, chosen: Chosen, prompt: Prompt) -> Prompt:
        if chosen.provider == self._refuses:
            raise WalletEmpty("no more")
        self.steps.append(f"admit {chosen.provider}")
        return prompt

    async def begin(self, asked: ProviderAttempt, prompt: Prompt, attempt: int) -> None:
        assert isinstance(asked.chosen.driver, ScriptedDriver)
        assert not asked.chosen.driver.prompts, "the request left before it was committed that it does"
        self.steps.append(f"begin {attempt}")

    async def receive(self, output: ModelOutput) -> None:
        self.has_begun = True

    async def withdraw(self) -> None:
        self.steps.append("withdraw")

    async def settle(self, chosen: Chosen, *, cut: bool) -> None:
        self.steps.append("settle")

    def check(self, chosen: Chosen) -> None:
        self.steps.append("check")


def candidate(name: str, *steps: ScriptStep) -> Chosen:
    return Chosen(ScriptedDriver(lambda _: steps), "m", AccountHealth(name, lambda: 1).of(None), provider=name)


async def test_an_answered_call_is_committed_before_its_request_and_settled_once() -> None:
    record, one = Steps(), candidate("a", *reply("hello"))
    assert await model_call.ask(ProviderChain([one]), record) is one
    assert record.steps == ["admit a", "begin 1", "settle", "check"]


async def test_a_refused_request_is_withdrawn_and_an_unanswered_one_is_settled() -> None:
    record = Steps()
    with pytest.raises(ProviderBadRequest):
        await model_call.ask(ProviderChain([candidate("a", ProviderBadRequest("what?"))]), record)
    assert record.steps == ["admit a", "begin 1", "withdraw"]
    silent = ProviderUnreachable("out")
    silent.unanswered = True
    record, well = Steps(), candidate("b", *reply("hello"))
    assert await model_call.ask(ProviderChain([candidate("a", silent), well]), record) is well
    assert record.steps == ["admit a", "begin 1", "settle", "admit b", "begin 2", "settle", "check"]


async def test_a_fallback_that_must_not_be_paid_for_is_passed_over() -> None:
    record, last = Steps(refuses="b"), candidate("c", *reply("hello"))
    line = [candidate("a", ProviderUnreachable("out")), candidate("b", *reply("never")), last]
    assert await model_call.ask(ProviderChain(line), record) is last
    assert record.steps == ["admit a", "begin 1", "withdraw", "admit c", "begin 2", "settle", "check"]
    with pytest.raises(WalletEmpty):
        await model_call.ask(ProviderChain([candidate("b", *reply("never"))]), Steps(refuses="b"))


async def test_a_plan_counts_the_answer_with_its_thinking() -> None:
    planned = model_call.plan(candidate("a"), PROMPT, TenantId("acme"), None, conversation=7)
    assert (planned.provider, planned.most_output, planned.least_output) == ("a", 15, None)
    assert planned.most_input >= 7
