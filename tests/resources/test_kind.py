import base64
from datetime import date

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resources.library import Library

from agentvm.errors.resource import ResourceInvalid, ResourceNotFound, ResourceTooDeep, ResourceTooLarge
from agentvm.model.resource import CONTENT_MAX_BYTES, DEPTH_MAX, ResourceType, digest_of
from agentvm.resources.kind import Binary, accept, check_reference, decode, detach, encode
from agentvm.resources.kinds import KINDS
from agentvm.resources.knowledge import KnowledgeContent
from agentvm.resources.sandbox import SandboxContent

PROMPTS, SANDBOXES, KNOWLEDGE, AGENTS = KINDS["prompts"], KINDS["sandboxes"], KINDS["knowledge"], KINDS["agents"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=8), json_values, max_size=4)


@given(defaults=objects, binary=st.binary(max_size=40), metadata=objects)
def test_what_is_accepted_comes_back_from_its_bytes(
    defaults: dict[str, object], binary: bytes, metadata: dict[str, object]
) -> None:
    agent = accept(AGENTS, {"description": "x", "defaults": defaults, "temperature": 1})
    assert decode(AGENTS, encode(agent)) == agent
    file = {"data": base64.b64encode(binary).decode()}
    documents = [{"id": "a", "file": file}, {"id": "b", "text": "", "metadata": metadata}]
    knowledge = accept(KNOWLEDGE, {"documents": documents})
    assert decode(KNOWLEDGE, encode(knowledge)) == knowledge
    bare = detach(knowledge)[0]
    assert decode(KNOWLEDGE, encode(bare)) == bare


@given(
    text=st.text(),
    schema=st.fixed_dictionaries({}, optional={"title": st.text(), "default": objects, "examples": st.lists(json_values)}),
    env=st.dictionaries(st.sampled_from(["A", "B_1"]), st.text(alphabet="a=é \n")),
    files=st.dictionaries(st.sampled_from(["a", "b/c"]), st.text() | st.binary().map(lambda data: {"data": data})),
)
def test_so_do_prompts_tools_and_sandboxes(
    text: str, schema: dict[str, object], env: dict[str, str], files: dict[str, object]
) -> None:
    written: list[tuple[ResourceType, dict[str, object]]] = [
        ("prompts", {"text": text, "format": "plain", "variables": schema}),
        ("tools", {"description": "d", "inputSchema": schema, "runtime": "python", "entry": f"-{text}", "secrets": []}),
        ("sandboxes", {"runtime": "python", "env": env, "files": files, "persistent": False, "limits": {}}),
    ]
    for type_, raw in written:
        content = accept(KINDS[type_], raw)
        body = encode(content)
        assert decode(KINDS[type_], body) == content
        assert encode(accept(KINDS[type_], msgspec.json.decode(body))) == body


@given(objects)
def test_equal_content_has_equal_bytes_however_it_was_written(defaults: dict[str, object]) -> None:
    one = accept(AGENTS, {"model": "m", "defaults": defaults, "knowledge": []})
    other = accept(AGENTS, {"defaults": dict(reversed(defaults.items())), "model": "m", "description": None})
    assert one == other
    assert encode(one) == encode(other)


def test_binary_parts_are_replaced_by_their_digests() -> None:
    kept = digest_of(b"old")
    raw = {
        "runtime": "python",
        "files": {"a.bin": {"data": base64.b64encode(b"new").decode()}, "b.bin": {"blob": kept, "size": 3}, "c.txt": "text"},
    }
    content = accept(SANDBOXES, raw)
    bare, blobs, known = detach(content)
    assert isinstance(bare, SandboxContent)
    assert bare.files == {
        "a.bin": Binary(blob=digest_of(b"new"), size=3),
        "b.bin": Binary(blob=kept, size=3),
        "c.txt": "text",
    }
    assert blobs == {digest_of(b"new"): b"new"}
    assert known == {kept}
    assert detach(bare) == (bare, {}, frozenset({kept, digest_of(b"new")}))


def test_binary_parts_in_lists_are_found_too() -> None:
    bare, blobs, _ = detach(accept(KNOWLEDGE, {"documents": [{"id": "a", "file": {"data": ""}}]}))
    assert isinstance(bare, KnowledgeContent)
    assert bare.documents is not None
    assert bare.documents[0].file == Binary(blob=digest_of(b""), size=0)
    assert blobs == {digest_of(b""): b""}


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({}, "either data"),
        ({"data": "", "blob": digest_of(b""), "size": 0}, "either data"),
        ({"blob": "sha256:abc", "size": 1}, "must be a digest"),
        ({"blob": digest_of(b"")}, "the size of the part"),
        ({"blob": digest_of(b""), "size": -1}, "the size of the part"),
        ({"data": "aGk=", "size": 3}, "but data has 2 bytes"),
    ],
)
def test_a_binary_part_is_either_data_or_a_digest_with_a_size(part: dict[str, object], why: str) -> None:
    with pytest.raises(ResourceInvalid, match=why) as caught:
        accept(KNOWLEDGE, {"documents": [{"id": "a", "file": part}]})
    assert "documents.0.file" in str(caught.value)


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "the number nan"),
        (float("inf"), "the number inf"),
        (2**64, "more than 64 bits"),
        ("\ud800", "a lone surrogate"),
        ({"\ud800": 1}, "a lone surrogate"),
        ({1: 2}, "names are strings"),
        (date(2026, 1, 1), "a date, which JSON cannot hold"),
        (nested(100), "nested more than 64 levels"),
        (nested(100_000), "nested more than 64 levels"),
    ],
)
def test_what_json_cannot_carry_is_refused(value: object, why: str) -> None:
    with pytest.raises(ResourceInvalid, match=why):
        accept(AGENTS, {"defaults": {"x": value}})


def test_few_lines_that_stand_for_billions_are_refused() -> None:
    laugh: object = "ha"
    for _ in range(12):
        laugh = [laugh] * 10
    with pytest.raises(ResourceTooLarge, match="more than 500000 values"):
        accept(AGENTS, {"defaults": {"x": laugh}})


def test_content_has_a_largest_size_with_its_binary_parts() -> None:
    half = base64.b64encode(bytes(CONTENT_MAX_BYTES // 2)).decode()
    accept(KNOWLEDGE, {"documents": [{"id": "a", "file": {"data": half}}]})
    with pytest.raises(ResourceTooLarge, match="may have"):
        accept(
            KNOWLEDGE, {"documents": [{"id": "a", "file": {"data": half}}, {"id": "b", "text": "x" * (CONTENT_MAX_BYTES // 2)}]}
        )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("plain", "m must be a URI such as resource://prompts/name or resource://tools/name, not 'plain'"),
        ("resource://prompts/", "m: 'resource://prompts/' is not a valid resource URI"),
        ("resource://agents/x", "m cannot refer to agents"),
        ("resource://tools/x#part", "m takes the whole of a resource"),
    ],
)
def test_a_reference_that_cannot_stand_there_is_refused_by_the_name_of_the_member(text: str, why: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        check_reference("m", text, "prompts", "tools")
    assert why in str(caught.value)


def test_references_lead_only_so_deep() -> None:
    library = Library()
    node = library.put("prompts", "p0", {"text": "end"})
    for level in range(DEPTH_MAX):
        node = library.put("prompts", f"p{level + 1}", {"text": f"{{{{> resource://prompts/p{level}}}}}"})
    assert library.render(node) == "end"
    node = library.put("prompts", "top", {"text": f"{{{{> resource://prompts/p{DEPTH_MAX}}}}}"})
    with pytest.raises(ResourceTooDeep, match="levels down"):
        library.render(node)


def test_what_was_never_locked_is_not_found() -> None:
    library = Library()
    node = library.put("prompts", "p", {"text": "x"})
    with pytest.raises(ResourceNotFound, match="resource://prompts/other"):
        library.context(node).follow("resource://prompts/other")


def test_ones_own_resources_are_named_without_the_owner() -> None:
    library = Library()
    assert library.context(library.put("prompts", "a", {"text": ""})).uri == "resource://prompts/a@1.0.0"
    assert library.context(library.put("prompts", "a", {"text": ""}, owner="zoo")).uri == "resource://prompts/zoo/a@1.0.0"
