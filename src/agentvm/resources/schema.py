"""Schema — JSON Schemas that others wrote: whether they are sound, and whether a value fits.

Nothing is ever fetched. A schema refers only into itself (`#/$defs/x`); patterns are of the kind that takes linear time, so
without lookaround and back-references; and since references can make few lines mean billions of comparisons, the work that a
value would cause is counted before it is done.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.resource import canonical
from agentvm.resources.kind import check_json

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

MAX_SCHEMA = 256 * 1024
MAX_PATTERNS = 100
MAX_PATTERN = 1_000
MAX_COMPILED = 256 * 1024
"""Bytes of one pattern, compiled: `(a{1,1000}){1,1000}` is short only on paper."""
MAX_WORK = 250_000
MAX_STEPS = 200_000
"""Of the count itself."""
MAX_CHAIN = 64
"""Parts that apply to the same value, one within the other: each takes some of the stack of the thread."""
_AGAIN = 4
"""How often what `unevaluatedProperties` asks for is gone through, at most; three times were measured."""
MAX_MISFITS = 20

_ONE = frozenset({
    "not", "if", "then", "else", "contains", "items", "additionalItems", "unevaluatedItems", "additionalProperties",
    "unevaluatedProperties", "propertyNames", "contentSchema",
})  # fmt: skip
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
_IN_PLACE = frozenset({"not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"})
_NOT_APPLIED = frozenset({"$defs", "definitions", "contentSchema"})
_DEEPER = _ONE | _MANY | _NAMED | {"$ref"}
_SAID = frozenset({"default", "examples", "title", "description", "$comment", "$id", "$schema"})
"""What nothing is compared with."""
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_REFUSED = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
_PATTERN_HINT = "; lookaround, back-references and huge counts of repetition are not supported"

JsonSchema = Mapping[str, object]


def check_schema(member: str, schema: Mapping[str, object], *, of_object: bool = False) -> None:
    """`ResourceInvalid` names the member and what is wrong in its schema."""
    check_json(schema, member)
    if (size := len(canonical(schema))) > MAX_SCHEMA:
        raise ResourceInvalid(f"{member} has {size} bytes, and a schema may have {MAX_SCHEMA}")
    if "draft-04" in str(schema.get("$schema", "")):
        raise ResourceInvalid(f"{member}.$schema: draft 4 is not supported; draft 6 and all later ones are")
    _check_parts(member, schema)
    _compile(member, schema)
    if of_object and schema.get("type", "object") != "object":
        raise ResourceInvalid(f'{member} must be the schema of an object: write "type": "object"')


def misfits(member: str, schema: Mapping[str, object], value: object) -> list["Misfit"]:
    """What is wrong with a value, at most some twenty things; empty if it fits. The schema has been checked."""
    check_json(value, "The value")
    validator = _compile(member, schema)
    _check_work(member, schema, value)
    found: list[Misfit] = []
    for error in validator.iter_errors(value):
        found.append(_misfit(error))
        if len(found) >= MAX_MISFITS:
            break
    return found


@dataclass(frozen=True, slots=True)
class Misfit:
    """One thing that is wrong: where in the value, and what, for people."""

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
    # It takes 26 ms to import, and most servers start without a schema to look at.
    from jsonschema_rs import RegexOptions, validator_for  # noqa: PLC0415

    try:
        return validator_for(
            dict(schema),
            retriever=_refuse,
            pattern_options=RegexOptions(size_limit=MAX_COMPILED, dfa_size_limit=MAX_COMPILED),
        )
    except ValueError as error:
        # Its errors are ValueErrors, and so is what it says about too deep a schema.
        why = getattr(error, "message", str(error))
        at = ".".join(map(str, getattr(error, "instance_path", ())))
        hint = _PATTERN_HINT if why.endswith('"regex"') else ""
        raise ResourceInvalid(f"{member}{f'.{at}' if at else ''} is no JSON Schema: {shorten(why)}{hint}") from None


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
        if patterns > MAX_PATTERNS:
            raise ResourceInvalid(f"{member} has more than {MAX_PATTERNS} patterns")
        stack += ((f"{where}.{keyword}", one) for keyword, _, one in _subschemas(part))
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
        if isinstance(pattern, str) and len(pattern) > MAX_PATTERN:
            raise ResourceInvalid(f"{where} has a pattern of {len(pattern)} characters, and it may have {MAX_PATTERN}")
    return len(patterns)


def _subschemas(part: JsonSchema) -> Iterator[tuple[str, str, object]]:
    """The keyword, the name under it if it has names, and the schema."""
    for keyword, value in part.items():
        if keyword in _MANY and isinstance(value, list | tuple):
            yield from ((keyword, "", one) for one in value)
        elif keyword in _ONE:
            yield keyword, "", value
        elif keyword in _NAMED and isinstance(value, Mapping):
            yield from ((keyword, name, one) for name, one in value.items())


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
    same = [one for keyword, _, one in _subschemas(part) if keyword in _IN_PLACE]
    return [*same, _target(member, root, part["$ref"])] if "$ref" in part else same


def _check_loops(member: str, root: JsonSchema) -> None:
    """A part that applies itself to the same value again would never end; a tree that holds trees is fine."""
    heights: dict[int, int] = {}
    open_: set[int] = set()
    for start in _every_part(member, root):
        stack: list[tuple[JsonSchema, bool]] = [(start, False)]
        while stack:
            part, leaving = stack.pop()
            inner = (
                [one for one in _in_place(member, root, part) if isinstance(one, Mapping)] if id(part) not in heights else []
            )
            if leaving:
                open_.discard(id(part))
                heights[id(part)] = 1 + max((heights[id(one)] for one in inner), default=0)
                if heights[id(part)] > MAX_CHAIN:
                    raise ResourceInvalid(f"{member} has a chain of more than {MAX_CHAIN} parts that each refer to the next")
            elif id(part) in open_:
                raise ResourceInvalid(f"{member} has a $ref that leads back to itself without going into the value")
            elif id(part) not in heights:
                open_.add(id(part))
                stack.append((part, True))
                # A part that is open is looked at again, and found; one that only waits on the stack is not open yet.
                stack += ((one, False) for one in inner)


def _every_part(member: str, root: JsonSchema) -> list[JsonSchema]:
    found: dict[int, JsonSchema] = {}
    stack: list[object] = [root]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping) and id(part) not in found:
            found[id(part)] = part
            stack += (one for _, _, one in _subschemas(part))
            if "$ref" in part:
                stack.append(_target(member, root, part["$ref"]))
    return list(found.values())


def _check_work(member: str, root: JsonSchema, value: object) -> None:
    """How many comparisons it would be at most. Each pair of parts is counted once and multiplied, so this itself is quick."""
    counted: dict[tuple[int, int], int] = {}
    widths: dict[int, int] = {}
    steps = 0
    # Each part of the value is known by its place, since equal texts and numbers are one object.
    stack: list[tuple[object, object]] = [(root, value)]
    while stack:
        part, one = stack[-1]
        pair = (id(part), id(one))
        if pair in counted or not isinstance(part, Mapping):
            counted.setdefault(pair, 1)
            stack.pop()
            continue
        applied = list(_applied(member, root, part, one))
        steps += max(len(applied), _width(part, widths)) + 1
        # What has no parts of its own counts by what it says itself, and need not be looked at.
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
        if steps > MAX_STEPS or counted.get(pair, 0) > MAX_WORK:
            raise ResourceInvalid(f"{member}: to compare the value with this schema would take too long; make either simpler")


def _width(part: object, known: dict[int, int]) -> int:
    """How much a part says itself that one value is compared with: what it requires, the values it allows, its members."""
    if not isinstance(part, Mapping):
        return 1
    if id(part) not in known:
        known[id(part)] = 1 + sum(
            _sized(value) if keyword in _DEEPER else _values(value)
            for keyword, value in part.items()
            if keyword not in _SAID and keyword not in _NOT_APPLIED
        )
    return known[id(part)]


def _sized(value: object) -> int:
    return len(value) if isinstance(value, Mapping | list | tuple) else 1


def _values(value: object) -> int:
    """How many there are in it, itself included."""
    count, stack = 0, [value]
    while stack:
        one = stack.pop()
        count += 1
        stack += one.values() if isinstance(one, Mapping) else one if isinstance(one, list | tuple) else ()
    return count


def _applied(member: str, root: JsonSchema, part: JsonSchema, value: object) -> Iterator[tuple[object, object]]:
    """What a part of a schema compares with what, at most."""
    times = 1 if _UNEVALUATED.isdisjoint(part) else _AGAIN
    yield from ((one, value) for one in _in_place(member, root, part) for _ in range(times))
    items = value if isinstance(value, list | tuple) else ()
    members = value if isinstance(value, Mapping) else {}
    for keyword, name, one in _subschemas(part):
        if keyword in _IN_PLACE or keyword in _NOT_APPLIED:
            continue
        if keyword == "properties":
            if name in members:
                yield one, members[name]
        elif keyword in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
            yield from ((one, inner) for inner in members.values())
        elif keyword == "propertyNames":
            yield from ((one, inner) for inner in members)
        else:
            yield from ((one, inner) for inner in items)


__all__ = ["MAX_SCHEMA", "Misfit", "check_schema", "misfits"]
