import msgspec
import pytest

from agentvm.errors import InvalidInput
from agentvm.errors.bounds import InputTooLarge
from agentvm.protocol.bounds import Bound
from agentvm.protocol.command_codec import CommandCodec
from agentvm.protocol.requests import Reply, Request


class Old(Request[Reply]):
    text: str = ""


class New(Request[Reply]):
    bound = Bound(max_bytes=30, max_values=3)
    text: str = ""


codec = CommandCodec({"old": Old, "new": New}, {"new"})


def test_an_unknown_field_is_ignored_as_1x_does_and_refused_by_additive_commands() -> None:
    data = msgspec.Raw(b'{"text":"a","dryrun":true,"requestId":"r"}')
    assert codec.decode("old", data) == Old(text="a")
    with pytest.raises(InvalidInput, match="dryrun"):
        codec.decode("new", data)
    assert codec.decode("new", msgspec.Raw(b'{"text":"a","requestId":"r"}')) == New(text="a")


def test_data_beyond_the_bound_of_its_command_is_refused_before_it_is_decoded() -> None:
    codec.check("old", msgspec.Raw(b'{"text":"' + b"x" * 100 + b'"}'))
    for data in (b'{"text":"' + b"x" * 100 + b'"}', b'{"a":[1,2,3,4]}'):
        with pytest.raises(InputTooLarge):
            codec.check("new", msgspec.Raw(data))


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(InvalidInput, match="Invalid old_request"):
        codec.decode("old", msgspec.Raw(b'{"text":7}'))
