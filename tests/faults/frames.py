"""Frames that no client should send, made by chance from a seed."""

import json
import random
import struct
from collections.abc import Callable

from agentvm.operations.table import COMMANDS

TEXT, BINARY, CLOSE, PING, PONG, CONTINUED = 1, 2, 8, 9, 10, 0

LETTERS = 'abc{}[]",:\\0123.-eE\u0000\u00e9\u4e2d\U0001f600 \n'


def frame(payload: bytes, opcode: int = TEXT, *, last: bool = True) -> bytes:
    """A masked frame; masked with zeros, which leaves the payload as it is."""
    first, size = (0x80 if last else 0) | opcode, len(payload)
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, size)
    return head + b"\x00\x00\x00\x00" + payload


class Fuzz:
    """`bearable` frames are answered or ignored; after a `fatal` one the connection must be closed with a code."""

    def __init__(self, seed: int, session_id: str, image_id: str) -> None:
        self._chance = random.Random(seed)
        self._known = [session_id, image_id, "nope", "", "c1", "x" * 300]
        self._bearable: list[Callable[[], bytes]] = [
            self._command,
            self._command,
            self._command,
            self._mutated,
            self._mutated,
            self._noise,
            self._nested,
            self._out_of_order,
            self._out_of_order,
            self._binary,
            self._control,
            self._fragments,
        ]

    def bearable(self) -> bytes:
        return self._chance.choice(self._bearable)()

    def fatal(self) -> tuple[bytes, tuple[int, ...]]:
        """The frame, and the codes that may answer it."""
        chance = self._chance
        body = self._text().encode()[:50]
        return chance.choice(
            [
                (frame(body + b"\xff\xfe"), (1007,)),
                (frame(b'{"type":"\xed\xa0\x80"}'), (1007,)),
                (frame(b"\xc3"), (1007,)),
                (b"\x81\xff" + chance.choice((2**40, 2**62, 101 * 2**20)).to_bytes(8) + b"\x00" * 4, (1009,)),
                (b"\x81\xff" + (2**63).to_bytes(8) + b"\x00" * 4, (1002, 1009)),
                (b"\x81\x02hi", (1002,)),
                (frame(body, chance.choice((3, 4, 5, 6, 7, 11, 15))), (1002,)),
                (bytes([chance.choice((0xC1, 0xA1, 0x91))]) + frame(body)[1:], (1002,)),
                (frame(b"x" * 126, chance.choice((PING, PONG, CLOSE))), (1002,)),
                (frame(b"", PING, last=False), (1002,)),
                (frame(body, CONTINUED), (1002,)),
                (frame(body, last=False) + frame(body), (1002,)),
                (frame(b"\x03", CLOSE), (1002,)),
                (frame(struct.pack("!H", chance.choice((0, 999, 1005, 1006, 5000))), CLOSE), (1002,)),
                (frame(struct.pack("!H", 1000) + b"\xff", CLOSE), (1002, 1007)),
                (frame(struct.pack("!H", 1000) + b"bye", CLOSE), (1000,)),
                (frame(b"", CLOSE), (1000, 1005)),
            ]
        )

    def chance(self, share: float) -> bool:
        return self._chance.random() < share

    def between(self, least: int, most: int) -> int:
        return self._chance.randint(least, most)

    def _text(self) -> str:
        return "".join(self._chance.choices(LETTERS, k=self._chance.randint(0, 60)))

    def _value(self, depth: int = 0) -> object:
        chance = self._chance
        if depth < 3 and chance.random() < 0.3:
            values = [self._value(depth + 1) for _ in range(chance.randint(0, 3))]
            return values if chance.random() < 0.5 else {self._text(): value for value in values}
        return chance.choice(
            [None, True, -1, 0, 2**53, 2**70, -(2**70), 1.5, 1e308, "", self._text(), *self._known, "\ud800", "a" * 2000]
        )

    def _asked(self) -> dict[str, object]:
        """A request with some members that some command knows."""
        chance = self._chance
        # Nothing that would be carried out and fill the disk: that is not what is tried here.
        name = chance.choice([name for name in COMMANDS if not name.endswith(("_create", "_build", "_register", "_delete"))])
        members = ("imageId", "sessionId", "containerId", "agentId", "content", "updates", "title", "name", "requestId", "x")
        data: object = {member: self._value() for member in chance.sample(members, k=chance.randint(0, 5))}
        if chance.random() < 0.1:
            data = self._value()
        elif isinstance(data, dict) and chance.random() < 0.7:
            # The same id again and again.
            data["requestId"] = f"r{chance.randint(0, 3)}"
        return {"type": f"{name}_request", "data": data, "context": self._value(), "timestamp": self._value()}

    def _command(self) -> bytes:
        return frame(json.dumps(self._asked()).encode())

    def _mutated(self) -> bytes:
        """A good frame with some letters changed, doubled or lost."""
        letters = list(json.dumps(self._asked()))
        for _ in range(self._chance.randint(1, 5)):
            at = self._chance.randrange(len(letters))
            letters[at] = self._chance.choice(("", letters[at] * 2, self._chance.choice(LETTERS)))
        return frame("".join(letters).encode())

    def _noise(self) -> bytes:
        return frame(self._text().encode())

    def _nested(self) -> bytes:
        depth = self._chance.choice((10, 200, 5_000, 100_000 if self._chance.random() < 0.02 else 1_000))
        opening, closing = self._chance.choice((("[", "]"), ('{"a":', "}"), ('{"type":"x_request","data":', "}")))
        inner = opening * depth + "1" + closing * (depth if self._chance.random() < 0.7 else depth - 1)
        return frame(inner.encode())

    def _out_of_order(self) -> bytes:
        """Frames of the protocol at a time, or from a side, where they make no sense."""
        chance = self._chance
        shapes: list[object] = [
            {"__ack": chance.choice(("conn_x_1", "", "x" * 5_000, 7, None))},
            {"__msgId": "m1", "__payload": json.dumps(self._asked())},
            {"type": "auth", "headers": self._value()},
            {"type": "subscribe", "sessionId": self._value(), "afterCursor": self._value()},
            {"type": "subscribe", "sessionId": self._known[0], "afterCursor": chance.choice(("0", "7", "9" * 18, "-1", "x"))},
            {"type": "turn_response", "category": "turn", "data": {"turnId": "t"}, "context": {"sessionId": self._known[0]}},
            {"type": "image_get_response", "category": "response", "data": {"requestId": "r1"}},
            {"type": f"{self._text()}_request", "data": {"requestId": "r1"}},
            {"type": self._value()},
            self._value(),
        ]
        return frame(json.dumps(chance.choice(shapes)).encode())

    def _binary(self) -> bytes:
        return frame(self._chance.randbytes(self._chance.randint(0, 100)), BINARY)

    def _control(self) -> bytes:
        return frame(self._chance.randbytes(self._chance.randint(0, 125)), self._chance.choice((PING, PONG)))

    def _fragments(self) -> bytes:
        """One message in pieces, with a ping between them."""
        body = json.dumps(self._asked()).encode()
        cut = self._chance.randrange(len(body))
        return frame(body[:cut], last=False) + self._control() + frame(body[cut:], CONTINUED)
