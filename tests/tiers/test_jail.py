"""Escapes that were tried elsewhere and worked, in every mode: each must fail, and the program must be able to tell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentvm.model.tier import Job, JobLimits
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import ProcessTier, open_process_tier

# Each is a Python expression or block that sets `escaped` when it got through.
ATTEMPTS = {
    "reads a file of the server by its absolute path": "open({secret!r}).read(); escaped = True",
    "reads a file of the server through a link": "os.symlink({secret!r}, 'x'); open('x').read(); escaped = True",
    "lists the folder of a file of the server": "escaped = {name!r} in os.listdir({folder!r})",
    "climbs out of its workspace": "open('../../../../../../../../..' + {secret!r}).read(); escaped = True",
    "reads the shadow file": "open('/etc/shadow').read(); escaped = True",
    "writes a program": "open('/usr/bin/evil', 'w'); escaped = True",
    "writes to the root": "open('/evil', 'w'); escaped = True",
    "makes a device": "os.mknod('disk', 0o60666, os.makedev(8, 0)); escaped = True",
    "changes its root": "os.chroot('/'); escaped = True",
    "becomes root": "os.setuid(0); escaped = os.getuid() == 0",
    "traces its parent": "escaped = libc.ptrace(16, os.getppid(), 0, 0) == 0",
    "reads its parent's memory": "open(f'/proc/{{os.getppid()}}/mem', 'rb').read(1); escaped = True",
    "reads its parent's variables": "escaped = bool(open(f'/proc/{{os.getppid()}}/environ', 'rb').read())",
    "reads the server's variables": "escaped = b'PATH' in open('/proc/{server}/environ', 'rb').read()",
    "signals the server": "os.kill({server}, 0); escaped = 'server' in open('/proc/{server}/comm').read()",
    "kills its watching process": "up = os.getppid(); os.kill(up, 9); os.sched_yield(); escaped = os.getppid() != up",
    "enters a user namespace": "escaped = libc.unshare(0x10000000) == 0",
    "enters a mount namespace": "escaped = libc.unshare(0x00020000) == 0",
    "clones into a namespace": "escaped = libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0) > 0",
    "clones by the newer call": "libc.syscall(435, 0, 0); escaped = ctypes.get_errno() != 38",
    "joins a namespace": "escaped = libc.setns(os.open('/proc/1/ns/mnt', 0), 0) == 0",
    "mounts": "escaped = libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
    "unmounts": "escaped = libc.umount2(b'/proc', 2) == 0",
    "uses the ring": "escaped = libc.syscall(425, 8, None) >= 0",
    "loads a filter program into the kernel": "escaped = libc.syscall(321, 0, 0, 0) >= 0",
    "takes faults of memory": "escaped = libc.syscall(323, 1) >= 0",
    "reads keys of the kernel": "escaped = libc.syscall(250, 0, -3, 0) >= 0",
    "opens a file by its handle": "escaped = libc.syscall(304, 0, 0, 0) >= 0 or ctypes.get_errno() != 1",
    "keeps memory outside of all limits": "os.memfd_create('x'); escaped = True",
    "shares memory outside of all limits": "escaped = libc.shmget(0, 1 << 20, 0o1666) >= 0",
    "types into a terminal": "escaped = libc.ioctl(0, 0x5412, b'x') == 0 or ctypes.get_errno() == 25",
    "raises the limits of another": "escaped = libc.prlimit(os.getppid() or 9, 7, 0, 0) == 0 or ctypes.get_errno() != 1",
    "raises its own limits": "import resource; resource.setrlimit(7, (10**6, 10**6)); escaped = True",
    "opens a socket to the internet": "socket.socket(socket.AF_INET, socket.SOCK_STREAM); escaped = True",
    "opens a datagram socket": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); escaped = True",
    "opens a raw socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW); escaped = True",
    "asks the kernel about networks": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); escaped = True",
    "finds descriptors of the launcher": "escaped = [n for n in range(3, 300) if n != line and is_open(n)] != []",
    "finds variables of the server": "escaped = 'JAIL_TEST_SECRET' in os.environ",
    "finds the secret in its memory": "escaped = any('JAIL_TEST_SECRET' in str(value) for value in [os.environb])",
    "lives on when its launcher dies": "escaped = libc.prctl(1, 0, 0, 0, 0) == 0",
    "changes the host's name": "socket.sethostname('evil'); escaped = True",
    "sets the clock": "import time; time.clock_settime(0, 0); escaped = True",
    "changes the priority of all": "os.setpriority(0, os.getppid(), 19); escaped = True",
}

PREPARE = """
import ctypes, os, socket, stat
libc = ctypes.CDLL(None, use_errno=True)
escaped = False
def is_open(number):
    try:
        os.fstat(number)
        return True
    except OSError:
        return False
# The line to the server for calls, which is the code's own.
line = next((n for n in range(3, 300) if is_open(n) and stat.S_ISSOCK(os.fstat(n).st_mode)), None)
try:
"""


# Attempts that harm nothing outside of a jail, and must get through there: an attempt that never could proves nothing.
HARMLESS = (
    "reads a file of the server by its absolute path", "reads a file of the server through a link",
    "lists the folder of a file of the server", "climbs out of its workspace", "reads the server's variables",
    "enters a user namespace", "clones by the newer call", "keeps memory outside of all limits",
    "raises the limits of another", "lives on when its launcher dies", "opens a socket to the internet",
    "opens a datagram socket", "asks the kernel about networks", "finds variables of the server",
    "changes the priority of all",
)  # fmt: skip


def program_of(code: str, secret: Path) -> str:
    text = code.format(secret=str(secret), folder=str(secret.parent), name=secret.name, server=os.getpid())
    lines = "".join(f"    {line}\n" for line in text.split("; "))
    return f"{PREPARE}{lines}except Exception as error:\n    print(error)\nescaped\n"


@pytest.fixture
def secret(readable_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the server that everybody on the machine may read, and a variable."""
    monkeypatch.setenv("JAIL_TEST_SECRET", "s3cr3t")
    file = readable_folder / "secret.txt"
    file.write_text("s3cr3t")
    file.chmod(0o644)
    return file


async def test_every_escape_fails(any_tier: ProcessTier, secret: Path) -> None:
    # In one test for each mode: a jail for each attempt is cheap, a test for each is not.
    escaped = []
    for attempt, code in ATTEMPTS.items():
        program = program_of(code, secret)
        result = await any_tier.run(Job(engine="python", code=program, limits=JobLimits(wall_ms=20_000)))
        if result.value is not False:
            escaped.append((attempt, result.value, result.exit_code, result.signal, result.stderr))
    assert escaped == []


@pytest.mark.parametrize("attempt", HARMLESS)
def test_the_attempt_gets_through_without_a_jail(attempt: str, secret: Path, tmp_path: Path) -> None:
    program = program_of(ATTEMPTS[attempt], secret) + "print(escaped)"
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if os.getuid() != 0 and "priority" in attempt:
        pytest.skip("only root may do this at all")
    # Below a shell: the parent whose priority is changed must not be the one that runs the tests.
    command = ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    assert done.stdout.split()[-1] == "True", done.stdout


async def test_a_child_of_the_program_is_behind_the_same_walls(any_tier: ProcessTier, secret: Path) -> None:
    code = f"cat {secret} || cat /etc/shadow || mount -t tmpfs none /tmp || chroot / true || unshare -U true || echo none"
    result = await any_tier.run(Job(engine="shell", code=code))
    assert result.stdout == b"none\n"


async def test_a_jail_sees_no_process_but_its_own(tier: ProcessTier) -> None:
    code = "import os\nsorted(int(name) for name in os.listdir('/proc') if name.isdigit())"
    assert (await tier.run(Job(engine="python", code=code))).value == [1]


async def test_a_jail_has_no_network_at_all(tier: ProcessTier) -> None:
    result = await tier.run(
        Job(engine="shell", code="cat /proc/self/net/dev | tail -n +3; cat /proc/self/net/route | tail -n +2")
    )
    assert result.stdout.split(b":")[0].strip() in (b"", b"lo")
    assert result.stdout.count(b"\n") <= 1


async def test_a_jail_keeps_nothing_of_another(any_tier: ProcessTier) -> None:
    first = "import os, tempfile\nopen('kept', 'w').write('x')\nopen(os.environ['TMPDIR'] + '/kept', 'w').write('x')"
    await any_tier.run(Job(engine="python", code=first.replace(", tempfile", "")))
    code = "import os\n[os.listdir('.'), os.listdir(os.environ['TMPDIR'])]"
    assert (await any_tier.run(Job(engine="python", code=code))).value == [[], []]


async def test_unix_sockets_and_pipes_of_its_own_work(tier: ProcessTier) -> None:
    code = """
import asyncio, socket
a, b = socket.socketpair()
a.send(b"x")
server = socket.socket(socket.AF_UNIX)
server.bind("own.sock")
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("own.sock")
async def main():
    return await asyncio.to_thread(lambda: "thread")
[b.recv(1).decode(), asyncio.run(main())]
"""
    result = await tier.run(Job(engine="python", code=code))
    assert result.value == ["x", "thread"], result.stderr


async def test_ordinary_programs_run(tier: ProcessTier) -> None:
    code = """
set -e
echo one > a; cp a b; mv b c; ln -s a d; mkdir -p x/y; find . -type f | sort; grep -r one . | wc -l
sort -u a c; tar cf t.tar a c; tar tf t.tar; sed s/one/two/ a; awk '{print $1}' a; date +%Y > /dev/null
(sleep 0.01; echo background) & wait; id -un; mkfifo p; (echo through > p &) ; cat p; test -w /dev/null
"""
    result = await tier.run(Job(engine="shell", code=code))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split() == b"./a ./c 2 one a c two one background sandbox through".split()


async def test_the_uid_of_each_job_is_its_own_when_the_server_is_root() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give uids")
    async with open_process_tier(LauncherSettings(namespaces=False)) as tier:
        job = Job(engine="python", code="import os\nos.getuid()")
        uids = [(await tier.run(job)).value for _ in range(3)]
    assert len(set(map(str, uids))) == 3
    assert 0 not in uids
