"""Body — the bodies of requests and of large responses: bounded in bytes, in values and in time.

All bytes in memory are charged to the byte budget. A peer that sends or reads too slowly is not waited for: besides a timeout
for each piece there is one for the whole, which grows with the bytes so far.
"""

import functools
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import BinaryIO, TypeVar, cast

import anyio
import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.bounds import InputTooLarge, ServerBusy
from agentvm.errors.validation import explain
from agentvm.model.image import ImageConfig
from agentvm.model.turn import TurnOptions
from agentvm.operations.context import Context
from agentvm.operations.http_face import HttpFace
from agentvm.operations.image_build import ImageUpdates
from agentvm.protocol.bounds import Bound, check
from agentvm.server.exchange import HttpError, HttpRequest
from agentvm.sharing.reservation import ConnectionReservation

BODY_MAX_BYTES = 1024 * 1024
VALUES_MAX = 50_000
"""Maximum of a JSON body, unless its operation sets another."""
BODY_SECONDS = 30.0
"""Timeout of a piece of a body, and of the whole beyond the time that its size allows."""
SECOND_MIN_BYTES = 16 * 1024
"""Bytes that must arrive, or be read, per second on average."""
PIECE_BYTES = 64 * 1024

S = TypeVar("S", bound=msgspec.Struct)

BUSY = "The server is handling too much data at the moment; try again in a few seconds"


class _StrictOptions(TurnOptions, frozen=True, forbid_unknown_fields=True):
    """Options of a turn in which every member is known."""


class _StrictConfig(ImageConfig, frozen=True, forbid_unknown_fields=True):
    """The config of an image in which every member is known."""


class _StrictUpdates(ImageUpdates, frozen=True, forbid_unknown_fields=True):
    """Changes of an image in which every member is known."""


class _StrictBody(msgspec.Struct, frozen=True):
    options: _StrictOptions | None = None
    config: _StrictConfig | None = None
    updates: _StrictUpdates | None = None


_LENIENT = {"options": TurnOptions, "config": ImageConfig, "updates": ImageUpdates}


class Pace:
    """The deadlines of a body that is sent in pieces."""

    def __init__(self) -> None:
        self._began = anyio.current_time()

    def seconds(self, size: int) -> float:
        """Returns the timeout of the next piece, after that many bytes."""
        allowed = self._began + BODY_SECONDS + size / SECOND_MIN_BYTES - anyio.current_time()
        return max(0.0, min(BODY_SECONDS, allowed))


async def receive_body(request: HttpRequest, charge: ConnectionReservation) -> bytes:
    """Returns the body; `ServerBusy` when there is no room for it."""
    if request.received is not None:
        return request.received
    chunks: list[bytes] = []
    size = 0
    async for chunk in _chunks(request):
        size += len(chunk)
        hold(charge, size)
        chunks.append(chunk)
    return b"".join(chunks)


@asynccontextmanager
async def received_file(
    face: HttpFace, context: Context, request: HttpRequest, reservation: ConnectionReservation
) -> AsyncIterator[BinaryIO]:
    """Yields a body that may be large as a file on the disk, closed when the block ends."""
    with tempfile.SpooledTemporaryFile(max_size=BODY_MAX_BYTES) as file, ExitStack() as stack:
        guards: list[Callable[[int], None]] = []
        if face.http.guard is not None:
            guards.append(functools.partial(face.http.guard, context))
        if face.http.receiving is not None:
            guards.append(stack.enter_context(face.http.receiving(context)))
        announced, size = request.headers.get("content-length", ""), 0
        for guard in guards if announced.isdigit() else ():
            guard(int(announced))
        async for chunk in _chunks(request):
            size += len(chunk)
            for guard in guards:
                guard(size)
            hold(reservation, min(size, BODY_MAX_BYTES))
            file.write(chunk)
        yield cast("BinaryIO", file)


def hold(charge: ConnectionReservation, size: int) -> None:
    if not charge.hold(size):
        raise ServerBusy(BUSY)


def decode_body(body: bytes, kind: type[S], max_values: int | None = None) -> S:
    """Decodes a JSON body; `InputTooLarge`, before anything is built, for one with too many values."""
    try:
        check(body, Bound(max_bytes=len(body), max_values=max_values or VALUES_MAX), "The body")
        decoded = msgspec.json.decode(body or b"{}", type=kind)
        # A value that cannot be encoded again cannot be stored either: half of a surrogate pair.
        msgspec.json.encode(decoded)
    except InputTooLarge:
        raise
    except msgspec.ValidationError as error:
        wrong = InvalidInput(f"The body is invalid: {explain(error, kind)}")
        # It is told where the decoder has stopped; what follows may be no JSON at all.
        raise wrong if _is_json(body) else _unread() from None
    except (msgspec.DecodeError, UnicodeError):
        raise _unread() from None
    except RecursionError:
        raise InvalidInput("The body is nested too deep") from None
    return decoded


def check_names(content: bytes, body: object) -> None:
    """Refuses unknown members of options and of images: the wire of AgentX lets them pass, and people mistype their names."""
    if any(isinstance(getattr(body, name, None), kind) for name, kind in _LENIENT.items()):
        try:
            msgspec.json.decode(content, type=_StrictBody)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The body is invalid: {explain(error, _StrictBody)}") from None


def _unread() -> InvalidInput:
    unread = InvalidInput("The body must be JSON")
    unread.is_unread = True
    return unread


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    except RecursionError:
        pass  # It is nested deep, and JSON so far.
    return True


async def pieces(content: bytes, charge: ConnectionReservation) -> AsyncIterator[bytes]:
    """Yields a response piece by piece; charged until it was sent, and cut off for a peer that reads too slowly."""
    pace = Pace()
    try:
        # There was room a moment ago; a response that has begun cannot be refused any more.
        charge.hold(len(content))
        for begin in range(0, len(content), PIECE_BYTES):
            if not pace.seconds(begin):
                raise TimeoutError("the response is read too slowly")
            yield content[begin : begin + PIECE_BYTES]
    finally:
        charge.hold(0)


async def _chunks(request: HttpRequest) -> AsyncIterator[bytes]:
    """Yields the chunks that are not empty; `HttpError` 408 when they come too slowly."""
    chunks, pace, size = aiter(request.stream()), Pace(), 0
    while True:
        try:
            with anyio.fail_after(pace.seconds(size)):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise HttpError(408) from None
        size += len(chunk)
        if chunk:
            yield chunk
