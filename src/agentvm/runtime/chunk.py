"""Chunk — a run of a session's events as bytes, and back. Pure.

Content of messages is not stored twice: message events, and deltas whose text is part of a message, are references. The rest
is mostly numbers and compresses well, so the log of a turn is small compared to its text.
"""

import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise

import msgspec

from agentvm.events import CATALOGUE
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.message import AssistantMessageEvent, MessageEvent
from agentvm.events.stream import MessageStart, TextDelta
from agentvm.model import message as model
from agentvm.model.ids import TenantId
from agentvm.runtime.chunk_dictionary import DICTIONARY

Messages = Mapping[str, model.Message]
"""The messages that `named_messages` asked for, by id."""

_KINDS = CATALOGUE
_WINDOW_MIN_BITS = 12
"""The dictionary must fit into the window."""
_LEVEL = 3
"""Takes two thirds of the time of level 6, for 4 % more bytes: the dictionary does most of it."""


class _Entry(msgspec.Struct, array_like=True, omit_defaults=True):
    """One event, or a run of text deltas."""

    type: str
    scope: int
    passed: int
    """Milliseconds since the entry before."""
    data: bytes = b""
    """As JSON, which can represent every event, including integers of any size."""
    message_id: str | None = None
    """The message that is the event's data, or that holds the run's text from `offset` on."""
    offset: int = 0
    lengths: tuple[int, ...] = ()
    text: str | None = None
    gaps: tuple[int, ...] = ()
    """Milliseconds from each delta of the run to the next. None if all came at once; older chunks have none either."""


class _Chunk(msgspec.Struct, array_like=True):
    first_seq: int
    started_at: int
    scopes: tuple[EventScope, ...]
    entries: tuple[_Entry, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Chunk)
_encode_json = msgspec.json.Encoder().encode


def encode_events(events: Sequence[Event]) -> bytes:
    """At least one event, with consecutive seqs."""
    if len(events) == 1 and isinstance(data := events[0].data, TextDelta):
        # Nearly every entry of the journal: one delta of each session that speaks.
        alone = _Entry(TextDelta.type, 0, 0, lengths=(len(data.text),), text=data.text)
        return _encoder.encode(_Chunk(events[0].seq, events[0].timestamp, (events[0].scope,), (alone,)))
    return _encoder.encode(_Chunk(events[0].seq, events[0].timestamp, *_Packer(events).pack(events)))


def decode_events(body: bytes, tenant_id: TenantId, messages: Messages) -> list[Event]:
    chunk = _decoder.decode(body)
    events: list[Event] = []
    seq, at = chunk.first_seq, chunk.started_at
    for entry in chunk.entries:
        at += entry.passed
        told_at, gaps = at, iter(entry.gaps)
        for data in _unpack(entry, messages):
            events.append(Event(data=data, scope=chunk.scopes[entry.scope], timestamp=told_at, tenant_id=tenant_id, seq=seq))
            told_at += next(gaps, 0)
            seq += 1
    return events


def last_seq(body: bytes) -> int:
    """Numbers of its first and last event, known also when they cannot be decoded."""
    chunk = _decoder.decode(body)
    return chunk.first_seq - 1 + sum(len(entry.lengths) if entry.type == TextDelta.type else 1 for entry in chunk.entries)


def named_messages(body: bytes) -> list[str]:
    """The ids of the messages that decoding will ask for."""
    return list(dict.fromkeys(entry.message_id for entry in _decoder.decode(body).entries if entry.message_id is not None))


def first_seq(body: bytes) -> int:
    return _decoder.decode(body).first_seq


def decode_some(body: bytes, tenant_id: TenantId, kinds: Container[type[EventData]]) -> list[Event]:
    """The events of these kinds alone, in order, without any message: text that has become part of one is left out."""
    chunk = _decoder.decode(body)
    events: list[Event] = []
    seq, at = chunk.first_seq, chunk.started_at
    for entry in chunk.entries:
        at += entry.passed
        kind = _KINDS[entry.type]
        if kind in kinds and entry.message_id is None:
            scope = chunk.scopes[entry.scope]
            # When each came within a run is of no interest to those who have no messages.
            decoded = (Event(data=data, scope=scope, timestamp=at, tenant_id=tenant_id) for data in _unpack(entry, {}))
            events += [msgspec.structs.replace(event, seq=seq + number) for number, event in enumerate(decoded)]
        seq += len(entry.lengths) if kind is TextDelta else 1
    return events


def join_events(bodies: Sequence[bytes]) -> bytes:
    """Joins the results of `encode_events` for consecutive runs of events."""
    chunks = [_decoder.decode(body) for body in bodies]
    scopes: dict[EventScope, int] = {}
    entries: list[_Entry] = []
    before = chunks[0].started_at
    for chunk in chunks:
        at = chunk.started_at
        for entry in chunk.entries:
            at += entry.passed
            entry.passed, before = at - before, at
            entry.scope = scopes.setdefault(chunk.scopes[entry.scope], len(scopes))
            entries.append(entry)
    return _encoder.encode(_Chunk(chunks[0].first_seq, chunks[0].started_at, tuple(scopes), tuple(entries)))


def encode_chunk(events: Sequence[Event]) -> bytes:
    """For keeping: compressed."""
    return close_chunk(encode_events(events))


def close_chunk(body: bytes) -> bytes:
    """Compresses the result of `encode_events` for storage."""
    # As large a window as there is to compress: zlib clears it first, which takes longer than compressing a short turn.
    compressor = _compressor(min(zlib.MAX_WBITS, max(_WINDOW_MIN_BITS, len(body).bit_length()))).copy()
    return compressor.compress(body) + compressor.flush()


@cache
def _compressor(window: int) -> "zlib._Compress":
    """Returns a compressor that has read the dictionary, to be copied: reading takes as long as compressing a short turn."""
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, window, window - 7, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)


def open_chunk(body: bytes) -> bytes:
    """Decompresses the result of `encode_chunk`, for `named_messages` and `decode_events`; `zlib.error` if it is damaged."""
    opening = zlib.decompressobj(zlib.MAX_WBITS, DICTIONARY)
    opened = opening.decompress(body)
    if not opening.eof:
        raise zlib.error("the chunk is cut off")
    return opened


class _Packer:
    """Turns events into entries, joining runs of deltas."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._scopes: dict[EventScope, int] = {}
        self._entries: list[_Entry] = []
        self._before = events[0].timestamp
        self._last: tuple[EventScope | None, int] = (None, 0)
        """The scope of the entry before, nearly always that of the next one too, and its number."""
        self._texts: dict[str, str] = {
            event.data.message.id: event.data.message.text
            for event in events
            if event.data.category == "message"
            and isinstance(event.data, AssistantMessageEvent)
            and isinstance(event.data.message, model.AssistantMessage)
        }
        self._speaking = ""
        self._offset = 0

    def pack(self, events: Sequence[Event]) -> tuple[tuple[EventScope, ...], tuple[_Entry, ...]]:
        """Returns the scopes and the entries of all events; for one call."""
        entries, run = self._entries, list[Event]()
        for event in events:
            data = event.data
            if isinstance(data, TextDelta):
                if run and run[0].scope is not event.scope and run[0].scope != event.scope:
                    self._add_run(run)
                    run = []
                run.append(event)
                continue
            if run:
                self._add_run(run)
                run = []
            entry = self._entry(event)
            if data.category == "message" and isinstance(data, MessageEvent):
                entry.message_id = data.message.id
            else:
                entry.data = _encode_json(data)
                if isinstance(data, MessageStart):
                    self._speaking, self._offset = data.message_id, len(data.text or "")
            entries.append(entry)
        if run:
            self._add_run(run)
        return tuple(self._scopes), tuple(entries)

    def _add_run(self, run: Sequence[Event]) -> None:
        deltas = [event.data.text for event in run if isinstance(event.data, TextDelta)]
        entry = self._entry(run[0])
        entry.lengths = tuple(map(len, deltas))
        gaps = tuple([after.timestamp - before.timestamp for before, after in pairwise(run)])
        if any(gaps):
            entry.gaps = gaps
        text = "".join(deltas)
        # Empty text is in every message, also in one that was never stored.
        if text and self._texts.get(self._speaking, "").startswith(text, self._offset):
            entry.message_id, entry.offset = self._speaking, self._offset
        else:
            entry.text = text
        self._offset += len(text)
        self._entries.append(entry)

    def _entry(self, event: Event) -> _Entry:
        """Returns an entry with the kind, the scope and the time of the event."""
        scope, number = self._last
        if event.scope is not scope:
            number = self._scopes.setdefault(event.scope, len(self._scopes))
            self._last = event.scope, number
        passed, self._before = event.timestamp - self._before, event.timestamp
        return _Entry(event.data.type, number, passed)


def _unpack(entry: _Entry, messages: Messages) -> Iterable[EventData]:
    kind = _KINDS[entry.type]
    if kind is TextDelta:
        text = entry.text if entry.text is not None else _text_of(messages[entry.message_id or ""])
        at = entry.offset
        for length in entry.lengths:
            yield TextDelta(text=text[at : at + length])
            at += length
    elif issubclass(kind, MessageEvent):
        yield kind(message=messages[entry.message_id or ""])
    else:
        yield msgspec.json.decode(entry.data, type=kind)


def _text_of(message: model.Message) -> str:
    return message.text if isinstance(message, model.AssistantMessage) else ""
