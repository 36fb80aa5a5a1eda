"""Schema — foreign JSON Schemas: whether they are sound, and whether a value fits.

Nothing is ever fetched. A schema refers only into itself (`#/$defs/x`); patterns are of the kind that takes linear time, so
without lookaround and back-references; and since references can make few lines mean billions of comparisons, the work that a
value would cause is counted before it is done.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.resource import canonical
from agentvm.resources.kind import check_json
from agentvm.resources.plain_schema import fits_plainly

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

SCHEMA_MAX_BYTES = 256 * 1024
PATTERNS_MAX = 100
PATTERN_MAX = 1_000
COMPILED_MAX_BYTES = 256 * 1024
"""Bytes of one pattern, compiled: `(a{1,1000}){1,1000}` is short only on paper."""
COMPARISONS_MAX = 250_000
STEPS_MAX = 200_000
"""Limit of the counting itself."""
CHAIN_MAX = 64
"""Parts that apply to the same value, one within the other: each takes some of the stack of the thread."""
_PASSES_MAX = 4
"""Upper bound of the passes that `unevaluatedProperties` causes; three were measured."""
MISFITS_MAX = 20

_ONE = frozenset({
    "not", "if", "then", "else", "contains", "items", "additionalItems", "unevaluatedItems", "additionalProperties",
    "unevaluatedProperties", "propertyNames", "contentSchema",
})  # fmt: skip
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
_IN_PLACE = frozenset({"not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"})
_NOT_APPLIED = frozenset({"$defs", "definitions", "contentSchema"})
_DEEPER = _ONE | _MANY | _NAMED | {"$ref"}
_ANNOTATIONS = frozenset({"default", "examples", "title", "description", "$comment", "$id", "$schema"})
"""Keywords that compare nothing."""
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_REFUSED = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
_PATTERN_HINT = "; lookaround, back-references and huge counts of repetition are not supported"

JsonSchema = Mapping[str, object]


def check_schema(member: str, schema: Mapping[str, object], *, of_object: bool = False) -> None:
    """Checks a schema; `ResourceInvalid` names the field and the fault."""
    check_json(schema, member)
    if (size := len(canonical(schema))) > SCHEMA_MAX_BYTES:
        raise ResourceInvalid(f"{member} has {size} bytes, and a schema may have {SCHEMA_MAX_BYTES}")
    if "draft-04" in str(schema.get("$schema", "")):
        raise ResourceInvalid(f"{member}.$schema: draft 4 is not supported; draft 6 and all later ones are")
    _check_parts(member, schema)
    _compile(member, schema)
    if of_object and schema.get("type", "object") != "object":
        raise ResourceInvalid(f'{member} must be the schema of an object: write "type": "object"')


def misfits(member: str, schema: Mapping[str, object], value: object) -> list["Misfit"]:
    """Returns the faults of a value, at most `MISFITS_MAX`; empty if it fits. The schema has been checked."""
    return SchemaCheck(member, schema).misfits(value)


class SchemaCheck:
    """A schema that many values are checked against: it is compiled once, for the first value that is not plain."""

    __slots__ = ("_member", "_schema", "_validator")

    def __init__(self, member: str, schema: Mapping[str, object]) -> None:
        self._member = member
        self._schema = schema
        self._validator: Validator | None = None

    def misfits(self, value: object) -> list["Misfit"]:
        """Returns the faults of a value, at most `MISFITS_MAX`; empty if it fits."""
        check_json(value, "The value")
        _check_work(self._member, self._schema, value)
        if fits_plainly(self._schema, value):
            return []
        if self._validator is None:
            self._validator = _compile(self._member, self._schema)
        return [_misfit(error) for error in islice(self._validator.iter_errors(value), MISFITS_MAX)]


@dataclass(frozen=True, slots=True)
class Misfit:
    """One fault: its place in the value, and a sentence for people."""

    path: tuple[str | int, ...]
    message: str
    missing: str | None = None
    """The member that is required and not there."""

    def __str__(self) -> str:
        where = ".".join(map(str, self.path))
        return f"{where}: {self.message}" if where else self.message


def _misfit(error: "ValidationError") -> Misfit:
    missing = error.kind.value if error.kind.name == "required" and isinstance(error.kind.value, str) else None
    return Misfit(tuple(error.instance_path), shorten(error.message), missing)


def _compile(member: str, schema: Mapping[str, object]) -> "Validator":
    # The import takes 26 ms, and most servers start without a schema to check.
    from jsonschema_rs import RegexOptions, validator_for  # noqa: PLC0415

    try:
        return validator_for(
            dict(schema),
            retriever=_refuse,
            pattern_options=RegexOptions(size_limit=COMPILED_MAX_BYTES, dfa_size_limit=COMPILED_MAX_BYTES),
        )
    except ValueError as error:
        # The library raises ValueError for its own faults and for schemas that are too deep.
        why = getattr(error, "message", str(error))
        at = ".".join(map(str, getattr(error, "instance_path", ())))
        hint = _PATTERN_HINT if why.endswith('"regex"') else ""
        raise ResourceInvalid(f"{member}{f'.{at}' if at else ''} is not a valid JSON Schema: {shorten(why)}{hint}") from None


def _refuse(uri: str, /) -> Any:
    raise ValueError("schemas refer only into themselves, nothing is fetched")


def _check_parts(member: str, root: JsonSchema) -> None:
    """References stay inside and lead to somewhere else than back in place; patterns are few and short."""
    patterns = 0
    stack: list[tuple[str, object]] = [("", root)]
    seen: set[int] = set()
    while stack:
        where, part = stack.pop()
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        _check_keywords(f"{member}{where}", part, inner=bool(where))
        patterns += _count_patterns(f"{member}{where}", part)
        if patterns > PATTERNS_MAX:
            raise ResourceInvalid(f"{member} has more than {PATTERNS_MAX} patterns")
        stack += ((f"{where}.{keyword}", subschema) for keyword, _, subschema in _subschemas(part))
        if "$ref" in part:
            stack.append((f"{where}.$ref", _target(f"{member}{where}", root, part["$ref"])))
    _check_loops(member, root)


def _check_keywords(where: str, part: JsonSchema, *, inner: bool) -> None:
    for keyword in _REFUSED:
        if keyword in part:
            raise ResourceInvalid(f'{where}: {keyword} is not supported; put the part into $defs and refer to it with "$ref"')
    if inner and ("$id" in part or "$schema" in part):
        raise ResourceInvalid(f"{where}: $id and $schema may only stand at the top of a schema")


def _count_patterns(where: str, part: JsonSchema) -> int:
    named = part.get("patternProperties")
    patterns: list[object] = list(named) if isinstance(named, Mapping) else []
    if "pattern" in part:
        patterns.append(part["pattern"])
    for pattern in patterns:
        if isinstance(pattern, str) and len(pattern) > PATTERN_MAX:
            raise ResourceInvalid(f"{where} has a pattern of {len(pattern)} characters, and it may have {PATTERN_MAX}")
    return len(patterns)


def _subschemas(part: JsonSchema) -> Iterator[tuple[str, str, object]]:
    """The keyword, the name under it if it has names, and the schema."""
    for keyword, value in part.items():
        if keyword in _MANY and isinstance(value, list | tuple):
            yield from ((keyword, "", subschema) for subschema in value)
        elif keyword in _ONE:
            yield keyword, "", value
        elif keyword in _NAMED and isinstance(value, Mapping):
            yield from ((keyword, name, subschema) for name, subschema in value.items())


def _target(where: str, root: JsonSchema, ref: object) -> object:
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")) or "%" in ref:
        raise ResourceInvalid(
            f"{where}.$ref: {shorten(repr(ref))} must lead to a part of the schema itself, as #/$defs/name does"
        )
    now: object = root
    # A part with an id of its own would be another root for the references in it.
    for step in ref.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(now, Mapping) and name in now and (now is root or not isinstance(now.get("$id"), str)):
            now = now[name]
        elif isinstance(now, list | tuple) and name.isascii() and name.isdigit() and int(name[:9]) < len(now):
            now = now[int(name[:9])]
        else:
            raise ResourceInvalid(f"{where}.$ref: {shorten(ref)!r} leads nowhere")
    return now


def _in_place(member: str, root: JsonSchema, part: JsonSchema) -> list[object]:
    """The parts that apply to the same value as this one."""
    subschemas = [subschema for keyword, _, subschema in _subschemas(part) if keyword in _IN_PLACE]
    return [*subschemas, _target(member, root, part["$ref"])] if "$ref" in part else subschemas


def _check_loops(member: str, root: JsonSchema) -> None:
    """A part that applies itself to the same value again would never end; a tree that holds trees is fine."""
    heights: dict[int, int] = {}
    open_: set[int] = set()
    for start in _every_part(member, root):
        stack: list[tuple[JsonSchema, bool]] = [(start, False)]
        while stack:
            part, leaving = stack.pop()
            inner = (
                [subschema for subschema in _in_place(member, root, part) if isinstance(subschema, Mapping)]
                if id(part) not in heights
                else []
            )
            if leaving:
                open_.discard(id(part))
                heights[id(part)] = 1 + max((heights[id(subschema)] for subschema in inner), default=0)
                if heights[id(part)] > CHAIN_MAX:
                    raise ResourceInvalid(f"{member} has a chain of more than {CHAIN_MAX} parts that each refer to the next")
            elif id(part) in open_:
                raise ResourceInvalid(f"{member} has a $ref that leads back to itself without going into the value")
            elif id(part) not in heights:
                open_.add(id(part))
                stack.append((part, True))
                # A part that is open is looked at again, and found; one that only waits on the stack is not open yet.
                stack += ((subschema, False) for subschema in inner)


def _every_part(member: str, root: JsonSchema) -> list[JsonSchema]:
    parts: dict[int, JsonSchema] = {}
    stack: list[object] = [root]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping) and id(part) not in parts:
            parts[id(part)] = part
            stack += (subschema for _, _, subschema in _subschemas(part))
            if "$ref" in part:
                stack.append(_target(member, root, part["$ref"]))
    return list(parts.values())


def _check_work(member: str, root: JsonSchema, value: object) -> None:
    """Bounds the number of comparisons. Each pair of parts is counted once and multiplied, so the count itself is quick."""
    counted: dict[tuple[int, int], int] = {}
    widths: dict[int, int] = {}
    steps = 0
    # Each part of the value is known by its place, since equal texts and numbers are one object.
    stack: list[tuple[object, object]] = [(root, value)]
    while stack:
        part, subpart = stack[-1]
        pair = (id(part), id(subpart))
        if pair in counted or not isinstance(part, Mapping):
            counted.setdefault(pair, 1)
            stack.pop()
            continue
        applied = list(_applied(member, root, part, subpart))
        steps += max(len(applied), _width(part, widths)) + 1
        # A part without subschemas counts by its own keywords, and need not be visited.
        needed = [(inner, at) for inner, at in applied if isinstance(inner, Mapping) and not _DEEPER.isdisjoint(inner)]
        waiting = [(inner, at) for inner, at in needed if (id(inner), id(at)) not in counted]
        if waiting:
            stack += waiting
        else:
            leaves = sum(
                _width(inner, widths) for inner, _ in applied if not isinstance(inner, Mapping) or _DEEPER.isdisjoint(inner)
            )
            counted[pair] = _width(part, widths) + leaves + sum(counted[id(inner), id(at)] for inner, at in needed)
            stack.pop()
        if steps > STEPS_MAX or counted.get(pair, 0) > COMPARISONS_MAX:
            raise ResourceInvalid(f"{member}: to compare the value with this schema would take too long; make either simpler")


def _width(part: object, widths: dict[int, int]) -> int:
    """Returns how much of a part one value is compared with: its required names, allowed values and members."""
    if not isinstance(part, Mapping):
        return 1
    if id(part) not in widths:
        widths[id(part)] = 1 + sum(
            _sized(value) if keyword in _DEEPER else _values(value)
            for keyword, value in part.items()
            if keyword not in _ANNOTATIONS and keyword not in _NOT_APPLIED
        )
    return widths[id(part)]


def _sized(value: object) -> int:
    return len(value) if isinstance(value, Mapping | list | tuple) else 1


def _values(value: object) -> int:
    """Returns the number of values in a value, itself included."""
    count, stack = 0, [value]
    while stack:
        current = stack.pop()
        count += 1
        stack += current.values() if isinstance(current, Mapping) else current if isinstance(current, list | tuple) else ()
    return count


def _applied(member: str, root: JsonSchema, part: JsonSchema, value: object) -> Iterator[tuple[object, object]]:
    """Yields the pairs of subschema and value that a part compares, at most."""
    times = 1 if _UNEVALUATED.isdisjoint(part) else _PASSES_MAX
    yield from ((subpart, value) for subpart in _in_place(member, root, part) for _ in range(times))
    items = value if isinstance(value, list | tuple) else ()
    members = value if isinstance(value, Mapping) else {}
    for keyword, name, subpart in _subschemas(part):
        if keyword in _IN_PLACE or keyword in _NOT_APPLIED:
            continue
        if keyword == "properties":
            if name in members:
                yield subpart, members[name]
        elif keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
            yield from ((subpart, inner) for inner in members.values())
        elif keyword == "propertyNames":
            yield from ((subpart, inner) for inner in members)
        else:
            yield from ((subpart, inner) for inner in items)


__all__ = ["SCHEMA_MAX_BYTES", "Misfit", "check_schema", "misfits"]
