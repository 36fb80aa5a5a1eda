import msgspec
import pytest
from tests.gateways.test_talk import talk_of
from tests.server.http.fixtures import open_world

from agentvm.errors import InvalidInput
from agentvm.gateways.relaying import end_user_of, members_of, provider_kinds


def test_the_members_of_a_request_stay_as_they_were_written() -> None:
    members = members_of(b'{"a": 1.50, "b": {"c":  null}}')
    assert {name: bytes(value) for name, value in members.items()} == {"a": b"1.50", "b": b'{"c":  null}'}
    assert msgspec.json.encode(members) == b'{"a":1.50,"b":{"c":  null}}'
    with pytest.raises(InvalidInput):
        members_of(b"[]")


async def test_a_provider_learns_one_name_for_each_user_and_nothing_else() -> None:
    async with open_world() as world:
        talk = talk_of(world)
        assert end_user_of(talk) == end_user_of(talk)
        assert talk.principal.tenant_id not in end_user_of(talk)
        assert provider_kinds(talk) == {"scripted": "scripted"}
