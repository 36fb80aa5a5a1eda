"""Reference — the management API as one page for people, made of its OpenAPI document.

The page is self-contained, so that it can be read without other network access. Its one script only filters the page. Every
text is escaped, also our own.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from html import escape
from importlib import resources
from typing import Any, Final

from agentvm.server.http.openapi import Json

STYLE: Final = resources.files(__package__).joinpath("reference.css").read_text(encoding="utf-8")
SCRIPT: Final = resources.files(__package__).joinpath("reference.js").read_text(encoding="utf-8")


def source_of(text: str) -> str:
    """Returns the source of a Content-Security-Policy that allows this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src {source_of(STYLE)}; script-src {source_of(SCRIPT)}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
SERVER: Final = "http://localhost:8080"
"""Placeholder in the examples for the address of the server; see `addressed`."""
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
_REF = re.compile(r"^#/components/(\w+)/(.+)$")
_BOUNDS = {
    "minimum": "≥ {}", "maximum": "≤ {}", "minLength": "≥ {} characters", "maxLength": "≤ {} characters", "pattern": "like {}",
    "minItems": "≥ {} items", "maxItems": "≤ {} items",
}  # fmt: skip


def page(document: Json) -> str:
    """Returns the whole page."""
    info = document["info"]
    title = f"{info['title']} {info['version']}: management API"
    nouns = {tag["name"]: list(_operations(document, tag["name"])) for tag in document["tags"]}
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        _navigation(nouns),
        f"<main><h1>{escape(title)}</h1><p>{_text(info['description'])}</p>",
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>. In the examples, <code>$AVM_KEY</code> is an API key.</p>',
    ]
    for noun, operations in nouns.items():
        parts.append(f'<section><h2 id="{_anchor(noun)}">{escape(noun.capitalize())}</h2>')
        parts += [_operation(document, method, path, about) for method, path, about in operations]
        parts.append("</section>")
    parts.append('<section><h2 id="schemas">Schemas</h2>')
    parts += [_record(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    parts.append(f"</section></main><script>{SCRIPT}</script></body></html>\n")
    return "\n".join(parts)


def addressed(page: bytes, scheme: str, host: str) -> bytes:
    """Returns the page with the reader's address of the server in the examples; unchanged for an invalid host."""
    if scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return page
    return page.replace(SERVER.encode(), f"{scheme}://{host}".encode())


def _anchor(noun: str) -> str:
    return escape(noun.replace(" ", "-"))


def _operations(document: Json, noun: str) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            if noun in about["tags"]:
                yield method.upper(), path, about


def _navigation(nouns: dict[str, list[tuple[str, str, Json]]]) -> str:
    groups = []
    for noun, operations in nouns.items():
        links = "".join(
            f'<li data-of="{escape(about["operationId"])}">'
            f'<a href="#{escape(about["operationId"])}">{escape(about["summary"])}</a></li>'
            for _, _, about in operations
        )
        head = f'<a href="#{_anchor(noun)}">{escape(noun.capitalize())}</a>'
        groups.append(f"<details><summary>{escape(noun.capitalize())}</summary><ul><li>{head}</li>{links}</ul></details>")
    search = '<p id="searching" hidden><input id="search" type="search" aria-label="Search" placeholder="Search (press /)">'
    search += '<output id="found"></output></p>'
    return f'<nav aria-label="Nouns">{search}{"".join(groups)}<p><a href="#schemas">Schemas</a></p></nav>'


def _operation(document: Json, method: str, path: str, about: Json) -> str:
    names = " or ".join(f"<code>{escape(name)}</code>" for name in about["x-permissions"])
    needs = "no key" if about.get("security") == [] else names or "any key"
    if about.get("x-own"):
        needs += ", or nothing for your own"
    verb = f'<span class="method {escape(method.lower())}">{escape(method)}</span>'
    parts = [
        f'<article id="{escape(about["operationId"])}"><h3>{escape(about["summary"])}</h3>',
        f'<p>{verb} <code class="path">{_breakable(path)}</code></p><p>Needs {needs}.</p>',
    ]
    if more := about.get("description"):
        parts.append(f"<p>{_text(more)}</p>")
    if about["parameters"]:
        parts.append(_table("Parameters", ("name", "in", "type", ""), map(_parameter, about["parameters"])))
    for media_type, content in about.get("requestBody", {}).get("content", {}).items():
        parts.append(_body(document, media_type, content.get("schema", {})))
    parts += _answers(document, about["responses"])
    parts.append(f"<pre><code>{escape(curl(document, method, path, about))}</code></pre></article>")
    return "\n".join(parts)


def _parameter(parameter: Json) -> list[str]:
    notes = [] if parameter["required"] else ["optional"]
    notes += [_text(parameter["description"])] if "description" in parameter else []
    schema = parameter["schema"]
    return [f"<code>{escape(parameter['name'])}</code>", escape(parameter["in"]), _type(schema), _notes(schema, notes)]


def _body(document: Json, media_type: str, schema: Json) -> str:
    if "$ref" not in schema:
        return f"<p>Body: <code>{escape(media_type)}</code></p>"
    return _table("Body", ("field", "type", ""), _members(_resolve(document, schema)))


def _members(schema: Json) -> Iterator[list[str]]:
    for name, member in schema.get("properties", {}).items():
        notes = [] if name in schema.get("required", ()) else ["optional"]
        yield [f"<code>{escape(name)}</code>", _type(member), _notes(member, notes)]


def _answers(document: Json, responses: Json) -> Iterator[str]:
    """Yields a table of the responses, and a line of the errors, which are all alike."""
    alike = [status for status, response in responses.items() if "$ref" in response]
    rows = [_answer(status, response) for status, response in sorted(responses.items()) if status not in alike]
    yield _table("Responses", ("status", "", "content"), rows)
    if alike:
        names = [f"<code>{status}</code> {escape(_resolve(document, responses[status])['description'])}" for status in alike]
        yield f'<p class="errors">Errors, each a {_type({"$ref": "Failure"})}: {", ".join(names)}.</p>'


def _answer(status: str, response: Json) -> list[str]:
    kinds = [
        _type(content["schema"]) if media_type == "application/json" else f"<code>{escape(media_type)}</code>"
        for media_type, content in response.get("content", {}).items()
    ]
    return [f"<code>{escape(status)}</code>", escape(response["description"]), " or ".join(kinds)]


def _record(name: str, schema: Json) -> str:
    about = f"<p>{_text(schema['description'])}</p>" if "description" in schema else ""
    members = list(_members(schema))
    table = _table("", ("field", "type", ""), members) if members else f"<p>{_type(schema)}</p>"
    return f'<article id="schema-{escape(name)}"><h3>{escape(name)}</h3>{about}{table}</article>'


def _table(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a table of cells that are HTML already."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _type(schema: Any) -> str:
    """Returns a schema in a few words, with a link to the record."""
    match schema:
        case {"$ref": str(ref)}:
            name = escape(ref.rpartition("/")[2])
            return f'<a href="#schema-{name}">{name}</a>'
        case {"anyOf": kinds} | {"oneOf": kinds}:
            return " or ".join(_type(kind) for kind in kinds)
        case {"enum": values}:
            return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
        case {"const": value}:
            return f"<code>{escape(json.dumps(value))}</code>"
        case {"type": "array", "items": dict(items)}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {_type(values)}"
        case {"type": list(kinds)}:
            return " or ".join(escape(str(kind)) for kind in kinds)
        case {"type": str(kind)}:
            return escape(kind)
        case _:
            return "anything"


def _notes(schema: Json, notes: list[str]) -> str:
    kinds = [schema, *schema.get("anyOf", ())]
    bounds = [text.format(kind[name]) for kind in kinds for name, text in _BOUNDS.items() if name in kind]
    if schema.get("default") is not None:
        bounds.append(f"default {json.dumps(schema['default'], ensure_ascii=False)}")
    return "; ".join([*notes, *map(escape, bounds)])


def curl(document: Json, method: str, path: str, about: Json) -> str:
    """Returns a curl command with the required parameters."""
    needed = [parameter for parameter in about["parameters"] if parameter["in"] == "query" and parameter["required"]]
    parameters = [f"{parameter['name']}={_example(document, parameter['schema'])}" for parameter in needed]
    query = f"?{'&'.join(parameters)}" if parameters else ""
    lines = [f"curl {'' if method == 'GET' else f'-X {method} '}'{SERVER}{path}{query}'"]
    if about.get("security") != []:
        lines.append('-H "Authorization: Bearer $AVM_KEY"')
    for media_type, content in about.get("requestBody", {}).get("content", {}).items():
        lines.append(f"-H 'Content-Type: {media_type}'")
        if media_type == "application/json":
            text = json.dumps(_example(document, content["schema"]), ensure_ascii=False)
            lines.append("-d '" + text.replace("'", "'\\''") + "'")
        else:
            lines.append("--data-binary @file")
    return " \\\n  ".join(lines)


def _example(document: Json, schema: Any) -> Any:
    match _resolve(document, schema):
        case {"properties": members, **others}:
            needed = others.get("required") or list(members)[:1]
            return {name: _example(document, members[name]) for name in needed}
        case {"anyOf": [first, *_]}:
            return _example(document, first)
        case {"enum": [first, *_]} | {"const": first}:
            return first
        case {"type": "array"}:
            return []
        case {"type": "object"}:
            return {}
        case {"type": "boolean"}:
            return True
        case {"type": "integer" | "number", **others}:
            return others.get("minimum", 1)
        case _:
            return "…"


def _resolve(document: Json, part: Json) -> Json:
    while reference := _REF.match(part.get("$ref", "")):
        part = document["components"][reference[1]][reference[2]]
    return part


def _text(text: str) -> str:
    """Returns plain text as HTML, where `this` is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _breakable(path: str) -> str:
    """Returns a path that a narrow page may break after a slash."""
    return escape(path).replace("/", "/<wbr>")
