import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31
from tests.server.http.fixtures import open_world

from agentvm.errors import Conflict, PreconditionFailed
from agentvm.model.base import Record
from agentvm.server.errors import status_of
from agentvm.server.http import ROUTES, described
from agentvm.server.http.api import PUBLIC
from agentvm.server.http.openapi import document, openapi_path, readable, statuses_of
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Page, Routes
from agentvm.version import VERSION


class Thing(Record):
    thing_id: str
    anything: dict[str, object]


class Wish(Given):
    name: str
    size: int | None = None


class Manner(Given):
    dry_run: bool = False
    depth: int | None = None


async def nothing(ask: Ask[Nothing]) -> Answer[None]:

    raise NotImplementedError


async def things(ask: Ask[Nothing]) -> Page[Thing]:
    """List things.

    Those that
    are there.
    """
    return Page(items=[])


async def either(ask: Ask[Wish]) -> Thing | Answer[bytes | None]:

    raise NotImplementedError


def operations(found: dict[str, Any]) -> dict[str, Any]:
    return {f"{method.upper()} {path}": about for path, methods in found["paths"].items() for method, about in methods.items()}


def one(routes: Routes) -> dict[str, Any]:
    found = operations(document(routes.all))
    about: dict[str, Any] = found[f"{routes.all[0].method} {openapi_path(routes.all[0])}"]
    return about


def test_the_document_is_openapi_3_1() -> None:
    validator = jsonschema_rs.Draft202012Validator(OPENAPI_31)
    assert [error.message for error in validator.iter_errors(json.loads(msgspec.json.encode(described())))] == []
    assert described()["info"]["version"] == VERSION


def test_every_route_is_in_it_and_no_other() -> None:
    wanted = {f"{route.method} {openapi_path(route)}" for route in ROUTES if not route.hidden}
    public = {f"GET {path}" for path in PUBLIC if path != "/ws"}
    assert set(operations(described())) == wanted | public


def test_every_operation_has_a_name_of_its_own_and_says_what_it_does() -> None:
    found = list(operations(described()).values())
    assert len({about["operationId"] for about in found}) == len(found)
    assert [about["operationId"] for about in found if not about["summary"]] == []
    assert {tag for about in found for tag in about["tags"]} == {tag["name"] for tag in described()["tags"]}


def test_every_schema_is_referred_to_and_every_reference_leads_somewhere() -> None:
    text = json.dumps(described())
    schemas = described()["components"]["schemas"]
    assert [name for name in schemas if f'"#/components/schemas/{name}"' not in text] == []
    for reference in {part.split('"')[0] for part in text.split('"$ref": "#/')[1:]}:
        found = described()
        for name in reference.split("/"):
            found = found[name]


def test_names_are_those_on_the_wire() -> None:
    schemas = described()["components"]["schemas"]
    assert "externalId" in schemas["NewUser"]["properties"]
    assert schemas["UserPage"]["properties"]["items"]["items"] == {"$ref": "#/components/schemas/User"}
    assert set(schemas["FailureAbout"]["required"]) == {"code", "message", "details", "requestId"}


def test_permissions_and_the_key_are_told_and_what_is_public_needs_none() -> None:
    for route in ROUTES:
        if route.hidden:
            continue
        about = operations(described())[f"{route.method} {openapi_path(route)}"]
        assert (about["x-permissions"], "security" in about) == (list(route.needs), False)
    assert described()["security"] == [{"bearer": []}]
    assert operations(described())["GET /health"]["security"] == []


def test_a_hidden_route_is_not_told() -> None:
    routes = Routes()
    routes.add("GET", "/v1/x", needs=(), takes=Nothing, hidden=True)(nothing)
    assert "/v1/x" not in document(routes.all)["paths"]


def test_a_path_a_query_and_a_tenant_are_parameters() -> None:
    routes = Routes()
    routes.add("PUT", "/v1/x/{thing_id:str}", needs=(), takes=Wish, query=Manner)(either)
    about = one(routes)
    assert [(found["name"], found["in"], found["required"]) for found in about["parameters"]] == [
        ("thing_id", "path", True),
        ("dryRun", "query", False),
        ("depth", "query", False),
        ("tenant", "query", False),
    ]
    assert about["parameters"][2]["schema"] == {"type": "integer"}
    assert about["requestBody"]["required"] is True


def test_what_a_get_takes_is_its_query_and_its_answer_a_page() -> None:
    routes = Routes()
    routes.add("GET", "/v1/x", needs=(), takes=Nothing, across=False)(things)
    about = one(routes)
    assert about["parameters"] == []
    assert (about["operationId"], about["summary"]) == ("tests_things", "List things")
    assert about["description"] == "Those that are there."
    schema = about["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/ThingPage"}
    assert "404" not in about["responses"]


def test_bytes_go_in_and_come_out_and_nothing_may_have_changed() -> None:
    routes = Routes()
    routes.add("POST", "/v1/x", needs=(), takes=Wish, body="bytes", statuses=(200, 304), media_type="image/png")(either)
    about = one(routes)
    assert about["requestBody"] == {"required": True, "content": {"application/octet-stream": {}}}
    assert set(about["responses"]["200"]["content"]) == {"application/json", "image/png"}
    assert "content" not in about["responses"]["304"]
    assert [found["name"] for found in about["parameters"] if found["in"] == "header"] == ["If-None-Match"]


def test_the_errors_of_a_route_are_told() -> None:
    routes = Routes()
    routes.add("DELETE", "/v1/x", needs=(), takes=Nothing, across=False, raises=(Conflict, PreconditionFailed))(nothing)
    about = one(routes)
    assert set(about["responses"]) == {"204", "400", "401", "403", "409", "412", "429", "500", "503"}
    assert status_of(PreconditionFailed) == 412
    assert [found["name"] for found in about["parameters"]] == ["If-Match"]


def test_a_type_without_json_is_refused() -> None:
    async def odd(ask: Ask[Nothing]) -> Answer[complex]:
        raise NotImplementedError

    routes = Routes()
    routes.add("GET", "/v1/x", needs=(), takes=Nothing)(odd)
    with pytest.raises(TypeError, match="complex"):
        document(routes.all)


def test_statuses_follow_from_the_answer() -> None:
    routes = Routes()
    routes.add("DELETE", "/v1/x", needs=(), takes=Nothing)(nothing)
    routes.add("GET", "/v1/x", needs=(), takes=Nothing)(things)
    routes.add("POST", "/v1/x", needs=(), takes=Wish, statuses=(200, 201))(either)
    assert [statuses_of(route) for route in routes.all] == [(204,), (200,), (200, 201)]


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
async def test_the_document_is_for_everybody_and_sent_once(path: str) -> None:
    async with open_world() as world:
        reply = await world.ask("GET", path, key="")
        assert (reply.status, reply.headers["cache-control"]) == (200, "no-cache")
        tag = reply.headers["etag"]
        for known in (tag, f'"x", W/{tag}', "*"):
            same = await world.ask("GET", path, key="", headers=[(b"if-none-match", known.encode())])
            assert (same.status, same.raw, same.headers["etag"]) == (304, b"", tag)
        assert (await world.ask("GET", path, key="", headers=[(b"if-none-match", b'"x"')])).status == 200
        for secret in (world.acme.tenant_id, world.operator, "acme"):
            assert secret.encode() not in reply.raw
    assert json.loads(msgspec.json.encode(described()))["openapi"] == "3.1.0"


def test_schemas_have_names_that_people_would_give_them() -> None:
    given = ("Page_UserView_", "UserView", "KeyGiven", "a.b.Status", "Thing", "ThingView")
    named = {"Page_UserView_": "UserPage", "UserView": "User", "KeyGiven": "KeyRequest", "a.b.Status": "Status"}
    assert readable(given) == named | {"Thing": "Thing", "ThingView": "ThingView"}
    assert not [name for name in described()["components"]["schemas"] if "." in name or name.endswith(("Given", "Record"))]
