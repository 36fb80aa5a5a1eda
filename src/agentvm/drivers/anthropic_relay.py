"""Relayed messages — reads the usage of an answer of the Messages API that continues to a client of Anthropic."""

from collections.abc import Iterable

import msgspec

from agentvm.drivers.anthropic_events import ProviderMessage, decode_event, merge_usage
from agentvm.drivers.base import MessageStarted, MessageStopped, ModelOutput, TextChunk, UsageReported
from agentvm.drivers.failures import Failures, find_error
from agentvm.model.usage import NO_USAGE, Usage

_decode_message = msgspec.json.Decoder(ProviderMessage).decode


class RelayedMessages:
    """Reads one answer; see `agentvm.drivers.relay.RelayDecoder`."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._usage: Usage = NO_USAGE
        self._pieces: list[bytes] = []
        self.finished = self.has_failed = False

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def feed(self, data: str) -> Iterable[ModelOutput]:
        lines = data.replace("\n", "\ndata: ")
        try:
            event = decode_event(data)
        except msgspec.MsgspecError:
            self._pieces.append(f"data: {lines}\n\n".encode())
            return ()
        self._pieces.append(f"event: {event.type}\ndata: {lines}\n\n".encode())
        match event.type:
            case "message_start" if event.message is not None:
                return self._start(event.message)
            case "content_block_delta" if event.delta is not None:
                piece = event.delta.text or event.delta.thinking or event.delta.partial_json
                return (TextChunk(piece),) if piece else ()
            case "message_delta" if event.usage is not None:
                self._usage = merge_usage(self._usage, event.usage)
                return (UsageReported(self._usage),)
            case "message_stop":
                self.finished = True
                return (MessageStopped("end_turn"),)
            case "error":
                self.has_failed = True
                raise self._failures.reported(find_error({"error": event.error}))
            case _:
                return ()

    def end(self) -> Iterable[ModelOutput]:
        raise self._failures.protocol("the stream ended before the message did")

    def read(self, content: bytes) -> Iterable[ModelOutput]:
        try:
            return (*self._start(_decode_message(content)), MessageStopped("end_turn"))
        except msgspec.MsgspecError:
            # It was answered, so it is charged, for what was sent.
            return (MessageStarted("", ""), MessageStopped("end_turn"))

    def _start(self, message: ProviderMessage) -> tuple[ModelOutput, ...]:
        started = MessageStarted(message.id, message.model)
        if message.usage is None:
            return (started,)
        self._usage = merge_usage(self._usage, message.usage)
        return started, UsageReported(self._usage)
