from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.policy import Approval, Condition, Decision, Policy, PolicyRule
from agentvm.model.tool import Effect, ToolRuntime, World
from agentvm.runtime.policy import CallFacts, PolicyLayer, decide, layers_of, matches

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def call(tool: str = "files__read", effect: Effect = "read", world: World = "closed", **more: object) -> CallFacts:
    return CallFacts(tool=tool, runtime="mcp", effect=effect, world=world, **more)  # type: ignore[arg-type]


def layer(*rules: PolicyRule, name: str = "tenant") -> PolicyLayer:
    return PolicyLayer(name, rules)


decisions: st.SearchStrategy[Decision] = st.sampled_from(["allow", "ask", "deny"])
rules = st.builds(
    PolicyRule,
    do=decisions,
    tool=st.sampled_from([None, "*", "files__*", "web"]),
    effect=st.sampled_from([None, *get_args(Effect)]),
    world=st.sampled_from([None, *get_args(World)]),
    tainted=st.sampled_from([None, True, False]),
)
layers = st.lists(st.builds(PolicyLayer, st.just("layer"), st.lists(rules, max_size=3)), max_size=3)
calls = st.builds(
    CallFacts,
    tool=st.sampled_from(["files__read", "web", "other"]),
    runtime=st.sampled_from(get_args(ToolRuntime)),
    effect=st.sampled_from(get_args(Effect)),
    world=st.sampled_from(get_args(World)),
    tainted=st.booleans(),
)


@given(calls, layers, rules)
def test_one_more_layer_never_loosens_what_the_others_decide(
    facts: CallFacts, given_layers: list[PolicyLayer], rule: PolicyRule
) -> None:
    spoken = any(matches(facts, one) for each in given_layers for one in each.rules)
    before = decide(facts, given_layers)
    after = decide(facts, [*given_layers, layer(rule, name="image")])
    # Where nobody has spoken the shipped default decides, and gives way to whoever speaks first.
    assert not spoken or STRICTNESS[after.do] >= STRICTNESS[before.do]


@given(calls, layers, rules)
def test_an_image_never_loosens_anything(facts: CallFacts, given_layers: list[PolicyLayer], rule: PolicyRule) -> None:
    image = PolicyLayer("image", (rule,), only_tightens=True)
    before, after = decide(facts, given_layers), decide(facts, [*given_layers, image])
    assert STRICTNESS[after.do] >= STRICTNESS[before.do]


@given(st.lists(rules, max_size=3), st.lists(rules, max_size=3), st.lists(rules, max_size=3), calls)
def test_the_strictest_of_all_layers_wins(
    operator: list[PolicyRule], tenant: list[PolicyRule], image: list[PolicyRule], facts: CallFacts
) -> None:
    whole = layers_of(Policy(rules=tuple(operator)), Policy(rules=tuple(tenant)), image)
    spoken = [rule.do for each in whole for rule in [next((rule for rule in each.rules if matches(facts, rule)), None)] if rule]
    assert all(STRICTNESS[decide(facts, whole).do] >= STRICTNESS[do] for do in spoken)


def test_a_tenant_without_rules_has_the_operators_once() -> None:
    policy = Policy(rules=(PolicyRule(do="ask", tainted=True, world="open", effect="write"),))
    (only,) = layers_of(policy, policy, ())
    assert only.name == "operator"
    facts = call(effect="write", world="open", tainted=True)
    third = Policy(rules=(PolicyRule(do="deny", tool="x"), PolicyRule(do="deny", tool="y"), *policy.rules))
    assert decide(facts, layers_of(None, third, ())).why == "tenant rule 3: tainted, open, write"


@given(calls, layers)
def test_every_call_has_one_decision_with_its_reason(facts: CallFacts, given_layers: list[PolicyLayer]) -> None:
    verdict = decide(facts, given_layers)
    assert verdict == decide(facts, given_layers)
    assert verdict.why


@pytest.mark.parametrize(
    ("facts", "do"),
    [
        (call(), "allow"),
        (call(effect="write"), "allow"),
        (call(world="open"), "allow"),
        (call(effect="write", world="open"), "ask"),
        (call(effect="destructive"), "ask"),
        (call(effect="destructive", unattended=True), "deny"),
        (call(asks=True), "ask"),
    ],
)
def test_without_rules_only_what_changes_the_world_or_destroys_is_asked_about(facts: CallFacts, do: Decision) -> None:
    assert decide(facts, []).do == do


def test_the_first_rule_of_a_layer_that_matches_speaks_for_it() -> None:
    rules = layer(PolicyRule(tool="files__*", do="allow"), PolicyRule(do="deny"))
    assert decide(call(), [rules]).do == "allow"
    assert decide(call(tool="web"), [rules]).why == "tenant rule 2: any call"


def test_the_reason_names_the_layer_the_rule_and_the_members_that_matched() -> None:
    rule = PolicyRule(tainted=True, world="open", effect="write", do="ask", when={"/to": Condition(exists=True)})
    facts = call(effect="write", world="open", tainted=True, input={"to": "x"})
    assert decide(facts, [layer(rule)]).why == "tenant rule 1: tainted, open, write, input /to"


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        (Condition(eq="a"), "a", True), (Condition(eq=1), True, False), (Condition(eq=None), None, True),
        (Condition(ne="a"), "b", True), (Condition(ne="a"), "a", False), (Condition(in_=("a", "b")), "b", True),
        (Condition(in_=("a", "b")), "c", False), (Condition(lt=5), 4, True), (Condition(lt=5), "4", False),
        (Condition(gt=5, lt=9), 7, True), (Condition(gt=5), True, False), (Condition(glob="acme/*"), "acme/x", True),
        (Condition(glob="acme/*"), "evil/x", False), (Condition(exists=True), 0, True), (Condition(exists=False), 0, False),
    ],
)  # fmt: skip
def test_a_condition_compares_as_json_does(condition: Condition, value: object, holds: bool) -> None:
    rule = PolicyRule(do="deny", when={"/x": condition})
    assert matches(call(input={"x": value}), rule) is holds


def test_an_absent_value_meets_only_ne_and_exists_false() -> None:
    for condition, holds in [
        (Condition(ne=1), True),
        (Condition(exists=False), True),
        (Condition(eq=None), False),
        (Condition(gt=0), False),
    ]:
        assert matches(call(), PolicyRule(do="deny", when={"/x": condition})) is holds


def test_an_approval_is_remembered_only_where_every_rule_that_asks_allows_it_and_for_the_same_version() -> None:
    lasting = layer(PolicyRule(do="ask", ask=Approval(remember=True)))
    once = layer(PolicyRule(do="ask"), name="operator")
    known = {("files__read", "1.0.0")}
    assert decide(call(version="1.0.0"), [lasting], known).do == "allow"
    assert decide(call(version="1.0.1"), [lasting], known).do == "ask"
    assert decide(call(version="1.0.0"), [once, lasting], known).do == "ask"


def test_of_two_layers_that_ask_an_approval_has_to_satisfy_both() -> None:
    easy = layer(PolicyRule(do="ask", ask=Approval(expires="1h", remember=True)))
    strict = layer(PolicyRule(do="ask", ask=Approval(audience="admins", not_sender=True)), name="operator")
    for order in ([easy, strict], [strict, easy]):
        assert decide(call(), order).approval == Approval(audience="admins", not_sender=True, expires="1h", remember=False)


def test_code_with_a_network_is_asked_about_once_the_prompt_is_tainted() -> None:
    reading = call("fetch", "read", "open", has_network=True)
    assert decide(reading, ()).do == "allow"
    verdict = decide(call("fetch", "read", "open", has_network=True, tainted=True), ())
    assert (verdict.do, verdict.why) == ("ask", "default: tainted, and its code reaches the network")
    assert decide(call("fetch", "read", "open", tainted=True), ()).do == "allow"
    spoken = [layer(PolicyRule(do="allow", tool="fetch"))]
    assert decide(call("fetch", "read", "open", has_network=True, tainted=True), spoken).do == "allow"
