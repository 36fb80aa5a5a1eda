"""Import process — starts the process that reads an import, waits for it within bounds, and always ends it.

However the process ends, the import is read or refused: one that needs too much memory or time, is killed or answers nonsense
is an import that cannot be read. The server reads of it one line of bounded length, and the spool.
"""

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.abc
import msgspec

from agentvm.errors import AgentVMError, InvalidInput, StoreFailed
from agentvm.errors.archive import ArchiveInvalid, ArchiveTooLarge
from agentvm.log import get_logger
from agentvm.sessions.import_reader import CPU_SECONDS, MEMORY_BYTES, Assignment, Orders, Reading, Refusal

logger = get_logger(__name__)

READ_SECONDS = 300.0
"""Timeout of reading an import."""
MAX_ANSWER_BYTES = 64 * 1024
_TAIL_BYTES = 2_000
_MESSAGE_CHARACTERS = 2_000

COMMAND = (sys.executable, "-P", "-m", "agentvm.sessions.import_reader")
# What a Python program needs to start, and nothing else: the child must not inherit anybody's keys.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "TMPDIR")
_PACKAGES = str(Path(__file__).parents[2])
_KNOWN: dict[str, type[AgentVMError]] = {
    error.code: error for error in (ArchiveInvalid, ArchiveTooLarge, InvalidInput, StoreFailed)
}
_answers: msgspec.json.Decoder[Reading | Refusal] = msgspec.json.Decoder(Reading | Refusal)


class ImportProcess:
    """Reads imports, each in a process of its own."""

    def __init__(
        self,
        *,
        command: Sequence[str] = COMMAND,
        seconds: float = READ_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
        cpu_seconds: int = CPU_SECONDS,
    ) -> None:
        self._command = command
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._cpu_seconds = cpu_seconds
        self.process_ids: set[int] = set()
        """Ids of the running processes."""

    async def read(self, source: BinaryIO, spool: BinaryIO, orders: Orders) -> Reading:
        """Reads the source into the spool; both must be files on disk. Raises the error that the process reported."""
        source_number = source.fileno()
        source.flush()
        assignment = Assignment(
            orders=orders,
            parent=os.getpid(),
            source=source_number,
            spool=spool.fileno(),
            memory_bytes=self._memory_bytes,
            cpu_seconds=self._cpu_seconds,
        )
        async with self._start(assignment) as process:
            answer = tail = b""
            with anyio.move_on_after(self._seconds) as waiting:
                answer, tail = await _read_output(process)
                await process.wait()
        if waiting.cancelled_caught:
            raise ArchiveTooLarge(
                f"The import is refused, and nothing was written: it could not be read within {self._seconds:g} seconds; "
                "import it in several files"
            )
        return _understand(answer, tail, process.returncode)

    @asynccontextmanager
    async def _start(self, assignment: Assignment) -> AsyncIterator[anyio.abc.Process]:
        """Yields the process, which is gone when the context is left."""
        try:
            # A start that is cancelled half-way leaves the process behind.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    [*self._command, msgspec.json.encode(assignment).decode()],
                    env=_environment(),
                    cwd="/",
                    # Its own session: a Ctrl-C in our terminal is for us to handle.
                    start_new_session=True,
                    pass_fds=(assignment.source, assignment.spool),
                )
        except OSError as error:
            raise StoreFailed(f"The process that reads imports cannot be started: {error.strerror}; try again") from error
        self.process_ids.add(process.pid)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.aclose()
            self.process_ids.discard(process.pid)


def _environment() -> dict[str, str]:
    variables = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**variables, "PYTHONPATH": os.pathsep.join(filter(None, (_PACKAGES, variables.get("PYTHONPATH"))))}


async def _read_output(process: anyio.abc.Process) -> tuple[bytes, bytes]:
    """Returns the output of the process, and the end of its errors."""
    output: dict[str, bytes] = {"answer": b"", "tail": b""}

    async def answer(stream: anyio.abc.ByteReceiveStream) -> None:
        async for piece in stream:
            output["answer"] += piece
            if len(output["answer"]) > MAX_ANSWER_BYTES:
                process.kill()
                return

    async def tail(stream: anyio.abc.ByteReceiveStream) -> None:
        async for piece in stream:
            output["tail"] = (output["tail"] + piece)[-_TAIL_BYTES:]

    assert process.stdout is not None
    assert process.stderr is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer, process.stdout)
        tasks.start_soon(tail, process.stderr)
    return output["answer"], output["tail"]


def _understand(answer: bytes, tail: bytes, status: int | None) -> Reading:
    try:
        reply = _answers.decode(answer[:MAX_ANSWER_BYTES])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise _failed(tail, status) from None
    if isinstance(reply, Reading):
        return reply
    kind = _KNOWN.get(reply.code, ArchiveInvalid)
    raise kind(reply.message[:_MESSAGE_CHARACTERS], details=dict(reply.details))


def _failed(tail: bytes, status: int | None) -> AgentVMError:
    # Of a traceback only the kind of error: the rest may be what somebody has said.
    last = tail.decode(errors="replace").strip().rpartition("\n")[2].partition(":")[0]
    logger.error("import_not_read", status=status, error=last if last.isidentifier() else "")
    if status in (-signal.SIGKILL, -signal.SIGXCPU) or last == "MemoryError":
        return ArchiveTooLarge(
            "The import is refused, and nothing was written: it needs more memory or time to be read than an import may have"
        )
    return ArchiveInvalid("The import is refused, and nothing was written: it cannot be read")
