"""Schema — the JSON Schema of a configuration file, for editors and for programs that write such files."""

from decimal import Decimal
from typing import Any

from agentvm.config.catalogue import MONEY_MAX, NAME, PRICE_NAME_MAX, SETTINGS, shown
from agentvm.model.account import METRICS, OF_USERS, Allowance
from agentvm.model.money import ModelRate
from agentvm.model.policy import RULES_MAX, Policy, PolicyRule
from agentvm.model.setting import Setting

Schema = dict[str, Any]

REFERENCE: Schema = {"type": "string", "pattern": r"\$\{[A-Za-z_]", "description": "${VARIABLE} or ${VARIABLE:-default}"}
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 4096}
_MONEY: Schema = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": int(MONEY_MAX)},
        {"type": "string", "pattern": r"^[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?$"},
        REFERENCE,
    ]
}
_RATE: Schema = {
    "type": "object",
    "properties": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "webSearch"), _MONEY),
    "required": ["input", "output"],
    "additionalProperties": False,
}


_AMOUNT: Schema = {"type": ["integer", "string", "number"]}
_LIMIT: Schema = {
    "anyOf": [
        _AMOUNT,
        {"type": "object", "properties": {"hard": _AMOUNT, "soft": _AMOUNT}, "additionalProperties": False},
    ]
}


def config_schema() -> Schema:
    """Returns the schema of a whole file."""
    root = _object("AgentVM configuration")
    for key, setting in SETTINGS.items():
        node = root
        *path, last = key.split(".")
        for part in path:
            node = _child(node, part)
        if last == "*":
            node["propertyNames"] = {"pattern": rf"^[^\s]{{1,{PRICE_NAME_MAX}}}$"}
            node["additionalProperties"] = _leaf(setting)
        else:
            node["properties"][last] = _leaf(setting)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root}


def _object(description: str) -> Schema:
    return {"description": description, "type": "object", "properties": {}, "additionalProperties": False}


def _child(node: Schema, part: str) -> Schema:
    if part == "*":
        if node["additionalProperties"] is False:
            node["propertyNames"] = {"pattern": f"^{NAME.pattern}$"}
            node["additionalProperties"] = _object("by a name of your own")
        child: Schema = node["additionalProperties"]
    else:
        child = node["properties"].setdefault(part, _object(part))
    return child


def _leaf(setting: Setting) -> Schema:
    leaf: Schema = {"description": setting.doc}
    if setting.default is not None:
        leaf["default"] = shown(setting, setting.default)
    if setting.is_secret:
        leaf["writeOnly"] = True
    leaf |= {"x-applies": setting.declaration.applies, "x-tenant": setting.declaration.tenant}
    if setting.declaration.variable is not None:
        leaf["x-variable"] = setting.declaration.variable
    return leaf | _type(setting)


def _type(setting: Setting) -> Schema:
    kind = setting.kind
    if options := setting.options:
        enum: Schema = {"enum": [*options, True, False] if "auto" in options else list(options)}
        return {"anyOf": [enum, REFERENCE]}
    if kind in (int, float):
        smallest, largest = setting.bounds
        number = {"type": "integer" if kind is int else "number", "minimum": smallest, "maximum": largest}
        return {"anyOf": [number, REFERENCE]}
    if kind is Decimal:
        return _MONEY
    if kind is ModelRate:
        return _RATE
    if kind is Allowance:
        metrics = OF_USERS if setting.name == "users" else METRICS
        return {"type": "object", "properties": dict.fromkeys(metrics, _LIMIT), "additionalProperties": False}
    if kind is Policy:
        members: Schema = {name: {} for name in PolicyRule.__struct_encode_fields__}
        rule: Schema = {"type": "object", "properties": members, "additionalProperties": False, "required": ["do"]}
        return {"type": "array", "items": rule, "maxItems": RULES_MAX}
    if setting.is_list:
        return {"anyOf": [{"type": "array", "items": _TEXT}, {"type": "string"}]}
    return _TEXT
