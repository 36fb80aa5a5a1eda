import copy
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.web import Replied, web

from agentvm.drivers.base import ToolSpec
from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.model.public_address import AddressRules
from agentvm.resources.tool import HttpRequestParts, ToolContent, Tools
from agentvm.resources.tool_entry import parse_address
from agentvm.tools.base import CallContext, Caller, CallTraits
from agentvm.tools.http import HttpTool
from agentvm.tools.openapi import DOCUMENT_MAX_BYTES, OPERATIONS_MAX, OpenApiTools, read_openapi
from agentvm.tools.safe_http import SafeHttp

PETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example/v1/"}],
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/Pet"}],
            "get": {
                "operationId": "getPet",
                "summary": "Finds a pet.",
                "parameters": [{"name": "fields[]", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}],
            },
            "delete": {"operationId": "deletePet"},
        },
        "/pets": {
            "post": {
                "operationId": "addPet",
                "description": "Adds a pet.\u200b",
                "parameters": [{"name": "name", "in": "query", "schema": {"type": "boolean"}}],
                "requestBody": {"$ref": "#/components/requestBodies/Pet"},
            },
            "get": {
                "operationId": "listPets",
                "parameters": [
                    {"name": "X-Page", "in": "header", "schema": {"type": "integer"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                ],
            },
        },
        "/upload": {"post": {"operationId": "upload", "requestBody": {"content": {"image/png": {}}}}},
    },
    "components": {
        "parameters": {"Pet": {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "requestBodies": {"Pet": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "owner": {"$ref": "#/components/schemas/Owner"}},
            },
            "Owner": {
                "type": "object",
                "nullable": True,
                "properties": {"pets": {"items": {"$ref": "#/components/schemas/Pet"}}},
            },
        },
    },
}


def read(document: object, **options: Any) -> OpenApiTools:
    return read_openapi(msgspec.json.encode(document), **options)


def changed(**members: object) -> dict[str, Any]:
    return {**copy.deepcopy(PETS), **members}


def test_operations_become_http_tools() -> None:
    made = read(PETS)
    assert set(made.tools) == {"getPet", "deletePet", "addPet", "listPets"}
    assert made.left_out == {"upload": "its body is image/png; JSON and forms are supported"}
    pet = made.tools["getPet"]
    assert (pet.entry, pet.effect, pet.description) == ("GET https://pets.example/v1/pets/{petId}", "read", "Finds a pet.")
    assert pet.http is not None
    assert pet.http.query == {"fields[]": "{p_fields__}"}
    assert pet.input_schema is not None
    assert pet.input_schema["required"] == ["petId"]
    assert made.tools["deletePet"].effect == "destructive"
    add = made.tools["addPet"]
    assert add.input_schema is not None
    assert set(add.input_schema["properties"]) == {"name", "owner", "query_name"}
    assert set(add.input_schema["$defs"]) == {"Owner", "Pet"}
    assert add.description == "Adds a pet."
    listed = made.tools["listPets"]
    assert listed.http is not None
    assert listed.http.headers == {"X-Page": "{X-Page}"}
    for content in made.tools.values():
        Tools().check(content)


async def test_a_tool_of_a_document_can_be_called() -> None:
    with anyio.fail_after(60):
        async with web(lambda asked: Replied(body=b"{}")) as server, SafeHttp(AddressRules.parse(["127.0.0.1"])) as http:
            made = read(changed(servers=[{"url": server.url("/v1")}]))

            async def call(content: ToolContent, **input: object) -> None:
                assert content.http is not None
                spec = ToolSpec(name="x", description=content.description, input_schema=content.input_schema or {})
                tool = HttpTool(spec=spec, entry=content.entry, parts=content.http, traits=CallTraits(), http=http)
                await tool.run(input, CallContext(key="k", caller=Caller("a", "b"), deadline=0))

            await call(made.tools["addPet"], name="Rex", query_name=True)
            await call(made.tools["getPet"], petId=7, p_fields__=["a", "b"])
    first, second = server.asked
    assert (first.target, msgspec.json.decode(first.body)) == ("/v1/pets?name=true", {"name": "Rex"})
    assert second.target == "/v1/pets/7?fields%5B%5D=a&fields%5B%5D=b"


def test_operations_are_selected_by_id_or_by_method_and_path() -> None:
    assert set(read(PETS, select=["get*", "DELETE /pets/*"]).tools) == {"getPet", "deletePet"}
    with pytest.raises(ResourceInvalid, match="matches no operation"):
        read(PETS, select=["nothing"])


def test_a_secret_of_the_set_goes_into_every_tool() -> None:
    parts = HttpRequestParts(headers={"Authorization": "Bearer ${secret:PETS}"})
    for content in read(PETS, http=parts, secrets=["PETS"]).tools.values():
        assert content.http is not None
        assert (content.http.headers or {})["Authorization"] == "Bearer ${secret:PETS}"
        Tools().check(content)


def test_a_relative_server_is_that_of_the_document() -> None:
    source = parse_address("https://pets.example/openapi.json")
    assert (
        read(changed(servers=[{"url": "/v2"}]), source=source).tools["getPet"].entry.startswith("GET https://pets.example/v2/")
    )
    assert read({**PETS, "servers": []}, source=source).tools["getPet"].entry.startswith("GET https://pets.example/pets/")


def with_path(path: str, operation: dict[str, object]) -> dict[str, Any]:
    return changed(paths={path: {"get": operation}})


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        changed(openapi="2.0"),
        {key: value for key, value in PETS.items() if key != "openapi"},
        changed(servers=[{"url": "https://{tenant}.example"}]),
        changed(servers=[{"url": "https://a.example"}, {"url": "https://b.example"}]),
        changed(servers=[{"url": "/v1"}]),
        changed(servers=[{"url": "ftp://a.example"}]),
        changed(servers=[{"url": "https://user@a.example"}]),
        changed(paths={"/x": {"servers": [{"url": "http://169.254.169.254"}], "get": {}}}),
        changed(paths={"/x": {"get": {"servers": [{"url": "https://evil.example"}]}}}),
        changed(paths={f"/{n}": {"get": {}} for n in range(OPERATIONS_MAX + 1)}),
    ],
)
def test_a_document_that_is_none_or_has_several_hosts_is_refused(document: object) -> None:
    with pytest.raises(ResourceInvalid):
        read(document)


@pytest.mark.parametrize(
    "operation",
    [
        {"parameters": [{"$ref": "https://evil.example/parameter"}]},
        {"parameters": [{"name": "q", "in": "query", "required": True, "style": "deepObject", "schema": {"type": "object"}}]},
        {"parameters": [{"name": "q", "in": "cookie", "required": True, "schema": {"type": "string"}}]},
        {"parameters": [{"name": "q", "in": "path", "required": True, "schema": {"type": "string"}}]},
        {"parameters": [{"name": "q", "in": "query", "schema": {"type": "string", "pattern": "(?=a)"}}]},
        {"parameters": [{"name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/Nope"}}]},
        {"parameters": ["text"]},
        {"requestBody": {"content": {"application/json": {"schema": {"type": "array"}}}}},
        {"requestBody": {"content": {"application/json": {"schema": {"oneOf": [{"type": "object"}]}}}}},
        {"requestBody": "text"},
    ],
)
def test_an_operation_that_cannot_be_a_tool_is_left_out_with_the_reason(operation: dict[str, object]) -> None:
    made = read(with_path("/x", {"operationId": "x", **operation}))
    assert (made.tools, list(made.left_out)) == ({}, ["x"])


@pytest.mark.parametrize("path", ["/x/{id}", "/x/{", "/x/{a b}", "/x/../y", "/x?y=1", "/x y"])
def test_a_path_that_is_none_is_left_out(path: str) -> None:
    assert read(with_path(path, {"operationId": "x"})).tools == {}


def test_two_operations_of_one_name_do_not_hide_each_other() -> None:
    made = read(changed(paths={"/a": {"get": {"operationId": "x"}}, "/b": {"get": {"operationId": "x"}}}))
    assert made.tools["x"].entry.endswith("/a")
    assert made.left_out == {"x (GET /b)": "another operation has the same id"}


def test_a_document_that_is_too_large_too_deep_or_no_json_is_refused() -> None:
    with pytest.raises(ResourceTooLarge):
        read_openapi(b" " * (DOCUMENT_MAX_BYTES + 1))
    for body in (
        b"openapi: 3.0.0\n",
        b"[" * 100_000,
        b'{"openapi":"3.0.0","paths":' + b'{"a":' * 200 + b"1" + b"}" * 201,
        b"\xff",
    ):
        with pytest.raises(ResourceInvalid):
            read_openapi(body)


TEXTS = ["get", "/x/{a}", "path", "query", "#/paths", "string", "object"]
KEYS = ["get", "parameters", "name", "in", "schema", "$ref", "type", "properties", "requestBody", "content", "application/json"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(["/x", "/x/{a}", "x"]), JSON, max_size=3))
def test_any_document_is_read_or_refused(paths: dict[str, object]) -> None:
    try:
        made = read(changed(paths=paths))
    except ResourceInvalid:
        return
    for content in made.tools.values():
        Tools().check(content)
