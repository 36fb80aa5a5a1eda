"""Body — what a request brings and what a large answer takes with it: bounded in bytes, in values and in time.

Everything that is in memory is charged to the byte budget. A peer that sends or reads too slowly is not waited for: besides a
bound for each piece there is one for the whole, which grows with what has come so far.
"""

import functools
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import BinaryIO, cast

import anyio
import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.bounds import InputTooLarge, ServerBusy
from agentvm.errors.validation import explain
from agentvm.operations.context import Context
from agentvm.operations.http_face import HttpFace
from agentvm.protocol.bounds import Bound, check
from agentvm.server.exchange import HttpError, HttpRequest
from agentvm.sharing.reservation import ConnectionReservation

MAX_BODY = 1024 * 1024
MAX_VALUES = 50_000
"""Of a JSON body, unless its route says otherwise."""
BODY_SECONDS = 30.0
"""How long a piece of a body may take to arrive, and the whole beyond what its size allows."""
MIN_BYTES_PER_SECOND = 16 * 1024
"""How fast a body must arrive, and an answer be read, on average."""
PIECE_BYTES = 64 * 1024

BUSY = "The server is handling too much data at the moment; try again in a few seconds"


class Pace:
    """When something that comes in pieces must have come."""

    def __init__(self) -> None:
        self._began = anyio.current_time()

    def seconds(self, size: int) -> float:
        """How long the next piece may take, after that many bytes."""
        allowed = self._began + BODY_SECONDS + size / MIN_BYTES_PER_SECOND - anyio.current_time()
        return max(0.0, min(BODY_SECONDS, allowed))


async def receive_body(request: HttpRequest, charge: ConnectionReservation) -> bytes:
    """`ServerBusy` when there is no room for it."""
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
    with tempfile.SpooledTemporaryFile(max_size=MAX_BODY) as file, ExitStack() as stack:
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
            hold(reservation, min(size, MAX_BODY))
            file.write(chunk)
        yield cast("BinaryIO", file)


def hold(charge: ConnectionReservation, size: int) -> None:
    if not charge.hold(size):
        raise ServerBusy(BUSY)


def decode_body(body: bytes, face: HttpFace) -> msgspec.Struct:
    """`InputTooLarge` before anything is built of what has too many values."""
    kind = face.body
    try:
        check(body, Bound(max_bytes=len(body), max_values=face.http.max_values or MAX_VALUES), "The body")
        given = msgspec.json.decode(body or b"{}", type=kind)
        # What cannot be written again cannot be stored either: half of a surrogate pair.
        msgspec.json.encode(given)
    except InputTooLarge:
        raise
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The body cannot be understood: {explain(error, kind)}") from None
    except (msgspec.DecodeError, UnicodeError):
        raise InvalidInput("The body must be JSON") from None
    except RecursionError:
        raise InvalidInput("The body is nested too deep; make it flatter") from None
    return given


async def pieces(content: bytes, charge: ConnectionReservation) -> AsyncIterator[bytes]:
    """An answer piece by piece, as it is read; charged for until it has left, and cut off for a peer that reads too slowly."""
    pace = Pace()
    try:
        # There was room a moment ago; an answer that has begun cannot be refused any more.
        charge.hold(len(content))
        for begin in range(0, len(content), PIECE_BYTES):
            if not pace.seconds(begin):
                raise TimeoutError("the answer is read too slowly")
            yield content[begin : begin + PIECE_BYTES]
    finally:
        charge.hold(0)


async def _chunks(request: HttpRequest) -> AsyncIterator[bytes]:
    """Those that are not empty; 408 when they come too slowly."""
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
