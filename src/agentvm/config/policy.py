"""Policy — the rules about tool calls as they are written in files and shown. Pure."""

import re
from typing import TypeVar

import msgspec

from agentvm.model.policy import RULES_MAX, Policy, PolicyRule, Scalar, check_rule

S = TypeVar("S")

EXPECTED = "a list of rules like {effect: destructive, do: ask, ask: {audience: admins}}"

_PLACE = re.compile(r" - at (?:the key of )?`\$\.?(.*?)`$")
_QUOTED = re.compile(r" '.*'")


def read_policy(value: object, *, text: bool = False) -> Policy:
    """Returns the rules; `ValueError` names the number of the rule and its member, and quotes no value.

    With `text`, as in a file, numbers and switches are written as text.
    """
    if isinstance(value, Policy):
        return value
    if not isinstance(value, list | tuple):
        raise ValueError(f"it must be {EXPECTED}")
    if len(value) > RULES_MAX:
        raise ValueError(f"it has {len(value)} rules, and may have {RULES_MAX}")
    return Policy(rules=tuple(_rule(number, item, text) for number, item in enumerate(value, 1)))


def _rule(number: int, value: object, text: bool) -> PolicyRule:
    try:
        rule = msgspec.convert(value, PolicyRule, strict=not text)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        reason = _QUOTED.sub("", str(error)[: place.start()] if place else str(error))
        member = f", {place[1]}" if place and place[1] else ""
        raise ValueError(f"rule {number}{member}: {reason[:1].lower()}{reason[1:]}") from None
    if fault := check_rule(rule):
        raise ValueError(f"rule {number}, {fault}")
    return _with_numbers(rule) if text and rule.when else rule


def _with_numbers(rule: PolicyRule) -> PolicyRule:
    """Returns the rule with the numbers that its conditions compare with, where a file can only hold texts."""
    when = {
        pointer: msgspec.structs.replace(
            condition,
            eq=_scalar(condition.eq),
            ne=_scalar(condition.ne),
            in_=None if condition.in_ is None else tuple(map(_scalar, condition.in_)),
        )
        for pointer, condition in (rule.when or {}).items()
    }
    return msgspec.structs.replace(rule, when=when)


def _scalar(value: S) -> S | Scalar:
    if not isinstance(value, str) or value in ("NaN", "Infinity", "-Infinity"):
        return value
    try:
        return msgspec.json.decode(value, type=int | float | bool | None)
    except msgspec.DecodeError:
        return value


def plain_policy(policy: Policy) -> list[object]:
    """Returns the rules as `read_policy` reads them."""
    plain: list[object] = msgspec.json.decode(msgspec.json.encode(policy.rules))
    return plain
