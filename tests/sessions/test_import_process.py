import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

import anyio
import pytest
from tests.conformance.records import HOME
from tests.faults.process import until

from agentvm.errors import AgentVMError, InvalidInput, StoreFailed
from agentvm.errors.archive import ArchiveInvalid, ArchiveTooLarge
from agentvm.sessions.import_process import ImportProcess
from agentvm.sessions.import_reader import Orders, Reading
from agentvm.sessions.staged import Staged

WAIT = 60.0
CLAUDE = json.dumps([{"name": "Hi", "chat_messages": [{"sender": "human", "text": "你好"}]}]).encode()
LARGE = json.dumps([{"name": "Hi", "chat_messages": [{"sender": "human", "text": "x" * 1_000_000}]}] * 40).encode()


async def run(body: bytes, process: ImportProcess, orders: Orders | None = None) -> tuple[Reading, int]:
    with anyio.fail_after(WAIT), TemporaryFile() as source, TemporaryFile() as spool:
        source.write(body)
        reading = await process.read(source, spool, orders or Orders(container_id=HOME))
        assert process.process_ids == set()
        return reading, Staged(spool).counts.messages


async def fails(body: bytes, process: ImportProcess, orders: Orders | None = None) -> AgentVMError:
    with pytest.raises(AgentVMError) as caught:
        await run(body, process, orders)
    assert process.process_ids == set()
    return caught.value


def python(program: str) -> Sequence[str]:
    return (sys.executable, "-c", program)


async def test_a_file_is_read_by_a_process_and_comes_back_checked() -> None:
    assert await run(CLAUDE, ImportProcess()) == (Reading(kind="claude"), 1)


async def test_what_the_process_refuses_is_refused_with_its_words() -> None:
    error = await fails(b"[{}]", ImportProcess(), Orders(kind="claude", container_id=HOME))
    assert isinstance(error, ArchiveInvalid)
    assert error.details == {"file": "conversations.json", "member": "chat_messages"}
    assert type(await fails(CLAUDE, ImportProcess(), Orders())) is InvalidInput


async def test_a_process_has_only_so_much_memory_and_room() -> None:
    small = ImportProcess(memory_bytes=100 * 1024 * 1024)
    hog = [{"name": "Hi", "chat_messages": [{"sender": "human", "text": "😀" + "x" * 30_000_000}]}]
    error = await fails(json.dumps(hog, ensure_ascii=False).encode(), small)
    assert isinstance(error, ArchiveTooLarge)
    assert "memory" in str(error)
    error = await fails(LARGE, ImportProcess(), Orders(container_id=HOME, most_bytes=10_000_000))
    assert isinstance(error, ArchiveTooLarge)


async def test_a_process_has_only_so_much_time() -> None:
    error = await fails(CLAUDE, ImportProcess(command=python("import sys; sys.stdin.read()"), seconds=0.2))
    assert isinstance(error, ArchiveTooLarge)
    spin = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass"
    error = await fails(CLAUDE, ImportProcess(command=python(spin)))
    assert isinstance(error, ArchiveTooLarge)


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", ArchiveTooLarge),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ArchiveInvalid),
        ("raise ValueError('what somebody said')", ArchiveInvalid),
        ("print('nonsense')", ArchiveInvalid),
        ('print(\'{"type":"read","kind":"virus"}\')', ArchiveInvalid),
        ('print(\'{"type":"refused","code":"internal_error","message":"x"}\')', ArchiveInvalid),
        ("print('[' * 10_000)", ArchiveInvalid),
        ("import sys\nwhile True: print('x' * 10_000)", ArchiveTooLarge),
        ("import sys\nsys.stderr.write('x' * 1_000_000)", ArchiveInvalid),
    ],
)
async def test_a_process_that_dies_or_answers_nonsense_is_an_import_that_cannot_be_read(
    program: str, kind: type[AgentVMError], capsys: pytest.CaptureFixture[str]
) -> None:
    error = await fails(CLAUDE, ImportProcess(command=python(program)))
    assert type(error) is kind
    assert "somebody" not in str(error)
    assert "somebody" not in "".join(capsys.readouterr())


async def test_a_program_that_cannot_be_started_is_no_fault_of_the_import() -> None:
    assert isinstance(await fails(CLAUDE, ImportProcess(command=("/nowhere",))), StoreFailed)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z" if Path("/proc/self/stat").exists() else True


async def test_a_process_ends_with_the_request_that_began_it() -> None:
    process = ImportProcess(command=python("import sys; sys.stdin.read()"))
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, CLAUDE, process)
            await until(lambda: bool(process.process_ids))
            (pid,) = process.process_ids
            tasks.cancel_scope.cancel()
        assert process.process_ids == set()
        assert not is_alive(pid)


PARENT = """
import anyio, sys
from tempfile import TemporaryFile
from agentvm.sessions.import_process import COMMAND, ImportProcess
from agentvm.sessions.import_reader import Orders

async def main():
    # The reader of a file that is a pipe without an end waits for ever.
    process = ImportProcess(command=[*COMMAND])
    async with anyio.create_task_group() as tasks:
        with open(sys.argv[1], "rb", buffering=0) as source, TemporaryFile() as spool:
            tasks.start_soon(process.read, source, spool, Orders(kind="claude", container_id="c"))
            while not process.process_ids:
                await anyio.sleep(0.01)
            print(*process.process_ids, flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


async def test_a_process_ends_when_the_server_is_killed(tmp_path: Path) -> None:
    body = tmp_path / "large.json"
    with body.open("wb") as file:
        file.write(b"[" + b" " * 1_000)
        # Hours of reading.
        file.truncate(2**40)
    with anyio.fail_after(WAIT):
        parent = await anyio.open_process([sys.executable, "-c", PARENT, str(body)], stderr=None)
        assert parent.stdout is not None
        pid = int(await parent.stdout.receive())
        assert is_alive(pid)
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
        await until(lambda: not is_alive(pid))
        await parent.aclose()
