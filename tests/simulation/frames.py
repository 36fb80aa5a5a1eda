"""Frames — what a peer reads of the server's JSON, no more than the simulation needs."""

import msgspec


class Context(msgspec.Struct, frozen=True, rename="camel"):
    container_id: str | None = None
    image_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None


class Frame(msgspec.Struct, frozen=True):
    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    context: Context = Context()
    cursor: str | None = None

    def same(self, other: "Frame") -> bool:
        """Whether both tell of the same event; the time of a delta may differ."""
        if self.type != other.type or self.context != other.context:
            return False
        mine, others = bytes(self.data), bytes(other.data)
        return mine == others or msgspec.json.decode(mine) == msgspec.json.decode(others)


class _Wrapped(msgspec.Struct):
    payload: str = msgspec.field(name="__payload")
    msg_id: str = msgspec.field(name="__msgId")


class Session(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str


class Image(msgspec.Struct, frozen=True, rename="camel"):
    image_id: str
    container_id: str
    session_id: str


class Reply(msgspec.Struct, frozen=True, rename="camel"):
    """The members of every reply that anybody looks at."""

    request_id: str | None = None
    error: str | None = None
    error_code: str | None = None
    record: Image | None = None
    session: Session | None = None
    records: tuple[Image, ...] = ()
    sessions: tuple[Session, ...] = ()
    messages: tuple[msgspec.Raw, ...] = ()
    message_id: str | None = None
    turn_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None


_frame = msgspec.json.Decoder(Frame)
_wrapped = msgspec.json.Decoder(_Wrapped)
decode_data = msgspec.json.Decoder(Reply).decode


def decode(text: str) -> tuple[Frame, str | None]:
    """The frame, and the id to acknowledge if it was wrapped."""
    if text.startswith('{"__msgId"'):
        wrapped = _wrapped.decode(text)
        return _frame.decode(wrapped.payload), wrapped.msg_id
    return _frame.decode(text), None
