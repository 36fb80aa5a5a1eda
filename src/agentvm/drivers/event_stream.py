"""Event stream — bytes of an answer in, the data of its server-sent events out. Does no I/O.

Other fields than `data` say nothing to our decoders, and comments only keep a connection alive. Bytes are split before they
are decoded, so a piece may end anywhere, and all events of a piece are read in one go.
"""

import httpx2

_EMPTY: list[str] = []


class EventReader:
    """Reads the events of one answer."""

    __slots__ = ("_data", "_ends_in_cr", "_held", "_held_bytes", "_max_bytes", "_size")

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` bounds one event."""
        self._max_bytes = max_bytes
        self._held: list[bytes] = []
        """Pieces of a line that has not ended yet."""
        self._data: list[bytes] = []
        """Lines of an event that has not ended yet."""
        self._size = self._held_bytes = 0
        self._ends_in_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Returns the data of the events that end in this piece. Raises `SSEError` for an event that is too large."""
        if self._ends_in_cr or b"\r" in piece:
            piece = self._unify(piece)
        if b"\n" not in piece:
            self._hold(piece)
            return _EMPTY
        lines = piece.split(b"\n")
        if self._held:
            lines[0] = b"".join((*self._held, lines[0]))
            self._held, self._held_bytes = [], 0
        rest = lines.pop()
        events: list[str] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                self._size += len(line)
                self._check()
            elif not line and self._data:
                if text := b"\n".join(self._data).decode("utf-8", "replace"):
                    events.append(text)
                self._data = []
                self._size = 0
        if rest:
            self._hold(rest)
        return events

    def end(self) -> list[str]:
        """Returns the event that the end of the stream completes: where lines end in CR, nothing else shows that one has."""
        return self.feed(b"\n") if self._ends_in_cr else _EMPTY

    def _unify(self, piece: bytes) -> bytes:
        """Makes every line end in LF. A CR at the end may be half of a CRLF, so it is kept for the next piece."""
        piece = b"\r" + piece if self._ends_in_cr else piece
        self._ends_in_cr = piece.endswith(b"\r")
        piece = piece[:-1] if self._ends_in_cr else piece
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, piece: bytes) -> None:
        self._held.append(piece)
        self._held_bytes += len(piece)
        self._check()

    def _check(self) -> None:
        if self._size + self._held_bytes > self._max_bytes:
            raise httpx2.SSEError(f"An event exceeds {self._max_bytes:,} bytes.")
