"""Container engine — a double of Docker's API over a real unix socket, written from its documentation.

A container is a folder with `workspace`, `avm`, `in` and `skills` in it; a program runs as a process of the host, with these
paths replaced in its text, and a mount is a link. Requests that Docker refuses are refused here: unknown ids, a mount without a
source, a program in a container that does not run.
"""

import io
import json
import os
import re
import struct
import subprocess
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import uvicorn

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


@dataclass
class FakeContainer:
    id: str
    config: dict[str, Any]
    folder: Path
    state: str = "created"
    processes: list[anyio.abc.Process] = field(default_factory=list)


@dataclass
class Refused(Exception):
    status: int
    message: str


class FakeEngine:
    """`log` has every request; `faults` are statuses that the next requests of a path are refused with."""

    def __init__(self, folder: Path, images: frozenset[str]) -> None:
        self.folder = folder
        self.images = images
        self.containers: dict[str, FakeContainer] = {}
        self.execs: dict[str, tuple[FakeContainer, dict[str, Any], int | None]] = {}
        self.log: list[str] = []
        self.faults: dict[str, int] = {}
        self._count = 0
        self._answered = anyio.Event()

    async def reach(self, condition: Callable[[], bool]) -> None:
        """Waits for a request after which the condition holds."""
        with anyio.fail_after(60):
            while not condition():
                self._answered = anyio.Event()
                await self._answered.wait()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        body = await _body(receive)
        path = re.sub(r"^/v1\.\d+", "", scope["path"])
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        self.log.append(f"{scope['method']} {path}")
        try:
            for part, status in list(self.faults.items()):
                if part in path:
                    raise Refused(status, f"told to refuse {part}")
            if match := re.fullmatch(r"/exec/(\w+)/start", path):
                await self._start_program(match[1], send)
                return
            status, reply = self._answer(scope["method"], path, query, body)
        except Refused as refused:
            status, reply = refused.status, json.dumps({"message": refused.message}).encode()
        kind = b"application/x-tar" if path.endswith("/archive") and scope["method"] == "GET" else b"application/json"
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": reply})
        self._answered.set()

    def _answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        match method, path.strip("/").split("/"):
            case "GET", ["_ping"]:
                return 200, b"OK"
            case "GET", ["images", *names, "json"]:
                if "/".join(names) not in self.images:
                    raise Refused(404, "No such image")
                return 200, b'{"Id": "sha256:1"}'
            case "GET", ["containers", "json"]:
                wanted = json.loads(query["filters"])["label"]
                shown = [self._shown(container) for container in self.containers.values() if self._has(container, wanted)]
                return 200, json.dumps(shown).encode()
            case "POST", ["containers", "create"]:
                return 201, json.dumps({"Id": self._create(json.loads(body))}).encode()
            case "GET", ["exec", exec_id, "json"]:
                return 200, json.dumps({"ExitCode": self.execs[exec_id][2], "Running": False}).encode()
            case _, ["containers", container_id, *rest]:
                if container_id not in self.containers:
                    raise Refused(404, f"No such container: {container_id}")
                return self._of_container(method, self.containers[container_id], rest, query, body)
            case _:
                raise Refused(404, "page not found")

    def _of_container(
        self, method: str, container: FakeContainer, rest: list[str], query: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        match method, rest:
            case "POST", ["start" | "pause" | "unpause" as verb]:
                container.state = "paused" if verb == "pause" else "running"
                return 204, b""
            case "POST", ["exec"]:
                if container.state != "running":
                    raise Refused(409, f"container {container.id} is not running")
                self._count += 1
                self.execs[f"e{self._count}"] = (container, json.loads(body), None)
                return 201, json.dumps({"Id": f"e{self._count}"}).encode()
            case "PUT", ["archive"]:
                with tarfile.open(fileobj=io.BytesIO(body)) as archive:
                    archive.extractall(container.folder, filter="data")
                return 200, b""
            case "GET", ["archive"]:
                return 200, self._archive(container, query["path"])
            case "GET", ["json"]:
                return 200, json.dumps({"Id": container.id, "State": {"Status": container.state, "OOMKilled": False}}).encode()
            case "GET", ["stats"]:
                return 200, b'{"cpu_stats": {"cpu_usage": {"total_usage": 5000000}}, "memory_stats": {"usage": 1024}}'
            case "DELETE", []:
                self._delete(container)
                return 204, b""
            case _:
                raise Refused(404, "page not found")

    def _create(self, config: dict[str, Any]) -> str:
        if config["Image"] not in self.images:
            raise Refused(404, f"No such image: {config['Image']}")
        self._count += 1
        container = FakeContainer(f"c{self._count}", config, self.folder / f"c{self._count}")
        container.folder.mkdir()
        for mount in (config.get("HostConfig") or {}).get("Mounts") or ():
            if not Path(mount["Source"]).is_dir():
                raise Refused(400, f"invalid mount config: bind source path does not exist: {mount['Source']}")
            (container.folder / mount["Target"].strip("/")).symlink_to(mount["Source"])
        self.containers[container.id] = container
        return container.id

    def _delete(self, container: FakeContainer) -> None:
        del self.containers[container.id]
        for process in container.processes:
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass

    def _shown(self, container: FakeContainer) -> dict[str, Any]:
        return {"Id": container.id, "Labels": container.config["Labels"], "State": container.state}

    def _has(self, container: FakeContainer, labels: list[str]) -> bool:
        return f"agentvm.server={container.config['Labels']['agentvm.server']}" in labels

    def _archive(self, container: FakeContainer, path: str) -> bytes:
        source = container.folder / path.strip("/")
        if not source.exists():
            raise Refused(404, f"Could not find the file {path}")
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w") as archive:
            archive.add(source, arcname=source.name)
        return target.getvalue()

    async def _start_program(self, exec_id: str, send: Send) -> None:
        container, config, _ = self.execs[exec_id]
        root = str(container.folder)

        def placed(text: str) -> str:
            return re.sub(r"(?<![\w.])/(workspace|avm|in|skills|net|packages)\b", rf"{root}/\1", text)

        for file in (container.folder / "avm").glob("*"):
            file.write_text(placed(file.read_text()))
        env = dict(item.split("=", 1) for item in config.get("Env") or ()) | {"PATH": os.environ["PATH"]}
        env = {name: placed(value) for name, value in env.items()}
        process = await anyio.open_process(
            [placed(part) for part in config["Cmd"]], stdin=subprocess.DEVNULL, env=env, cwd=root, start_new_session=True
        )
        container.processes.append(process)
        headers = [(b"content-type", b"application/vnd.docker.raw-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with process, anyio.create_task_group() as tasks:
            for number, stream in ((1, process.stdout), (2, process.stderr)):
                tasks.start_soon(_carry, number, stream, send)
        self.execs[exec_id] = (container, config, process.returncode)
        await send({"type": "http.response.body", "body": b""})


async def _carry(number: int, stream: Any, send: Send) -> None:
    async for piece in stream:
        frame = struct.pack("!BxxxL", number, len(piece)) + piece
        await send({"type": "http.response.body", "body": frame, "more_body": True})


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


class _Server(uvicorn.Server):
    """A server that tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def open_fake_engine(folder: Path, *images: str) -> AsyncIterator[tuple[FakeEngine, str]]:
    """Yields the engine and the path of its socket."""
    engine, socket = FakeEngine(folder, frozenset(images)), str(folder / "engine.sock")
    server = _Server(uvicorn.Config(engine, uds=socket, log_config=None, lifespan="off"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server._serve)
        with anyio.fail_after(60):
            await server.listening.wait()
        yield engine, socket
        for container in list(engine.containers.values()):
            engine._delete(container)
        server.should_exit = server.force_exit = True
