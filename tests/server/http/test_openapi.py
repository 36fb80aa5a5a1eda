import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31
from tests.server.http.faces import face
from tests.server.http.fixtures import open_world

from agentvm.errors import Conflict, PreconditionFailed
from agentvm.model.base import Record
from agentvm.operations.http_face import HttpFace
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Empty, Http
from agentvm.operations.pages import Page
from agentvm.protocol.requests import Request
from agentvm.server.errors import status_of
from agentvm.server.http import FACES, described
from agentvm.server.http.api import CALLED, FORMS, PUBLIC
from agentvm.server.http.openapi import document, readable
from agentvm.server.http.protected_resource import METADATA_PATHS
from agentvm.version import VERSION


class Thing(Record):
    thing_id: str
    anything: dict[str, object]


class Wish(Request[object]):
    name: str
    size: int | None = None


class Manner(Request[object]):
    thing_id: str
    name: str
    size: int | None = None
    dry_run: bool = False
    depth: int | None = None


async def nothing(context: object, request: Empty) -> None:

    raise NotImplementedError


async def things(context: object, request: Empty) -> Page[Thing]:
    """List things.

    Those that
    are there.
    """
    return Page(items=[])


async def either(context: object, request: Wish) -> Thing | HttpReply[bytes | None]:

    raise NotImplementedError


async def changed(context: object, request: Manner) -> Thing:

    raise NotImplementedError


def operations(found: dict[str, Any]) -> dict[str, Any]:
    return {f"{method.upper()} {path}": about for path, methods in found["paths"].items() for method, about in methods.items()}


def one(served: HttpFace) -> dict[str, Any]:
    about: dict[str, Any] = operations(document([served]))[served.name]
    return about


def test_the_document_is_openapi_3_1() -> None:
    validator = jsonschema_rs.Draft202012Validator(OPENAPI_31)
    assert [error.message for error in validator.iter_errors(json.loads(msgspec.json.encode(described())))] == []
    assert described()["info"]["version"] == VERSION


def test_every_route_is_in_it_and_no_other() -> None:
    wanted = {served.name for served in FACES if not served.http.hidden}
    # A socket, pages for people who were sent their address, and what MCP clients look for.
    public = {f"GET {path}" for path in PUBLIC - FORMS - CALLED - {"/ws", *METADATA_PATHS}}
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
    for served in FACES:
        if served.http.hidden:
            continue
        about = operations(described())[served.name]
        assert (about["x-permissions"], "security" in about) == (list(served.operation.needs), False)
    assert described()["security"] == [{"bearer": []}]
    assert operations(described())["GET /health"]["security"] == []


def test_a_hidden_route_is_not_told() -> None:
    assert "/v1/x" not in document([face(nothing, Http("GET", "/v1/x", hidden=True))])["paths"]


def test_a_path_a_query_and_a_tenant_are_parameters() -> None:
    about = one(face(changed, Http("PUT", "/v1/x/{thing_id}", query=("dry_run", "depth"))))
    assert [(found["name"], found["in"], found["required"]) for found in about["parameters"]] == [
        ("thing_id", "path", True),
        ("dryRun", "query", False),
        ("depth", "query", False),
        ("tenant", "query", False),
    ]
    assert about["parameters"][2]["schema"] == {"type": "integer"}
    assert about["requestBody"]["required"] is True


def test_what_a_get_takes_is_its_query_and_its_answer_a_page() -> None:
    about = one(face(things, Http("GET", "/v1/x"), across=False))
    assert about["parameters"] == []
    assert (about["operationId"], about["summary"]) == ("tests_things", "List things")
    assert about["description"] == "Those that are there."
    schema = about["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/ThingPage"}
    assert "404" not in about["responses"]


def test_bytes_go_in_and_come_out_and_nothing_may_have_changed() -> None:
    http = Http("POST", "/v1/x", body="bytes", statuses=(200, 304), media_type="image/png")
    about = one(face(either, http))
    assert about["requestBody"] == {"required": True, "content": {"application/octet-stream": {}}}
    assert set(about["responses"]["200"]["content"]) == {"application/json", "image/png"}
    assert "content" not in about["responses"]["304"]
    assert [found["name"] for found in about["parameters"] if found["in"] == "header"] == ["If-None-Match"]


def test_the_errors_of_a_route_are_told() -> None:
    http = Http("DELETE", "/v1/x")
    about = one(face(nothing, http, across=False, raises=(Conflict, PreconditionFailed)))
    assert set(about["responses"]) == {"204", "400", "401", "403", "409", "412", "429", "500", "503"}
    assert status_of(PreconditionFailed) == 412
    assert [found["name"] for found in about["parameters"]] == ["If-Match"]


def test_a_type_without_json_is_refused() -> None:
    async def odd(context: object, request: Empty) -> complex:
        raise NotImplementedError

    with pytest.raises(TypeError, match="complex"):
        document([face(odd, Http("GET", "/v1/x"))])


def test_statuses_follow_from_the_answer() -> None:
    served = [
        face(nothing, Http("DELETE", "/v1/x")),
        face(things, Http("GET", "/v1/x")),
        face(either, Http("POST", "/v1/x", statuses=(200, 201))),
    ]
    assert [one.statuses for one in served] == [(204,), (200,), (200, 201)]


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
    names = described()["components"]["schemas"].keys()
    # A definition contains those of the agents that it calls: both are described.
    assert {name for name in names if "." in name or name.endswith(("Given", "Record"))} == {"DefinitionRecord"}
