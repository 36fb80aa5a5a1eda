from functools import partial

import pytest
from msgspec.structs import replace
from tests.conformance.store import ACME

from agentvm.errors import Conflict
from agentvm.model.channel import ChannelId, ChannelMessage, ChatChannel
from agentvm.model.ids import ContainerId, KeyId, TenantId
from agentvm.storage.sql.accounts.channels import RETENTION_MS
from agentvm.storage.sql.store import Store


def channel(name: str, tenant: TenantId = ACME) -> ChatChannel:
    return ChatChannel(
        channel_id=ChannelId(f"chn_{name}"), tenant_id=tenant, name=name, kind="telegram", agent="a", settings={"token": "t"},
        messages_per_minute=3, key_id=KeyId("k"), enabled=True, created_by="x", created_at=1, updated_at=1,
    )  # fmt: skip


def message(key: str, at: int = 1) -> ChannelMessage:
    return ChannelMessage(
        channel_id=ChannelId("chn_a"), message_key=key, container_id=ContainerId("c"), body=b"{}", kept={"a": "b"}, heard_at=at
    )


async def test_channels_are_of_one_tenant_and_their_names_are_their_own(store: Store) -> None:
    own = store.accounts(ACME).channels
    await own.add(channel("a"))
    with pytest.raises(Conflict):
        await own.add(replace(channel("a"), channel_id=ChannelId("chn_z")))
    assert await own.list() == (channel("a"),)
    assert await store.directory.channels() == (channel("a"),)
    other = store.accounts(TenantId("rival")).channels
    assert await other.get(ChannelId("chn_a")) is None
    assert not await other.remove(ChannelId("chn_a"))
    assert await other.change(ChannelId("chn_a"), partial(replace, enabled=False)) is None
    assert await own.remove(ChannelId("chn_a"))
    assert await store.directory.channels() == ()


async def test_a_message_is_heard_once_until_it_is_forgotten(store: Store) -> None:
    own = store.accounts(ACME).channels
    assert await own.receive(message("early"), 2) is None
    await own.add(channel("a"))
    assert [await own.receive(message(key), 2) for key in ("m1", "m1", "m2", "m3")] == [True, False, True, None]
    first, second = await own.pending(ChannelId("chn_a"), 9)
    assert (first.message_key, second.message_key, first.kept) == ("m1", "m2", {"a": "b"})
    await own.save(replace(first, body=None, done_at=5))
    assert [each.message_key for each in await own.pending(ChannelId("chn_a"), 9)] == ["m2"]
    assert await own.receive(message("m1", at=6), 9) is False
    assert await own.receive(message("m9", at=RETENTION_MS + 6), 9) is True
    assert await own.receive(message("m1", at=RETENTION_MS + 7), 9) is True
