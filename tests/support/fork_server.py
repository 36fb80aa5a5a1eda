"""Fork server — has imported all of AgentVM once and forks for each program that is started: `… -m SOCKET`.

A program that starts this way is a process of its own and is killed like any other; it only saves the second that imports
take. It ends with the process that started it: when its input is closed.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import termios
import threading
import traceback
from dataclasses import dataclass

import agentvm
from agentvm.resources import shipped
from agentvm.storage.engines.sqlite import migrations

HEAD_BYTES = 4
LOADED_LATER = (
    "anyio._backends._asyncio",
    "apsw.unicode",
    "jsonschema_rs",
    "uvicorn",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
"""What servers import when they start."""

OWN_MODULE = "agentvm.cli.main"
"""Runs as `__main__`, so it is not imported before."""


@dataclass(frozen=True, slots=True)
class Start:
    """A request to start `python -m arguments…`, with its input and outputs."""

    arguments: list[str]
    env: dict[str, str]
    folder: str
    terminal: bool
    files: list[int]


def import_all() -> None:
    # Nothing that is imported is garbage.
    gc.disable()
    for module in pkgutil.walk_packages(agentvm.__path__, "agentvm."):
        if not module.name.endswith((".main", ".__main__")) and ".mcp" not in module.name:
            # What needs an extra that is not installed is not used by a program that starts without it.
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in LOADED_LATER:
        importlib.import_module(name)
    # What a server with a new store works out first, for longer than all else of its start.
    migrations._migrated(migrations.load_migrations())
    shipped._publications(shipped.HOME)
    sys.modules.pop(OWN_MODULE, None)
    gc.collect()
    gc.freeze()
    gc.enable()


def receive(connection: socket.socket) -> Start:
    data, files, *_ = socket.recv_fds(connection, 1 << 16, 3)
    while len(data) < HEAD_BYTES + int.from_bytes(data[:HEAD_BYTES], "big"):
        data += connection.recv(1 << 16)
    folder, terminal, count, *rest = os.fsdecode(data[HEAD_BYTES:]).split("\0")
    arguments, variables = rest[: int(count)], rest[int(count) :]
    env = dict(variable.split("=", 1) for variable in variables)
    return Start(arguments=arguments, env=env, folder=folder, terminal=terminal == "1", files=files)


class ForkServer:
    """Forks, and tells each client how its child ended."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)
        self._children: dict[int, socket.socket] = {}

    def run(self) -> Start:
        """Returns in a child."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    if (start := self._fork()) is not None:
                        return start
                elif key.fileobj == 0:
                    self._end()
                elif isinstance(key.fileobj, socket.socket):
                    self._left(key.fileobj, key.data)
                else:
                    self._ended(int(key.fd), key.data)

    def _fork(self) -> Start | None:
        connection, _ = self._listener.accept()
        start = receive(connection)
        pid = os.fork()
        if pid == 0:
            connection.close()
            for handle, other in self._children.items():
                os.close(handle)
                other.close()
            self._selector.close()
            self._listener.close()
            return start
        for file in start.files:
            os.close(file)
        handle = os.pidfd_open(pid)
        self._children[handle] = connection
        self._selector.register(handle, selectors.EVENT_READ, pid)
        self._selector.register(connection, selectors.EVENT_READ, pid)
        connection.sendall(pid.to_bytes(HEAD_BYTES, "big"))
        return None

    def _left(self, connection: socket.socket, pid: int) -> None:
        """The client was killed: so is its child."""
        self._selector.unregister(connection)
        os.kill(pid, signal.SIGKILL)

    def _ended(self, handle: int, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(handle)
        os.close(handle)
        connection = self._children.pop(handle)
        if connection in (key.fileobj for key in self._selector.get_map().values()):
            self._selector.unregister(connection)
            connection.sendall(status.to_bytes(HEAD_BYTES, "big"))
        connection.close()

    def _end(self) -> None:
        for key in list(self._selector.get_map().values()):
            if key.fd in self._children:
                os.kill(key.data, signal.SIGKILL)
        os._exit(0)


def become(start: Start) -> None:
    """Runs the program in this process, as if it had been started alone."""
    if start.terminal:
        os.setsid()
        fcntl.ioctl(start.files[0], termios.TIOCSCTTY, 0)
    for number, file in enumerate(start.files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(start.folder)
    os.environ.clear()
    os.environ.update(start.env)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=stream is sys.stderr or os.isatty(stream.fileno()))  # type: ignore[union-attr]
    sys.argv[1:] = start.arguments[1:]
    code = 1
    try:
        runpy.run_module(start.arguments[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
    except BaseException:  # noqa: BLE001  # As an interpreter does.
        traceback.print_exc()
    leave(code)


def leave(code: int) -> None:
    """Ends as an interpreter does, without taking apart the modules that were imported before the fork."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    import_all()
    server = ForkServer(sys.argv[1])
    os.write(1, b"ready\n")
    become(server.run())
