"""Blocks — the parts of a turn as blocks that begin and end, in any order of the parts. Pure.

Dialects whose clients insist on the order have a `BlockWriter`. It writes the part of a turn for one request: from the wait
that the request has answered, or from the beginning, to the next unanswered wait, or to the end.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from agentvm.gateways.turn_parts import (
    CallBegun,
    CallEnded,
    CallInput,
    CallMade,
    CallWaits,
    TextAdded,
    ThinkingAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.model.wait import WaitId

BlockKind = Literal["text", "thinking"]

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a turn. `after` is the wait that it follows, `answered` are those at which it does not end."""

    after: WaitId | None = None
    answered: frozenset[WaitId] = frozenset()


WHOLE = Stretch()
"""From the beginning of a turn to its first wait."""


class BlockWriter(ABC):
    """Writes parts: every block and every call that begins also ends, and a call is made before it waits or has a result."""

    def __init__(self, stretch: Stretch, client_tools: Collection[str]) -> None:
        self._after, self._answered = stretch.after, stretch.answered
        self._client_tools = client_tools
        self._block: BlockKind | None = None
        self._delta = b""
        """The beginning of a delta of the block, up to its text."""
        self._inputs: list[str] = []
        """Calls whose input is being written."""
        self._written_calls: set[str] = set()
        self._earlier: frozenset[str] = frozenset()
        """Calls of before the stretch: the client knows them."""
        self._is_round = False
        """Whether the model is writing; results of its calls end that."""
        self._has_round = False
        """Whether a round was begun and not ended."""
        self.waits: list[CallWaits] = []
        self.is_done = False

    @abstractmethod
    def begin_block(self, kind: BlockKind) -> tuple[bytes, bytes]:
        """Returns the beginning of a block, and that of its deltas up to the text."""

    @abstractmethod
    def end_block(self, kind: BlockKind) -> bytes: ...

    @abstractmethod
    def begin_call(self, call_id: str, name: str) -> bytes: ...

    @abstractmethod
    def call_input(self, call_id: str, piece: str) -> bytes: ...

    @abstractmethod
    def completed_call(self, call: CallMade, *, is_begun: bool) -> bytes:
        """Returns a call with its input; `is_begun` when that was written in pieces."""

    @abstractmethod
    def end_call(self, call: CallEnded) -> bytes: ...

    @abstractmethod
    def call_waits(self, call: CallWaits) -> bytes: ...

    @abstractmethod
    def end_waiting(self) -> bytes:
        """Returns the end of a stretch with waits that need an answer."""

    @abstractmethod
    def end(self, ended: TurnEnded) -> bytes: ...

    def begin_round(self) -> bytes:
        """Returns the events before the model begins to write."""
        return b""

    def end_round(self) -> bytes:
        return b""

    def write(self, part: TurnPart, cursor: int) -> bytes:
        if self.is_done:
            return b""
        if self._after is None:
            if isinstance(part, TextAdded) and self._block == "text":
                return b"%b%b}\n\n" % (self._delta, _encode(part.text))
            return self._write(part)
        if isinstance(part, TurnEnded):
            # The wait was answered in another way.
            self._begin_stretch()
            return self._write(part)
        self._write(part)
        return b""

    def _begin_stretch(self) -> None:
        self._close()
        self._after = None
        self._earlier = frozenset(self._written_calls)

    def _write(self, part: TurnPart) -> bytes:
        match part:
            case TextAdded(text=text):
                return self._write_text("text", text)
            case ThinkingAdded(text=text):
                return self._write_text("thinking", text)
            case CallBegun() | CallInput() | CallMade():
                return self._call(part)
            case CallEnded(call_id=call_id, name=name):
                self._is_round = self._is_round and bool(self._inputs)
                is_own_result = call_id in self._earlier and name in self._client_tools
                chunks = self._end_block() + self._make(CallMade(call_id, name, {}))
                return chunks + (b"" if is_own_result else self.end_call(part))
            case CallWaits(call_id=call_id, name=name, input=given):
                self.waits.append(part)
                return self._end_block() + self._make(CallMade(call_id, name, given)) + self.call_waits(part)
            case TurnWaits(waits=waits):
                return self._wait(waits)
            case TurnEnded():
                self.is_done = True
                return self._close() + self.end(part)
            case _:
                return b""

    def _wait(self, waits: tuple[WaitId, ...]) -> bytes:
        if self._after is not None:
            if self._after in waits:
                self._begin_stretch()
            self.waits.clear()
            return b""
        closed = self._close()
        if waits and self._answered.issuperset(waits):
            self.waits.clear()
            return closed
        self.is_done = True
        return closed + self.end_waiting()

    def _write_text(self, kind: BlockKind, text: str) -> bytes:
        begun = b""
        if self._block != kind:
            begun = self._end_block() + self._round()
            head, self._delta = self.begin_block(kind)
            self._block = kind
            begun += head
        return b"%b%b%b}\n\n" % (begun, self._delta, _encode(text))

    def _call(self, part: CallBegun | CallInput | CallMade) -> bytes:
        if isinstance(part, CallInput):
            return self.call_input(part.call_id, part.piece) if part.call_id in self._inputs else b""
        if part.call_id in self._written_calls:
            return b""
        begun = self._end_block() + self._round()
        if isinstance(part, CallMade):
            return begun + self._make(part)
        if part.call_id in self._inputs:
            return begun
        self._inputs.append(part.call_id)
        return begun + self.begin_call(part.call_id, part.name)

    def _make(self, call: CallMade) -> bytes:
        """Writes the call, unless it was written."""
        if call.call_id in self._written_calls:
            return b""
        is_begun = call.call_id in self._inputs
        if is_begun:
            self._inputs.remove(call.call_id)
        self._written_calls.add(call.call_id)
        return self.completed_call(call, is_begun=is_begun)

    def _round(self) -> bytes:
        if self._is_round:
            return b""
        ended = self.end_round() if self._has_round else b""
        self._is_round = self._has_round = True
        return ended + self.begin_round()

    def _end_block(self) -> bytes:
        kind, self._block = self._block, None
        return b"" if kind is None else self.end_block(kind)

    def _close(self) -> bytes:
        """Ends everything that has begun; a call whose input was not written to its end is one without."""
        ended = self._end_block()
        for call_id in tuple(self._inputs):
            self._inputs.remove(call_id)
            self._written_calls.add(call_id)
            ended += self.cut_call(call_id)
        if self._has_round:
            ended += self.end_round()
        self._is_round = self._has_round = False
        return ended

    def cut_call(self, call_id: str) -> bytes:
        """Returns the end of a call that was never made."""
        return b""


def encode(value: dict[str, Any]) -> bytes:
    """Returns an event of JSON."""
    return b"data: %b\n\n" % _encode(value)
