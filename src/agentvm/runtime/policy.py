"""Policy — decides whether a tool call runs, waits for an approval, or is denied. Pure: facts and rules in, a verdict out.

The first matching rule of each layer speaks for it, and of the layers that have spoken the strictest wins: an image can only
tighten its tenant's rules, and a tenant the operator's. The server's own rules count only where no layer has spoken. The author
of a tool can require approvals, which only a remembered approval lifts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from msgspec import UNSET

from agentvm.model.policy import Approval, Condition, Decision, Policy, PolicyRule, resolve_pointer, strictest_approval
from agentvm.model.tool import Effect, ToolRuntime, World

_STRICTNESS: Mapping[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}

SHIPPED: tuple[PolicyRule, ...] = (
    PolicyRule(effect="destructive", do="ask"),
    PolicyRule(effect="write", world="open", do="ask"),
    PolicyRule(do="allow"),
)
"""The rules of a server whose operator has set none: reading, and writing in the agent's own workspace, need no approval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """The properties of a call that rules can match."""

    tool: str
    version: str = ""
    """The exact version of the tool: an approval is remembered for it alone."""
    runtime: ToolRuntime
    effect: Effect
    world: World
    tainted: bool = False
    unattended: bool = False
    asks: bool = False
    """The author of the tool wants every call approved."""
    has_network: bool = False
    """Code of the call reaches other servers by itself."""
    input: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PolicyLayer:
    """Rules of one origin, in order."""

    name: str
    rules: Sequence[PolicyRule]
    only_tightens: bool = False
    """The layer does not replace the server's own rules: it can only be stricter."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a call, and the reason that people are shown."""

    do: Decision
    why: str
    approval: Approval = field(default_factory=Approval)


_DEFAULT = PolicyLayer("default", SHIPPED)


def layers_of(
    operator: Policy | None,
    tenant: Policy | None,
    image: Sequence[PolicyRule],
    callers: Sequence[Sequence[PolicyRule]] = (),
) -> tuple[PolicyLayer, ...]:
    """Returns the layers of a call. A tenant without rules of its own has the operator's, which speak once.

    `callers` are the rules of the agents above a sub-agent: it may do nothing that these may not.
    """
    layers = [] if operator is None else [PolicyLayer("operator", operator.rules)]
    if tenant is not None and tenant != operator:
        layers.append(PolicyLayer("tenant", tenant.rules))
    if image:
        layers.append(PolicyLayer("image", image, only_tightens=True))
    layers += [PolicyLayer("caller", rules, only_tightens=True) for rules in callers if rules]
    return tuple(layers)


def decide(call: CallFacts, layers: Sequence[PolicyLayer], remembered: Collection[tuple[str, str]] = ()) -> Verdict:
    """Decides about one call. `remembered` holds name and version of tools that were approved for further calls."""
    spoken = [(layer, verdict) for layer in layers if (verdict := _verdict(call, layer)) is not None]
    verdicts = [verdict for _, verdict in spoken]
    if all(layer.only_tightens for layer, _ in spoken):
        verdicts += _shipped(call)
    if call.asks:
        verdicts.append(Verdict("ask", "the tool's author asks for approval", Approval(remember=True)))
    strictest = max(_STRICTNESS[verdict.do] for verdict in verdicts)
    deciding = [verdict for verdict in verdicts if _STRICTNESS[verdict.do] == strictest]
    why = "; ".join(verdict.why for verdict in deciding)
    if strictest != _STRICTNESS["ask"]:
        return Verdict(deciding[0].do, why)
    approval = strictest_approval([verdict.approval for verdict in deciding])
    if approval.remember and (call.tool, call.version) in remembered:
        return Verdict("allow", f"approved before, and remembered ({why})")
    if call.unattended:
        return Verdict("deny", f"no person is present to approve it ({why})")
    return Verdict("ask", why, approval)


def _shipped(call: CallFacts) -> Sequence[Verdict]:
    """Returns the verdicts of the server's own rules."""
    verdict = _verdict(call, _DEFAULT)
    # A stranger's text could have code carry off what the agent has read.
    carries = (
        [Verdict("ask", "default: tainted, and its code reaches the network")] if call.tainted and call.has_network else []
    )
    return carries if verdict is None else [verdict, *carries]


def _verdict(call: CallFacts, layer: PolicyLayer) -> Verdict | None:
    for number, rule in enumerate(layer.rules, 1):
        if matches(call, rule):
            return Verdict(rule.do, f"{layer.name} rule {number}: {_reason(rule)}", rule.ask or Approval())
    return None


def _reason(rule: PolicyRule) -> str:
    """Returns the members of a rule that a call has matched, for people."""
    parts: list[str | None] = [] if rule.tainted is None else ["tainted" if rule.tainted else "not tainted"]
    parts += [] if rule.unattended is None else ["unattended" if rule.unattended else "attended"]
    parts += [rule.tool, rule.runtime, rule.world, rule.effect]
    parts += [f"input {pointer or '/'}" for pointer in rule.when or ()]
    return ", ".join(part for part in parts if part is not None) or "any call"


def matches(call: CallFacts, rule: PolicyRule) -> bool:
    """Returns whether a call matches every member that the rule has."""
    if rule.tool is not None and not fnmatchcase(call.tool, rule.tool):
        return False
    pairs = (
        (rule.runtime, call.runtime),
        (rule.effect, call.effect),
        (rule.world, call.world),
        (rule.tainted, call.tainted),
        (rule.unattended, call.unattended),
    )
    if any(expected is not None and expected != actual for expected, actual in pairs):
        return False
    return all(_holds(resolve_pointer(call.input, pointer), condition) for pointer, condition in (rule.when or {}).items())


def _holds(value: object, condition: Condition) -> bool:
    if condition.exists is not None and condition.exists != (value is not UNSET):
        return False
    if condition.ne is not UNSET and _same(value, condition.ne):
        return False
    if condition.eq is not UNSET and not _same(value, condition.eq):
        return False
    if condition.in_ is not None and not any(_same(value, option) for option in condition.in_):
        return False
    if condition.glob is not None and not (isinstance(value, str) and fnmatchcase(value, condition.glob)):
        return False
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if condition.lt is not None and not (number is not None and number < condition.lt):
        return False
    return condition.gt is None or (number is not None and number > condition.gt)


def _same(value: object, other: object) -> bool:
    """Returns whether two JSON values are equal; in Python, but not in JSON, true equals 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other
