from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from agentvm.errors.resource import ResourceInvalid
from agentvm.errors.validation import explain
from agentvm.model.base import Record
from agentvm.model.resource import ResourceType
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS


class Inner(Record, forbid_unknown_fields=True):
    deep_name: str


class Outer(Record, forbid_unknown_fields=True):
    the_name: str
    limit: Annotated[int, Meta(ge=1, le=5)] = 1
    role: Literal["owner", "member"] | UnsetType = UNSET
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    short: Annotated[str, Meta(max_length=2, pattern="^a")] = ""
    whole: Annotated[str, Meta(pattern=r"^a$(?!\n)")] = "a"
    few: Annotated[tuple[int, ...], Meta(max_length=2)] = ()


class Empty(Record, forbid_unknown_fields=True):
    """A record without fields."""


def fault(text: str, kind: type[msgspec.Struct] = Outer) -> str:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(text, type=kind)
    return explain(raised.value, kind)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("", "theName is missing"),
        ('"theName": 1', "theName must be a string, not a whole number"),
        ('"theName": "a", "x": 1', "there is no field x; there are few, inner, limit, many, role, short, theName, whole"),
        ('"theName": "a", "limt": 1', "there is no field limt; did you mean limit?"),
        ('"theName": "a", "limit": 0', "limit must be a whole number, at least 1"),
        ('"theName": "a", "limit": 1.5', "limit must be a whole number, not a fraction"),
        ('"theName": "a", "role": "king"', "role must be one of member, owner, not 'king'"),
        ('"theName": "a", "inner": {}', "inner.deepName is missing"),
        ('"theName": "a", "inner": 5', "inner must be an object or null, not a whole number"),
        ('"theName": "a", "many": [{"deepName": "x"}, {"deepName": null}]', "many.1.deepName must be a string, not null"),
        ('"theName": "a", "many": [{"deepname": 1}]', "there is no field many.0.deepname; did you mean deepName?"),
        ('"theName": "a", "short": "aaa"', "short must be a string of at most 2 characters"),
        ('"theName": "a", "short": "b"', "short must match '^a'"),
        ('"theName": "a", "whole": "b"', "whole must match '^a$'"),
        ('"theName": "a", "few": [1, 2, 3]', "few must be an array of at most 2 items"),
    ],
)
def test_an_error_names_the_field_and_the_expected_value(fields: str, sentence: str) -> None:
    assert fault(f"{{{fields}}}") == sentence


def test_a_value_that_is_no_object_is_refused_as_a_whole() -> None:
    assert fault("[]") == "it must be an object, not an array"


def test_a_record_without_fields_suggests_none() -> None:
    assert fault('{"text": 1}', Empty) == "there is no field text; it takes none"


@pytest.mark.parametrize("text", ["", "something new", "Expected `this`", "a - at `b` - at `c`"])
def test_an_unknown_message_keeps_its_words(text: str) -> None:
    assert explain(msgspec.ValidationError(text), Outer) == text


def test_an_unknown_message_about_a_field_keeps_its_words_after_the_field() -> None:
    assert explain(msgspec.ValidationError("Expected `x` ~ 5 - at `$.y`"), Outer) == "y: expected `x` ~ 5"


CONTENTS: tuple[tuple[ResourceType, object, str], ...] = (
    ("sandboxes", {"runtime": "python", "files": {"a": {"dta": ""}}}, "no field files.*.dta; did you mean data?"),
    ("sandboxes", {"runtime": "python", "files": {"a": {"data": "?"}}}, "files.*.data: invalid base64"),
    ("knowledge", {"documents": [{"id": "a", "text": ""}, {"titel": "b"}]}, "no field documents.1.titel; did you mean title?"),
    ("agents", {"temperature": "hot"}, "temperature must be a number or null, not a string"),
)


@pytest.mark.parametrize(("type_", "content", "sentence"), CONTENTS)
def test_the_content_of_a_resource_is_explained_the_same_way(type_: ResourceType, content: object, sentence: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(KINDS[type_], content)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"The content of {type_} does not fit: ")


def test_a_name_of_any_length_has_a_short_answer() -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(KINDS["prompts"], {"t" * 100_000: 1})
    assert len(str(caught.value)) < 500
