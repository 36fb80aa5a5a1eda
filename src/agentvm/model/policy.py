"""Policy — rules about tool calls, as data: which are allowed, which wait for an approval, which are denied."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from agentvm.model.base import Record
from agentvm.model.tool import Effect, ToolRuntime, World

Decision = Literal["allow", "ask", "deny"]
RULES_MAX = 200
EXPIRES_MAX_SECONDS = 366 * 86_400

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

Glob = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Scalar = str | int | float | bool | None
Duration = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,8}[smhd]$")]
Audience = Annotated[str, msgspec.Meta(pattern=r"^(sender|owner|admins|user:.{1,128})$")]


class Condition(Record, forbid_unknown_fields=True):
    """A test of one value of a call's input; every given part must hold.

    An absent value meets only `ne` and `exists: false`.
    """

    eq: Scalar | UnsetType = UNSET
    ne: Scalar | UnsetType = UNSET
    in_: Annotated[tuple[Scalar, ...], msgspec.Meta(max_length=1_000)] | None = msgspec.field(default=None, name="in")
    lt: int | float | None = None
    gt: int | float | None = None
    glob: Glob | None = None
    exists: bool | None = None


class Approval(Record, forbid_unknown_fields=True):
    """The people who may approve a call, and the time that it waits."""

    audience: Audience = "sender"
    """The sender of the message, the owners of the tenant (users with that role), its administrators, or one user."""
    not_sender: bool = False
    """The sender of the message may not approve the call."""
    expires: Duration = "7d"
    """After this long the call is denied."""
    remember: bool = False
    """An approval may be remembered for further calls of the tool."""

    @property
    def expires_seconds(self) -> int:
        return seconds_of(self.expires)


def strictest_approval(approvals: Sequence[Approval]) -> Approval:
    """Returns the one approval that satisfies all of these as far as one person can."""
    return Approval(
        audience=min((approval.audience for approval in approvals), key=_audience_rank),
        not_sender=any(approval.not_sender for approval in approvals),
        expires=min((approval.expires for approval in approvals), key=seconds_of),
        remember=all(approval.remember for approval in approvals),
    )


def seconds_of(duration: Duration) -> int:
    return min(int(duration[:-1]) * _UNITS[duration[-1]], EXPIRES_MAX_SECONDS)


def _audience_rank(audience: Audience) -> int:
    """Orders audiences from the smallest and most trusted one."""
    return {"owner": 0, "admins": 1, "sender": 3}.get(audience, 2)


class PolicyRule(Record, forbid_unknown_fields=True):
    """A rule. A call has to match every given member; the first rule of a layer that matches decides for the layer."""

    do: Decision
    tool: Glob | None = None
    """Pattern of the tool's name, such as `github__*`."""
    runtime: ToolRuntime | None = None
    effect: Effect | None = None
    world: World | None = None
    tier: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    """Refused by `check_rule`, with the setting that does it."""
    tainted: bool | None = None
    """The prompt holds untrusted text, such as a fetched page."""
    unattended: bool | None = None
    """The turn runs without a person to answer, as a scheduled one does."""
    when: Annotated[dict[str, Condition], msgspec.Meta(max_length=20)] | None = None
    """Conditions on the input, by JSON pointer."""
    ask: Approval | None = None
    """Details of `do: ask`."""


class Policy(Record):
    """The rules of one origin, in order."""

    rules: tuple[PolicyRule, ...] = ()


_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


def check_rule(rule: PolicyRule) -> str | None:
    """Returns the fault of a rule that its types cannot express; None for a sound one."""
    if rule.ask is not None and rule.do != "ask":
        return f"ask: it has no meaning beside `do: {rule.do}`"
    if rule.tier is not None:
        return "tier: a call is decided about before its tier is chosen, so no call would match; rule with tools.tiers instead"
    for pointer, condition in (rule.when or {}).items():
        if _POINTER.fullmatch(pointer) is None:
            return f"when: {pointer!r} is not a JSON pointer, such as /repo"
        if condition == Condition():
            return f"when: the condition for {pointer!r} tests nothing"
    return None


def resolve_pointer(value: object, pointer: str) -> object:
    """Returns the value at a JSON pointer; `UNSET` when there is none."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            return UNSET
    return value
