"""Response events — the parts of a turn as the events of a response, or as one object. Pure.

Theory of operation. A response is the part of a turn between two answers of its caller: the first ends where calls wait for the
caller, the next begins there, and the last ends with the turn. All of a turn is read for any of them, so that the numbers of
events, the ids of items and the items themselves are functions of the log: a stream that is replayed is the same stream.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from agentvm.gateways.openai.response_outputs import CallItem, TextItem
from agentvm.gateways.sse import event
from agentvm.gateways.turn_parts import (
    AnswerEnded,
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
from agentvm.gateways.words import asks_caller, is_asked, wait_text, words_for
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.model.wait import WaitId

INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
_DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","content_index":0,"logprobs":[],'

_encode = msgspec.json.Encoder().encode


def response_usage(usage: Usage) -> dict[str, Any]:
    """Returns the tokens in the words of responses, where those of the cache are part of the input."""
    input_tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": input_tokens + usage.output_tokens,
    }


class Rounds:
    """Finds where the responses of a turn end: where its caller is asked for results of its tools, or for its user's words."""

    def __init__(self) -> None:
        self._waits: dict[WaitId, CallWaits] = {}
        self._is_asked = False
        """Whether the caller has been asked since its last answer."""
        self._has_result = False
        self.again: list[CallWaits] = []
        """At the end of a response: questions of the one before that were left open by its results."""

    def end_at(self, part: TurnPart) -> bool:
        """Returns whether a response ends with the part."""
        match part:
            case CallWaits(wait_id=wait_id) if asks_caller(part):
                self._waits[wait_id] = part
                self._is_asked = True
            case CallEnded(call_id=call_id):
                self._has_result |= any(wait.call_id == call_id and wait.kind == "client" for wait in self._waits.values())
            case TurnWaits(waits=waits):
                open_waits = [self._waits[wait_id] for wait_id in waits if wait_id in self._waits]
                # While the results of one request are stored, the turn waits for the next of them.
                is_left = self._has_result and bool(open_waits) and all(wait.kind != "client" for wait in open_waits)
                if self._is_asked or is_left:
                    self.again = [] if self._is_asked else open_waits
                    self._is_asked = self._has_result = False
                    return True
            case _:
                pass
        return False


def count_rounds(parts: Iterable[TurnPart]) -> int:
    """Returns how often the caller was asked."""
    rounds = Rounds()
    return sum(rounds.end_at(part) for part in parts)


class ResponseEvents:
    """Writes a response as events, and remembers its items. `number` is its place in the turn, from 1.

    `head` has the members of the response that do not change. Events up to the number `after` are not written: the caller has
    them.
    """

    def __init__(self, head: dict[str, Any], *, client_tools: frozenset[str] = frozenset(), number: int = 1, after: int = -1):
        self._head, self._client_tools, self._number, self._after = head, client_tools, number, after
        self._key = str(head["id"]).removeprefix("resp_")
        self._place = 1
        """The response of the turn that is being read."""
        self._next = 0
        self._items: list[dict[str, Any]] = []
        self._text_item: TextItem | None = None
        self._text = b""
        self._calls: dict[str, CallItem] = {}
        self._earlier: dict[str, CallMade] = {}
        self._rounds = Rounds()
        self._status = "in_progress"
        self._used_before = self._used = NO_USAGE
        """Tokens of the model calls of the responses before, and of this one so far."""
        self._usage: dict[str, Any] | None = None
        self._error: dict[str, str] | None = None
        self._reason: str | None = None
        self.ended: TurnEnded | None = None
        self.is_done = False

    @property
    def has_begun(self) -> bool:
        return self._place >= self._number

    @property
    def response(self) -> dict[str, Any]:
        """The response as it is now."""
        return {
            **self._head,
            "status": self._status,
            "output": self._items,
            "usage": self._usage,
            "error": self._error,
            "incomplete_details": None if self._reason is None else {"reason": self._reason},
        }

    def begin(self) -> bytes:
        return self._begin() if self._number == 1 else b""

    def write(self, part: TurnPart, cursor: int) -> bytes:
        if self.is_done:
            return b""
        if isinstance(part, TextAdded) and self._text:
            assert self._text_item is not None
            self._text_item.pieces.append(part.text)
            number, self._next = self._next, self._next + 1
            return b"" if number <= self._after else b'%b%d,"delta":%b}\n\n' % (self._text, number, _encode(part.text))
        written = self._write(part) if self._place == self._number else b""
        if isinstance(part, CallMade):
            self._earlier[part.call_id] = part
        if isinstance(part, AnswerEnded) and self._place == self._number:
            self._used += part.usage
        elif isinstance(part, AnswerEnded):
            self._used_before += part.usage
        if self._rounds.end_at(part):
            return written + self._end_part()
        if isinstance(part, TurnEnded):
            return written + self._end_turn(part)
        return written

    def _end_part(self) -> bytes:
        """The caller is asked: this response ends, or the next one begins."""
        if self._place == self._number:
            self._usage = response_usage(self._used)
            questions = b"".join(self._write(wait) for wait in self._rounds.again)
            return questions + self._finish("completed", "completed")
        self._place += 1
        return self._begin() if self._place == self._number else b""

    def _end_turn(self, part: TurnEnded) -> bytes:
        self.ended, self.is_done = part, True
        if self._place < self._number:
            return b""
        self._usage = response_usage(part.usage - self._used_before)
        if part.outcome == "failed":
            code, message = part.error or ("internal", "The turn failed")
            self._error = {"code": code, "message": message}
            return self._finish("failed", "failed")
        if part.outcome == "interrupted":
            # The dialect has a status for this end, and no event of its own.
            return self._finish("cancelled", "incomplete")
        self._reason = INCOMPLETE.get(part.stop)
        kind = "completed" if self._reason is None else "incomplete"
        return self._finish(kind, kind)

    def _begin(self) -> bytes:
        response = self.response
        return self._event("response.created", response=response) + self._event("response.in_progress", response=response)

    def _finish(self, status: str, kind: str) -> bytes:
        closed = self._close(is_complete=status == "completed")
        for call in self._calls.values():
            if call.is_open:
                closed += self._events(call.end(None))
        self._status, self.is_done = status, True
        return closed + self._event(f"response.{kind}", response=self.response)

    def _write(self, part: TurnPart) -> bytes:
        match part:
            case TextAdded(text=text):
                return self._write_text("message", text)
            case ThinkingAdded(text=text):
                return self._write_text("reasoning", text)
            case CallBegun(call_id=call_id, name=name):
                return self._open_call(call_id, name)
            case CallInput(call_id=call_id, piece=piece):
                call = self._calls.get(call_id)
                return b"" if call is None else self._events(call.add(piece))
            case CallMade(call_id=call_id, name=name, input=given):
                opened = self._open_call(call_id, name)
                return opened + self._events(self._calls[call_id].make(given))
            case CallWaits(kind="client", call_id=call_id, name=name, input=given):
                return self._write_call(call_id, name, given)
            case CallWaits() if is_asked(part):
                text = wait_text(words_for(" ".join(question.message for question in (part.questions or {}).values())), part)
                is_going_on = self._text_item is not None and self._text_item.is_message
                return self._write_text("message", f"\n\n{text}" if is_going_on else text)
            case CallEnded(call_id=call_id, name=name):
                return self._end_call(part)
            case _:
                return b""

    def _write_text(self, kind: str, text: str) -> bytes:
        written = b""
        if self._text_item is None or self._text_item.kind != kind:
            written = self._close()
            self._text_item = TextItem(kind, self._items, self._key)
            written += self._events(self._text_item.open())
            if kind == "message":
                place = {"item_id": self._text_item.item_id, "output_index": self._text_item.index}
                self._text = _DELTA + _encode(place)[1:-1] + b',"sequence_number":'
        return written + self._events(self._text_item.add(text))

    def _close(self, *, is_complete: bool = True) -> bytes:
        text, self._text_item, self._text = self._text_item, None, b""
        return b"" if text is None else self._events(text.close(is_complete=is_complete))

    def _open_call(self, call_id: str, name: str, *, is_client: bool | None = None) -> bytes:
        if call_id in self._calls:
            return b""
        of_client = name in self._client_tools if is_client is None else is_client
        closed = self._close()
        call = self._calls[call_id] = CallItem(self._items, self._key, call_id, name, of_client=of_client)
        return closed + self._events(call.open())

    def _write_call(self, call_id: str, name: str, arguments: dict[str, Any]) -> bytes:
        """A call that the caller answers, also one that the agent's definition lets its callers run."""
        call = self._calls.get(call_id)
        written = b""
        if call is not None and not call.of_client:
            written = self._events(call.end(None))
            del self._calls[call_id]
        written += self._open_call(call_id, name, is_client=True)
        return written + self._events(self._calls[call_id].make(arguments))

    def _end_call(self, part: CallEnded) -> bytes:
        earlier = self._earlier.get(part.call_id)
        written = b""
        if part.call_id not in self._calls and earlier is not None and earlier.name not in self._client_tools:
            # It was made before the caller's answer, and has its result now.
            written = self._write(earlier)
        call = self._calls.get(part.call_id)
        if call is None or call.of_client:
            return written
        return written + self._events(call.end(part))

    def _events(self, events: list[tuple[str, dict[str, Any]]]) -> bytes:
        return b"".join(self._event(kind, **about) for kind, about in events)

    def _event(self, kind: str, **about: Any) -> bytes:
        number, self._next = self._next, self._next + 1
        if number <= self._after:
            return b""
        return event(_encode({"type": kind, "sequence_number": number, **about}), kind)
