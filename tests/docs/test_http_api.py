"""The page of the management API names every route, what it needs and what it takes, and no other."""

import json
import re

import msgspec
from tests.docs.documents import read
from tests.server.http.fixtures import open_world

from agentvm.operations.gate import DISCLOSED
from agentvm.operations.http_face import HttpFace
from agentvm.operations.table import OPERATIONS
from agentvm.server.http import FACES
from agentvm.server.http.api import PUBLIC

PAGE = read("docs/http-api.md")


def row(route: HttpFace) -> tuple[str, str, str]:
    row = route.operation
    needs = " or ".join(f"`{name}`" for name in row.needs) or "known"
    body = msgspec.structs.fields(route.body if route.has_body else route.query)
    query = msgspec.structs.fields(route.query) if route.has_body else ()
    takes = ", ".join(
        (["bytes"] if route.http.body != "json" else [])
        + [f"`{member.encode_name}`{'' if member.required else '?'}" for member in body]
        + [f"`?{member.encode_name}`{'' if member.required else '?'}" for member in query]
    )
    return f"`{route.name}`", f"{needs}, or own" if row.own else needs, takes


def told() -> list[tuple[str, str, str]]:
    found = re.findall(r"^\| (`[A-Z]+ /(?:v1/[^|]*|metrics`)) \| ([^|]*) \| ([^|]*) \| [^|]+ \|$", PAGE, re.MULTILINE)
    return [(path, needs, takes.strip()) for path, needs, takes in found]


def test_the_page_tells_of_every_route_and_no_other() -> None:
    assert sorted(told()) == sorted(row(route) for route in FACES if not route.http.hidden)


def test_the_page_tells_of_the_public_paths() -> None:
    assert all(f"`{path}`" in PAGE for path in PUBLIC)


async def test_the_error_on_the_page_is_what_the_server_says() -> None:
    sent = re.search(r"-d '([^\n]*)'\n", PAGE)
    said = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert sent
    assert said
    async with open_world() as world:
        reply = await world.ask("POST", "/v1/users", raw=sent[1].encode())
        told = json.loads(said[1])
        assert reply.body["error"] | {"requestId": ""} == told["error"] | {"requestId": ""}


def test_the_page_tells_how_each_action_is_called_in_the_audit_log() -> None:
    hidden = {route.operation.audit for route in FACES if route.http.hidden}
    actions = {DISCLOSED, *(operation.audit for operation in OPERATIONS if operation.audit)} - hidden
    assert actions == set(re.findall(r"`(\w+\.\w+)`", PAGE.split("\n## Audit\n")[1]))
