"""Frames — the messages between the server, the launcher and the process of a job: a length, then msgpack.

Every frame has a bound, checked before its body is read. Descriptors travel with the first byte of a frame. The launcher and
the job read and write here with blocking calls; the server does it in `agentvm.tiers.link`. Once foreign code has begun, only
`Asking` and `Value` may come from a job, without descriptors.

Part of the launcher's process: standard library and msgspec only.
"""

import array
import socket
import struct
from collections.abc import Sequence
from typing import Any

import msgspec

FRAME_MAX_BYTES = 256 * 1024 * 1024
"""Bound of a frame that carries a whole workspace."""
CALL_MAX_BYTES = 4 * 1024 * 1024
"""Bound of a frame that jailed code has written."""
VALUE_MAX_BYTES = CALL_MAX_BYTES - 1024
"""Bound of the value of jailed code, as JSON, within such a frame."""
PIECE_BYTES = 64 * 1024
DESCRIPTORS_MAX = 4
"""Descriptors that come with one frame."""
_HEADER = struct.Struct("!I")
HEADER_BYTES = 4


class Message(msgspec.Struct, tag=True, array_like=True):
    """A frame's content, told apart by its class."""


class Hello(Message):
    """Server to launcher, first of all."""

    server: int
    """Process id of the server."""
    rootfs: str | None = None
    first_uid: int = 0
    uids: int = 0
    layers: str = ""
    """Folder with the packages of sandboxes; empty if there are none."""
    namespaces: bool = True
    """False leaves them out, though the kernel may have them: for tests of hosts that forbid them."""


class HostReport(Message):
    """Launcher to server: the walls that this machine allows, each tried and not guessed."""

    mode: str
    """`namespaces`, `landlock`, or `none`: no wall that would hold."""
    why: str = ""
    """The reason why the mode is not the best one."""
    landlock: int = 0
    seccomp: bool = False
    proc: bool = False
    own_uid: bool = False
    cgroup: str = "none"
    scratch: str = ""
    """Folder of the workspaces where there are no private mounts."""
    engines: dict[str, str] = {}
    """Names of engines, with the program of each."""


class Start(Message):
    """Server to launcher, with the descriptors of the job's line, stdout, stderr, and of stdin if there is any."""

    id: int
    memory_bytes: int = 0
    """Memory of the job as a whole, which takes a control group; 0 for none."""
    processes: int = 0


class Kill(Message):
    id: int


class Ended(Message):
    """Launcher to server: every process of the job is gone."""

    id: int
    status: int
    """As `wait` reports it."""
    cpu_ms: int = 0
    max_rss_bytes: int = 0
    out_of_memory: bool = False
    """Whether its control group ran out of memory."""


class Forget(Message):
    """Server to launcher: the files of the job have been collected, and its folder can go. Only where there is a folder."""

    id: int


class Bounds(Message):
    """Limits of one job."""

    cpu_seconds: int
    memory_bytes: int
    processes: int
    disk_bytes: int
    files: int


class HostAnswer(Message):
    """Server to the jail: the value that the function returned, or why it failed."""

    id: int
    value: bytes = b"null"
    error: str | None = None


class JobWork(Message):
    """Server to the jail: the job itself."""

    role: str
    bounds: Bounds
    code: str = ""
    script: bool = False
    argv: list[str] = []
    input: bytes | None = None
    """JSON."""
    env: dict[str, str] = {}
    files: dict[str, bytes] = {}
    executable: list[str] = []
    inputs: dict[str, bytes] = {}
    """Files that the job can read and not change, by name."""
    skills: dict[str, bytes] = {}
    """More of them, by path."""
    functions: dict[str, list[str]] = {}
    """Functions of the server that the code may call, each with the names of its parameters."""
    known: list[HostAnswer] = []
    """Answers to the first calls of the code, which it has had in an earlier run."""
    network: bool = False
    layer: str = ""
    """Name of the layer with the packages of the job."""


class Listening(Message):
    """Jail to server, with the descriptor of a listener inside the job's network namespace."""


class Asking(Message):
    """Jail to server: the code calls a function of the server."""

    id: int
    name: str
    args: bytes
    """JSON."""
    known: bool = False
    """Whether the code has the answer from an earlier run, and waits for none."""


class Value(Message):
    """The code's own process to the server: the value of the code, as JSON."""

    value: bytes
    out_of_memory: bool = False


class Broken(Message):
    """Jail to server: a wall could not be built, so nothing was run."""

    step: str
    why: str


class Begun(Message):
    """Jail to server, with the descriptor of the workspace: all walls stand. All later frames are written by foreign code."""

    placed: dict[str, tuple[int, int, int, int, int]] = {}
    """Facts of the files that were put in, to tell which of them change."""


AnyMessage = (
    Hello | HostReport | Start | Kill | Ended | Forget | JobWork | Listening | Asking | HostAnswer | Value | Broken | Begun
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


class FrameInvalid(Exception):
    """The peer sent bytes that are not a frame, or a frame beyond its bound."""


def encode(message: Message) -> bytes:
    body = _encoder.encode(message)
    return _HEADER.pack(len(body)) + body


def length_of(header: bytes, limit: int) -> int:
    """The length that a header announces; `FrameInvalid` beyond the limit."""
    length: int = _HEADER.unpack(header)[0]
    if length > limit:
        raise FrameInvalid(f"a frame of {length} bytes, where {limit} are allowed")
    return length


def decode(body: bytes | bytearray) -> AnyMessage:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise FrameInvalid(f"no frame: {error}") from None


def send(connection: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    """Writes a whole frame, waiting as long as it takes."""
    data = memoryview(encode(message))
    if descriptors:
        rights = array.array("i", descriptors)
        data = data[connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]) :]
    if data:
        connection.sendall(data)


def receive(connection: socket.socket, limit: int = FRAME_MAX_BYTES) -> tuple[AnyMessage, list[int]]:
    """Reads a whole frame and the descriptors that came with it; `EOFError` when the peer is gone."""
    header, descriptors = receive_header(connection)
    header += _exactly(connection, HEADER_BYTES - len(header))
    return decode(_exactly(connection, length_of(header, limit))), descriptors


def receive_header(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The first bytes of a frame, maybe not all of its header, with its descriptors; `EOFError` when the peer is gone."""
    room = socket.CMSG_SPACE(4 * DESCRIPTORS_MAX)
    data, ancillary, _, _ = connection.recvmsg(HEADER_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    if not data:
        raise EOFError
    return data, _descriptors(ancillary)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    descriptors: Any = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return list(descriptors)


def _exactly(connection: socket.socket, length: int) -> bytes:
    body = bytearray(length)
    rest = memoryview(body)
    while rest:
        count = connection.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return bytes(body)
