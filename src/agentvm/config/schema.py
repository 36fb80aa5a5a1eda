"""Schema — the JSON Schema of a configuration file, for editors and for those who write such files with programs."""

from decimal import Decimal
from typing import Any, get_args

from agentvm.config.catalogue import MOST_MONEY, NAME, SETTINGS, Setting, bounds_of, shown
from agentvm.model.account import METRICS, OF_USERS, Allowance
from agentvm.model.money import ModelRate

Schema = dict[str, Any]

REFERENCE: Schema = {"type": "string", "pattern": r"\$\{[A-Za-z_]", "description": "${VARIABLE} or ${VARIABLE:-default}"}
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 4096}
_MONEY: Schema = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": int(MOST_MONEY)},
        {"type": "string", "pattern": r"^[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?$"},
        REFERENCE,
    ]
}
_RATE: Schema = {
    "type": "object",
    "properties": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), _MONEY),
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
    """Of a whole file."""
    root = _object("AgentVM configuration")
    for key, setting in SETTINGS.items():
        node = root
        *path, last = key.split(".")
        for part in path:
            node = _child(node, part)
        if last == "*":
            node["propertyNames"] = {"pattern": r"^[^\s]{1,200}$"}
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
        found: Schema = node["additionalProperties"]
    else:
        found = node["properties"].setdefault(part, _object(part))
    return found


def _leaf(setting: Setting) -> Schema:
    about: Schema = {"description": setting.doc}
    if setting.default is not None:
        about["default"] = shown(setting, setting.default)
    if setting.about.secret:
        about["writeOnly"] = True
    about |= {"x-applies": setting.about.applies, "x-tenant": setting.about.tenant}
    if setting.about.variable is not None:
        about["x-variable"] = setting.about.variable
    return about | _type(setting)


def _type(setting: Setting) -> Schema:
    kind = setting.kind
    if options := [option for option in get_args(kind) if isinstance(option, str)]:
        enum: Schema = {"enum": [*options, True, False] if "auto" in options else options}
        return {"anyOf": [enum, REFERENCE]}
    if kind in (int, float):
        bounds = bounds_of(setting.type)
        number = {"type": "integer" if kind is int else "number", "minimum": bounds["ge"], "maximum": bounds["le"]}
        return {"anyOf": [number, REFERENCE]}
    if kind is Decimal:
        return _MONEY
    if kind is ModelRate:
        return _RATE
    if kind is Allowance:
        known = OF_USERS if setting.key.endswith(".users") else METRICS
        return {"type": "object", "properties": dict.fromkeys(known, _LIMIT), "additionalProperties": False}
    if setting.about.kind == "list":
        return {"anyOf": [{"type": "array", "items": _TEXT}, {"type": "string"}]}
    return _TEXT
