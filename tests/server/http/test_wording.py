from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType
from tests.server.http.fixtures import open_world

from agentvm.server.http.route import Given
from agentvm.server.http.wording import plain


class Inner(Given):
    deep_name: str


class Outer(Given):
    the_name: str
    limit: Annotated[int, Meta(ge=1, le=5)] = 1
    role: Literal["owner", "member"] | UnsetType = UNSET
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    short: Annotated[str, Meta(max_length=2, pattern="^a")] = ""
    few: Annotated[tuple[int, ...], Meta(max_length=2)] = ()


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ("", "theName is missing"),
        ('"theName": 1', "theName must be text, not a whole number"),
        ('"theName": "a", "x": 1', "x is not known here"),
        ('"theName": "a", "limit": 0', "limit must be a whole number, at least 1"),
        ('"theName": "a", "limit": 1.5', "limit must be a whole number, not a fraction"),
        ('"theName": "a", "role": "king"', "role must be one of owner, member, not 'king'"),
        ('"theName": "a", "inner": {}', "inner.deepName is missing"),
        ('"theName": "a", "inner": 5', "inner must be an object or null, not a whole number"),
        ('"theName": "a", "many": [{"deepName": "x"}, {"deepName": null}]', "many[1].deepName must be text, not null"),
        ('"theName": "a", "many": [{"other": 1}]', "many[0].other is not known here"),
        ('"theName": "a", "short": "aaa"', "short must be text with at most 2 characters"),
        ('"theName": "a", "short": "b"', "short must match '^a'"),
        ('"theName": "a", "few": [1, 2, 3]', "few must be a list with at most 2 items"),
    ],
)
def test_a_complaint_names_the_member_and_what_it_must_be(members: str, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(f"{{{members}}}", type=Outer)
    words = plain(str(raised.value), Outer)
    assert words == said
    assert "`" not in words
    assert "$" not in words


def test_what_is_no_object_is_told_so() -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode("[]", type=Outer)
    assert plain(str(raised.value), Outer) == "It must be an object, not a list"


@pytest.mark.parametrize("text", ["", "something new", "Expected `this`", "a - at `b` - at `c`", "Expected `x` ~ 5 - at `$.y`"])
def test_what_is_not_recognised_is_told_as_it_was(text: str) -> None:
    assert plain(text, Outer) == text


@pytest.mark.anyio
async def test_a_request_is_told_which_member_is_wrong() -> None:
    async with open_world() as world:
        reply = await world.ask("POST", "/v1/users", {"displayName": "x"})
        assert reply.body["error"]["message"] == "The body cannot be understood: externalId is missing"
        reply = await world.ask("GET", "/v1/users?limit=0")
        assert reply.body["error"]["message"] == "The query cannot be understood: limit must be a whole number, at least 1"
