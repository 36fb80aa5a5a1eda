"""The choice of a tier: total, deterministic, and never weaker for a stronger need."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.tier import TIERS, Enforces, Need, Offer, Placed, TierRules, Unplaced
from agentvm.tiers.decide import decide, fault_of

WALLS = ("process", "pid", "net", "mount", "seccomp", "gvisor")
ENGINES = ("python", "shell", "javascript", "binary:git")

walls = st.frozensets(st.sampled_from(WALLS))
enforced = st.sampled_from(("total", "each", "none"))
needs = st.builds(
    Need,
    engine=st.sampled_from(ENGINES),
    packages=st.sampled_from(((), ("numpy",))),
    net=st.sampled_from(((), ("example.org",))),
    memory_bytes=st.sampled_from((0, 1024)),
    disk_bytes=st.sampled_from((0, 1024, 2**40)),
    processes=st.sampled_from((0, 4)),
    wall_seconds=st.sampled_from((0.0, 1.0, 60.0)),
    walls=walls,
    tier=st.sampled_from((None, *TIERS)),
    persistent=st.booleans(),
    calls=st.booleans(),
    talks=st.booleans(),
)
members = {
    "engines": st.frozensets(st.sampled_from(ENGINES)),
    "walls": walls,
    "enforces": st.builds(Enforces, memory=enforced, disk=enforced, processes=enforced),
    "egress": st.booleans(),
    "packages": st.booleans(),
    "persistent": st.booleans(),
    "calls": st.booleans(),
    "talks": st.booleans(),
    "max_disk_bytes": st.sampled_from((512, 2**20, 2**53)),
    "free_slots": st.integers(0, 2),
    "broken_until": st.sampled_from((None, 50, 150)),
    "missing": st.sampled_from(("", "not on this host")),
}
"""Members of an offer that can be a reason against it."""
priced = st.builds(
    Offer,
    tier=st.sampled_from(TIERS),
    engines=st.just(frozenset(ENGINES)),
    walls=st.just(frozenset(WALLS)),
    enforces=st.just(Enforces(memory="total", disk="total", processes="total")),
    egress=st.just(True),
    packages=st.just(True),
    persistent=st.just(True),
    calls=st.just(True),
    talks=st.just(True),
    start_ms=st.sampled_from((0.0, 6.0, 500.0)),
    price_per_second=st.sampled_from((0, 10, 20_000)),
)


@st.composite
def some_offer(draw: st.DrawFn) -> Offer:
    """An offer that has everything but for a few members: were all of them drawn, hardly any offer would be chosen."""
    names = draw(st.lists(st.sampled_from(sorted(members)), max_size=2, unique=True))
    return msgspec.structs.replace(draw(priced), **{name: draw(members[name]) for name in names})


offers = some_offer()
rules = st.builds(TierRules, allow=st.none() | st.lists(st.sampled_from(TIERS), unique=True).map(tuple), walls=walls)
PROCESS = Offer(
    tier="process",
    engines=frozenset({"python", "shell"}),
    walls=frozenset({"process", "pid", "net"}),
    enforces=Enforces(memory="each", disk="total", processes="total"),
    start_ms=6.0,
)
CONTAINER = msgspec.structs.replace(PROCESS, tier="container", start_ms=400.0, price_per_second=20_000, egress=True)


@given(needs, st.lists(offers, max_size=5), rules)
def test_every_need_has_an_answer_that_names_every_offer(need: Need, choices: list[Offer], rule: TierRules) -> None:
    answer = decide(need, choices, rule, now=100)
    assert [tier for tier, _ in answer.why] == [offer.tier for offer in choices]
    assert all(verdict for _, verdict in answer.why)
    assert decide(need, choices, rule, now=100) == answer
    fit = [offer for offer in choices if not fault_of(need, offer, rule, 100)]
    assert isinstance(answer, Placed) == bool(fit)
    if isinstance(answer, Placed):
        assert [verdict for _, verdict in answer.why].count("chosen") == 1
    else:
        assert answer.reason


@given(needs, st.lists(offers, max_size=5), rules)
def test_the_chosen_offer_gives_everything_that_is_needed(need: Need, choices: list[Offer], rule: TierRules) -> None:
    answer = decide(need, choices, rule, now=100)
    if isinstance(answer, Unplaced):
        return
    chosen = choices[[verdict for _, verdict in answer.why].index("chosen")]
    assert chosen.tier == answer.tier
    assert need.engine in chosen.engines
    assert need.walls | rule.walls <= chosen.walls
    assert not need.net or chosen.egress
    assert need.tier is None or TIERS.index(chosen.tier) >= TIERS.index(need.tier)
    assert rule.allow is None or chosen.tier in rule.allow
    assert need.disk_bytes <= chosen.max_disk_bytes
    assert chosen.calls or not need.calls


@given(needs, needs, st.lists(offers, max_size=5), rules, rules)
def test_a_stronger_need_never_gets_what_a_weaker_one_was_refused(
    need: Need, more: Need, choices: list[Offer], rule: TierRules, other: TierRules
) -> None:
    stronger = msgspec.structs.replace(
        need,
        net=need.net or more.net,
        memory_bytes=max(need.memory_bytes, more.memory_bytes),
        disk_bytes=max(need.disk_bytes, more.disk_bytes),
        processes=max(need.processes, more.processes),
        packages=need.packages or more.packages,
        walls=need.walls | more.walls,
        tier=max((need.tier, more.tier), key=lambda tier: -1 if tier is None else TIERS.index(tier)),
        persistent=need.persistent or more.persistent,
        calls=need.calls or more.calls,
    )
    for offer in choices:
        if not fault_of(stronger, offer, rule.narrowed(other), 100):
            assert not fault_of(need, offer, rule, 100)
    weak, strong = decide(need, choices, rule, 100), decide(stronger, choices, rule.narrowed(other), 100)
    if isinstance(strong, Placed):
        assert isinstance(weak, Placed)
        assert (weak.price * need.wall_seconds, weak.start_ms) <= (strong.price * need.wall_seconds, strong.start_ms)


def test_a_program_that_calls_tools_goes_where_it_can_and_else_the_remedy_is_told() -> None:
    need, process = Need(engine="python", calls=True), msgspec.structs.replace(PROCESS, calls=True, start_ms=900.0)
    answer = decide(need, [process, CONTAINER])
    assert (answer.why[0], answer.why[1][1]) == (("process", "chosen"), "its programs cannot call tools; those of process can")
    refused = decide(msgspec.structs.replace(need, tier="container"), [process, CONTAINER])
    assert isinstance(refused, Unplaced)
    assert "those of process can" in refused.reason


def test_a_program_that_is_talked_to_goes_where_it_can_live_on_and_never_to_a_weaker_tier_than_its_sandbox_says() -> None:
    need, process = Need(engine="python", talks=True), msgspec.structs.replace(PROCESS, talks=True, start_ms=900.0)
    answer = decide(need, [process, CONTAINER])
    assert (answer.why[0], answer.why[1][1]) == (("process", "chosen"), "runs no programs that are talked to; process does")
    refused = decide(msgspec.structs.replace(need, tier="container"), [process, CONTAINER])
    assert isinstance(refused, Unplaced)
    assert dict(refused.why)["process"] == "weaker than container"


def test_walls_of_the_need_and_of_the_rules_have_to_stand_together() -> None:
    need, rule = Need(engine="python", walls=frozenset({"pid"})), TierRules(walls=frozenset({"net"}))
    without = msgspec.structs.replace(PROCESS, walls=PROCESS.walls - {"net"})
    assert isinstance(decide(need, [PROCESS], rule), Placed)
    assert decide(need, [without], rule).why == (("process", "lacks wall net"),)
    assert decide(need, [PROCESS], TierRules(walls=frozenset({"gvisor"}))).why == (("process", "lacks wall gvisor"),)


def test_the_cheapest_is_chosen_and_the_reasons_are_told() -> None:
    isolate = msgspec.structs.replace(PROCESS, tier="isolate", engines=frozenset({"python-subset"}))
    answer = decide(Need(engine="python", wall_seconds=60), [isolate, PROCESS, CONTAINER])
    assert answer == Placed(
        tier="process",
        start_ms=6.0,
        why=(("isolate", "lacks engine python"), ("process", "chosen"), ("container", "dearer: 2e-05 $/s")),
    )
    assert len(msgspec.json.encode(answer)) <= 1024


def test_a_network_that_cannot_be_had_names_the_remedy() -> None:
    answer = decide(Need(engine="python", net=("example.org",)), [PROCESS])
    assert isinstance(answer, Unplaced)
    assert "network.allow needs network namespaces" in answer.reason
    assert "avm doctor" in answer.reason


def test_the_least_tier_is_never_replaced_by_a_weaker_one() -> None:
    assert isinstance(decide(Need(engine="python", tier="container"), [PROCESS]), Unplaced)
    answer = decide(Need(engine="python", tier="container"), [PROCESS, CONTAINER])
    assert isinstance(answer, Placed)
    assert answer.tier == "container"


def test_a_server_without_tiers_says_so() -> None:
    answer = decide(Need(engine="python"), [])
    assert isinstance(answer, Unplaced)
    assert "no tier at all" in answer.reason


def test_full_slots_and_a_broken_start_are_faults_of_their_own() -> None:
    full = msgspec.structs.replace(PROCESS, free_slots=0)
    broken = msgspec.structs.replace(PROCESS, broken_until=1_000)
    assert "slots" in fault_of(Need(engine="python"), full, TierRules(), 0)
    assert "moment ago" in fault_of(Need(engine="python"), broken, TierRules(), 999)
    assert fault_of(Need(engine="python"), broken, TierRules(), 1_000) == ""
