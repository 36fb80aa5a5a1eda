"""Relayed chat — reads the usage of a chat completion that continues to a client of OpenAI."""

from collections.abc import Iterable

import msgspec

from agentvm.drivers.base import MessageStarted, MessageStopped, ModelOutput, TextChunk, UsageReported
from agentvm.drivers.chat_completions import DONE, ChoiceDelta, CompletionChunk, decode_chunk, read_usage
from agentvm.drivers.failures import Failures, find_error


class RelayedChat:
    """Reads one answer; see `agentvm.drivers.relay.RelayDecoder`. `hides_usage` leaves out the chunk that only tells usage."""

    def __init__(self, failures: Failures, *, hides_usage: bool) -> None:
        self._failures = failures
        self._hides_usage = hides_usage
        self._pieces: list[bytes] = []
        self._is_begun = self._is_told = False
        self.finished = self.has_failed = False

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def feed(self, data: str) -> Iterable[ModelOutput]:
        lines = data.replace("\n", "\ndata: ")
        piece = f"data: {lines}\n\n".encode()
        if data == DONE:
            self._pieces.append(piece)
            self.finished = True
            return (MessageStopped("end_turn"),)
        try:
            chunk = decode_chunk(data)
        except msgspec.MsgspecError:
            self._pieces.append(piece)
            return ()
        if not (self._hides_usage and chunk.usage is not None and not chunk.choices):
            self._pieces.append(piece)
        if chunk.error is not None:
            self.has_failed = True
            raise self._failures.reported(find_error({"error": chunk.error}))
        return list(self._read(chunk))

    def end(self) -> Iterable[ModelOutput]:
        if not self._is_told:
            raise self._failures.protocol("the stream ended before the message did")
        self.finished = True
        return (MessageStopped("end_turn"),)

    def read(self, content: bytes) -> Iterable[ModelOutput]:
        started, stopped = MessageStarted("", ""), MessageStopped("end_turn")
        try:
            usage = decode_chunk(content).usage
        except msgspec.MsgspecError:
            usage = None
        # Answered, so charged: without usage, for what was sent.
        return (started, stopped) if usage is None else (started, UsageReported(read_usage(usage)), stopped)

    def _read(self, chunk: CompletionChunk) -> Iterable[ModelOutput]:
        if not self._is_begun:
            self._is_begun = True
            yield MessageStarted(chunk.id or "", chunk.model or "")
        for choice in chunk.choices or ():
            self._is_told = self._is_told or choice.finish_reason is not None
            if choice.delta is not None and (piece := _delta_text(choice.delta)):
                yield TextChunk(piece)
        if chunk.usage is not None:
            yield UsageReported(read_usage(chunk.usage))


def _delta_text(delta: ChoiceDelta) -> str:
    calls = (call.function.arguments or "" for call in delta.tool_calls or () if call.function is not None)
    return "".join((delta.reasoning_content or delta.reasoning or "", delta.content or "", delta.refusal or "", *calls))
