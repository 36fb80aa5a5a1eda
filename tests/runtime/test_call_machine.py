"""The life of a call as a machine: whatever people, tools and crashes do, it ends with one result and moves legally."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.runtime.test_calls import CALL, wait
from tests.support.examples import examples

from agentvm.model.policy import Decision, PolicyRule
from agentvm.model.tool import Effect, World
from agentvm.model.wait import ToolWait, WaitAnswer, WaitDecision, WaitKind
from agentvm.runtime.calls import LOST, Held, Run, ToolOutcome, begin, resume
from agentvm.runtime.policy import CallFacts, PolicyLayer, decide

ALLOWED: dict[WaitKind, tuple[WaitDecision, ...]] = {
    "approval": ("approve", "edit", "deny", "expired", "superseded"),
    "client": ("answer", "deny", "expired", "superseded"),
    "elicitation": ("answer", "deny", "expired", "superseded"),
    "consent": ("approve", "deny", "expired", "superseded"),
}
REFUSALS = ("deny", "expired", "superseded")


class CallLife(RuleBasedStateMachine):
    """One call, from the decision about it. The row of its wait, or that it was started without one, is what a crash leaves."""

    @initialize(
        do=st.sampled_from(["allow", "ask", "deny", None]),
        effect=st.sampled_from(["read", "write", "destructive"]),
        world=st.sampled_from(["closed", "open"]),
        unattended=st.booleans(),
        asks=st.booleans(),
        waits_for=st.sampled_from([None, "client"]),
        repeatable=st.booleans(),
    )
    def plan(
        self, do: Decision | None, effect: Effect, world: World, unattended: bool, asks: bool,
        waits_for: WaitKind | None, repeatable: bool,
    ) -> None:  # fmt: skip
        facts = CallFacts(tool="hammer", runtime="http", effect=effect, world=world, unattended=unattended, asks=asks)
        layers = [] if do is None else [PolicyLayer("tenant", [PolicyRule(do=do)])]
        self.repeatable, self.runs = repeatable, False
        self.row: ToolWait | None = None
        self.made = 0
        """Times that the call was made in this round."""
        self.results: list[ToolOutcome] = []
        verdict = decide(facts, layers)
        match begin(CALL, verdict, waits_for):
            case ToolOutcome() as outcome:
                assert (outcome.is_denied, verdict.do) == (True, "deny")
                assert do == "deny" or unattended
                self.results.append(outcome)
            case Run(call=call, wait=None):
                # Nothing runs that is to be asked about: a rule, the author, or the server's own rules.
                assert (call, verdict.do, asks, waits_for) == (CALL, "allow", False, None)
                assert do == "allow" or (do is None and effect != "destructive" and (effect, world) != ("write", "open"))
                self.made, self.runs = 1, True
            case kind:
                assert kind == (waits_for or "approval")
                assert verdict.do == "ask" or waits_for
                self.row = wait(kind=kind)

    @precondition(lambda self: self.row is None and not self.results and not self.runs)
    @rule()
    def recover(self) -> None:
        """A call that was started without a wait, after a crash."""
        if self.repeatable:
            self.made, self.runs = self.made + 1, True
        else:
            self.results.append(ToolOutcome(LOST, True))

    @precondition(lambda self: self.row is not None and not self.results and self.row.answer is None)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        assert self.row is not None
        decision = data.draw(st.sampled_from(ALLOWED[self.row.kind]))
        given = {"input": {"n": 2}} if decision == "edit" else {"result": {}} if decision == "answer" else {}
        self.row = msgspec.structs.replace(self.row, answer=WaitAnswer(decision=decision, **given))  # type: ignore[arg-type]

    @precondition(lambda self: self.row is not None and not self.results and not self.runs)
    @rule()
    def look(self) -> None:
        """The turn looks what is to be done, now or after a restart."""
        assert self.row is not None
        before, answer = self.row, self.row.answer
        match resume(CALL, self.row, repeatable=self.repeatable):
            case Held(wait=held):
                assert (held, answer) == (before, None)
            case Run(call=call):
                assert answer is not None
                assert answer.decision in ("approve", "edit", "answer")
                assert self.row.kind != "client"
                assert call.input == ({"n": 2} if answer.decision == "edit" else self.row.input)
                assert self.made == 0 or self.repeatable
                self.row = msgspec.structs.replace(self.row, started_at=5)
                self.made, self.runs = self.made + 1, True
            case ToolOutcome() as outcome:
                assert answer is not None
                if outcome.result == LOST:
                    assert self.made == 1
                    assert not self.repeatable
                else:
                    assert self.made == 0 or self.repeatable
                    assert outcome.is_denied is (answer.decision in REFUSALS)
                    assert outcome.is_denied or self.row.kind == "client"
                self.results.append(outcome)

    @precondition(lambda self: self.runs)
    @rule(fails=st.booleans())
    def finish(self, fails: bool) -> None:
        self.runs = False
        self.results.append(ToolOutcome("x", fails))

    @precondition(lambda self: self.runs)
    @rule(kind=st.sampled_from(["elicitation", "consent"]))
    def ask(self, kind: WaitKind) -> None:
        """The tool needs a person: it waits in the next round, with the input that people have left it."""
        before = self.row or wait(kind=kind)
        edited = None if before.answer is None else before.answer.input
        self.row = msgspec.structs.replace(
            wait(kind=kind), round=before.round + 1, input=before.input if edited is None else edited,
            is_edited=before.is_edited or edited is not None,
        )  # fmt: skip
        self.runs, self.made = False, 0

    @precondition(lambda self: self.runs)
    @rule()
    def crash(self) -> None:
        self.runs = False

    @precondition(lambda self: self.results)
    @rule()
    def rest(self) -> None:
        """A call that has its result is over: no other rule applies to it."""

    @invariant()
    def one_result(self) -> None:
        results = getattr(self, "results", [])
        assert len(results) <= 1
        assert not (results and self.runs)

    def teardown(self) -> None:
        """Whoever answers in the end, the call comes to its result."""
        if not hasattr(self, "results"):
            return
        if self.runs:
            self.crash()
        if self.row is None and not self.results:
            self.recover()
        if self.row is not None and not self.results and self.row.answer is None:
            self.row = msgspec.structs.replace(self.row, answer=WaitAnswer(decision="expired"))
        if self.row is not None and not self.results:
            self.look()
        if self.runs:
            self.finish(False)
        assert len(self.results) == 1


TestCallLife = CallLife.TestCase
TestCallLife.settings = settings(max_examples=examples(150, 4_000), stateful_step_count=12, deadline=None)
