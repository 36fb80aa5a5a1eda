"""Decide — chooses the tier of a job. A pure function: the same need, offers and rules always give the same answer.

An offer is looked at in a fixed order (engine, walls, network, limits, rules, slots, failures), and its first fault is the
verdict on it. Of those without a fault the cheapest is chosen, then the quickest, then the one with more walls. Every offer's
verdict is part of the answer. There is no second best: a job that finds no tier is not run.
"""

from collections.abc import Sequence

from agentvm.model.money import DOLLAR_NANO
from agentvm.model.tier import FULL_ENGINES, TIERS, Need, Offer, Placed, TierRules, Unplaced

WHY_MAX = 160
"""Characters of one verdict."""


def decide(need: Need, offers: Sequence[Offer], rules: TierRules = TierRules(), now: int = 0) -> Placed | Unplaced:  # noqa: B008 - frozen
    """The tier for a job, with the verdict on every offer; `now` in Unix ms."""
    faults = [(offer, fault_of(need, offer, rules, now)) for offer in offers]
    fit = sorted((offer for offer, fault in faults if not fault), key=lambda offer: _order(need, offer))
    if not fit:
        why = tuple((offer.tier, fault[:WHY_MAX]) for offer, fault in faults)
        return Unplaced(reason=_reason(need, why), why=why)
    chosen = fit[0]
    why = tuple((offer.tier, fault[:WHY_MAX] or _compared(need, offer, chosen)) for offer, fault in faults)
    return Placed(tier=chosen.tier, price=chosen.price_per_second, start_ms=chosen.start_ms, why=why)


def fault_of(need: Need, offer: Offer, rules: TierRules, now: int) -> str:
    """The first reason against an offer; empty if there is none."""
    if offer.missing:
        return offer.missing
    for check in (_engine, _walls, _network, _limits):
        if fault := check(need, offer, rules):
            return fault
    if rules.allow is not None and offer.tier not in rules.allow:
        return "not allowed by tools.tiers"
    if offer.free_slots < 1:
        return "all slots are taken, and the queue is full"
    if offer.broken_until is not None and now < offer.broken_until:
        return "failed to start a moment ago"
    return ""


def engine_on(engine: str, offer: Offer) -> str | None:
    """The engine of the tier that runs programs of an engine: itself, or the whole of a subset; None if there is neither."""
    return next((name for name in (engine, FULL_ENGINES.get(engine)) if name in offer.engines), None)


def _engine(need: Need, offer: Offer, rules: TierRules) -> str:
    if engine_on(need.engine, offer) is None:
        return f"lacks engine {need.engine}"
    if need.packages and not offer.packages:
        return f"lacks packages ({', '.join(need.packages)})"
    if need.calls and not offer.calls:
        return "its programs cannot call tools; those of process can"
    if need.talks and not offer.talks:
        return "runs no programs that are talked to; process does"
    return "lacks persistent processes" if need.persistent and not offer.persistent else ""


def _walls(need: Need, offer: Offer, rules: TierRules) -> str:
    if need.tier is not None and TIERS.index(offer.tier) < TIERS.index(need.tier):
        return f"weaker than {need.tier}"
    missing = sorted((need.walls | rules.walls) - offer.walls)
    return f"lacks {'walls' if len(missing) > 1 else 'wall'} {', '.join(missing)}" if missing else ""


def _network(need: Need, offer: Offer, rules: TierRules) -> str:
    if not need.net or offer.egress:
        return ""
    return "network.allow needs network namespaces, which this host forbids" if offer.tier == "process" else "has no network"


def _limits(need: Need, offer: Offer, rules: TierRules) -> str:
    needed = {"memory": need.memory_bytes, "disk": need.disk_bytes, "processes": need.processes}
    enforced = {"memory": offer.enforces.memory, "disk": offer.enforces.disk, "processes": offer.enforces.processes}
    loose = [name for name, amount in needed.items() if amount and enforced[name] == "none"]
    if loose:
        return f"cannot limit {', '.join(loose)}"
    if need.disk_bytes > offer.max_disk_bytes:
        return f"holds at most {offer.max_disk_bytes} bytes of files"
    return ""


def _order(need: Need, offer: Offer) -> tuple[float, float, int, int]:
    return (offer.price_per_second * need.wall_seconds, offer.start_ms, -len(offer.walls), TIERS.index(offer.tier))


def _compared(need: Need, offer: Offer, chosen: Offer) -> str:
    if offer is chosen:
        return "chosen"
    if offer.price_per_second * need.wall_seconds > chosen.price_per_second * need.wall_seconds:
        return f"dearer: {offer.price_per_second / DOLLAR_NANO:g} $/s"
    return f"slower: {offer.start_ms:g} ms" if offer.start_ms > chosen.start_ms else "no better"


def _reason(need: Need, why: tuple[tuple[str, str], ...]) -> str:
    verdicts = "; ".join(f"{tier}: {fault}" for tier, fault in why) or "this server has no tier at all"
    return f"No tier can run {need.engine} here. {verdicts}. Run avm doctor to see what this machine allows"
