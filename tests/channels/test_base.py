import pytest

from agentvm.channels.base import ChannelAdapter, ChatReply, InboundFile
from agentvm.channels.telegram import Telegram
from agentvm.channels.wecom import WeCom
from agentvm.errors.channel import PlatformFailed


async def test_facts_about_an_answer_are_stored_when_they_are_kept() -> None:
    saved: list[dict[str, str]] = []

    async def save() -> None:
        saved.append(dict(reply.kept))

    reply = ChatReply("k", {}, {"a": "1"}, save)
    await reply.keep(b="2")
    assert saved == [{"a": "1", "b": "2"}]


async def test_an_adapter_counts_bytes_and_has_no_files_unless_it_says_otherwise() -> None:
    assert (WeCom.measure("好"), Telegram.measure("好")) == (3, 1)
    with pytest.raises(PlatformFailed, match="no files"):
        await ChannelAdapter.fetch(object.__new__(Telegram), InboundFile(place={}))
