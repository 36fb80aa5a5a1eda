"""The wire of an ASGI server that is not ours."""

from typing import Any

from agentvm.model.ids import DEFAULT_TENANT
from agentvm.server.wire import PlainWire


async def test_a_plain_wire_sends_one_message_per_text_and_nothing_without_waiting() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    wire = PlainWire(send)
    assert not wire.send_now(["a"])
    await wire.send_all(["b", "c"])
    await wire.drain()
    wire.trust(DEFAULT_TENANT)
    assert sent == [{"type": "websocket.send", "text": text} for text in "bc"]


async def test_a_plain_wire_is_aborted_if_its_server_can() -> None:
    async def send(_: Any) -> None: ...

    aborted: list[bool] = []
    PlainWire(send).abort()
    PlainWire(send, lambda: aborted.append(True)).abort()
    assert aborted == [True]
