"""The edge Worker in miniflare: a real workerd on loopback, with a provider whose answers a test plays."""

import base64
import hashlib
import hmac
import itertools
import json
import queue
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from tests.provision.edge import EdgeTools
from tests.provision.node import node
from tests.support.killable import free_port
from tests.support.provider import ScriptedProvider

SERVE = Path(__file__).resolve().parent.parent / "edge" / "serve.mjs"
FAULTS = SERVE.with_name("faults.mjs")
ORDER_SECONDS = 60
PEPPER = "pepper"
WEATHER_KEY = "w-7c1f99"
"""The value of a secret of tools."""
Json = dict[str, Any]
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Burst:
    """One time that an object was awake, from its own log. `at` and `ms` are milliseconds."""

    what: str
    at: int
    ms: int
    rows: int
    """Written; an alarm is one."""
    rows_read: int
    size_bytes: int
    """Of its database, afterwards."""


class EdgeServer:
    """A running miniflare. Everything that it stores survives a kill."""

    def __init__(self, tools: EdgeTools, folder: Path, **variables: str) -> None:
        self._tools, self._folder, self._variables = tools, folder, variables
        self.port, self.provider_port = free_port(), free_port()
        self.log: list[Burst] = []
        self.noise: list[str] = []
        self._answers: queue.Queue[Json] = queue.Queue()
        self._logged = threading.Condition()
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Of workerd, which is a child of miniflare."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return next(int(pid) for pid in children.split() if "workerd" in Path(f"/proc/{pid}/comm").read_text())

    def url_of(self, key: str) -> str:
        return f"ws://127.0.0.1:{self.port}/ws?token={key}"

    def new_url(self) -> str:
        """The address for a tenant of its own, with all its containers."""
        key = f"key-{next(_numbers)}"
        self.add_key(key, tenant=key)
        return self.url_of(key)

    def start(self) -> None:
        provider = f"http://127.0.0.1:{self.provider_port}"
        anthropic = {"kind": "anthropic", "baseUrl": provider}
        providers = {
            "test": anthropic,
            "impatient": {**anthropic, "silenceSeconds": 1},
            "chat": {"kind": "openai", "baseUrl": f"{provider}/v1"},
            "chat-impatient": {"kind": "openai", "baseUrl": f"{provider}/v1", "silenceSeconds": 1},
        }
        variables = {"PROVIDERS": json.dumps(providers), "DEFAULT_MODEL": "test/model", "LOG_OBJECTS": "1", **self._variables}
        variables |= {"KEY_PEPPER": PEPPER, "ALLOW_HOSTS": f"127.0.0.1:{self.provider_port}"}
        secret = {"variable": "WEATHER_KEY", "hosts": [f"127.0.0.1:{self.provider_port}"], "tenants": ["with-secret"]}
        elsewhere = {"variable": "WEATHER_KEY", "hosts": ["api.example.com"]}
        variables |= {"WEATHER_KEY": WEATHER_KEY, "TOOL_SECRETS": json.dumps({"WEATHER": secret, "ELSEWHERE": elsewhere})}
        files = {"bundle": str(self._tools.bundle), "faults": str(FAULTS), "persist": str(self._folder)}
        options = {**files, "port": self.port, "vars": variables}
        # Beside the packages, where it finds miniflare.
        program = [str(node()), shutil.copy(SERVE, self._tools.folder), json.dumps(options)]
        self._process = subprocess.Popen(
            program, cwd=self._tools.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._answers = queue.Queue()
        threading.Thread(target=self._read, args=(self._process, self._answers), daemon=True).start()
        assert self._answer() == {"ready": True}

    def kill(self) -> None:
        """Ends workerd, with every Worker and object in it, as a crash of its machine does."""
        assert self._process is not None
        subprocess.run(["kill", "-9", "--", f"-{self._process.pid}"], check=True)
        self._process.wait(ORDER_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def stop(self) -> None:
        assert self._process is not None
        self.kill()

    @asynccontextmanager
    async def another(self, folder: Path, **variables: str) -> AsyncIterator["EdgeServer"]:
        """A second one beside this, with the variables of a deployment."""
        server = EdgeServer(self._tools, folder, **variables)
        await anyio.to_thread.run_sync(server.start)
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(server.stop)

    def add_key(self, key: str, **record: object) -> None:
        """Lets a key be valid."""
        self._order(order="key", digest=hmac.digest(PEPPER.encode(), key.encode(), "sha256").hex(), record=record)

    def remove_key(self, key: str) -> None:
        """Lets a key be valid no more."""
        self._order(order="no_key", digest=hmac.digest(PEPPER.encode(), key.encode(), "sha256").hex())

    def add_file(self, name: str, body: bytes) -> None:
        """Puts the file of an image into the bucket."""
        self._order(order="image", name=name, base64=base64.b64encode(body).decode())

    def lose_folds(self, *faults: str) -> None:
        """Lets the next requests that store a turn fail, `before` the object has got them, or `after`."""
        self._fault("faults", [("fold", fault) for fault in faults])

    def lose_accepted(self) -> None:
        """Lets the reply to the next message be lost: its turn is stored, and no Worker runs it."""
        self._fault("faults", [("accept", "after")])

    @contextmanager
    def without_queue(self, fault: str = "lost") -> Iterator[None]:
        """Lets turns that have lost their Worker find no other, for as long as the context lasts: the queue is `lost` with
        them, or cannot be `reached`."""
        self._fault("faults", [("queue", fault)])
        try:
            yield
        finally:
            self._fault("faults", [("queue", "works")])

    def restart_object(self, url: str, container: str) -> None:
        """Ends the object of a container at once, as a deployment does. `url` is of the tenant."""
        self._fault("restart", [("object", _object_of(url, container))])

    def age_object(self, url: str, container: str) -> None:
        """Gives the object of a container the tables of an earlier Worker, and ends it."""
        self._fault("age", [("object", _object_of(url, container))])

    def _fault(self, name: str, query: list[tuple[str, str]]) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/test/{name}?{urllib.parse.urlencode(query)}", timeout=60):
            pass

    async def bursts(self, mark: int, last: str) -> list[Burst]:
        """The log of the objects since a mark, up to the next burst of a name, but the times when one only woke."""
        return await anyio.to_thread.run_sync(self._bursts, mark, last)

    def _bursts(self, mark: int, last: str) -> list[Burst]:
        def found() -> list[Burst]:
            bursts = [burst for burst in self.log[mark:] if burst.what != "woke"]
            end = next((number for number, burst in enumerate(bursts) if burst.what == last), -1)
            return bursts[: end + 1]

        with self._logged:
            assert self._logged.wait_for(found, ORDER_SECONDS), self.log[mark:]
            return found()

    def _order(self, **order: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert "done" in answer, answer

    def _answer(self) -> Json:
        try:
            return self._answers.get(timeout=ORDER_SECONDS)
        except queue.Empty:
            raise AssertionError(f"miniflare says nothing: {self.noise[-5:]}") from None

    def _read(self, process: "subprocess.Popen[str]", answers: "queue.Queue[Json]") -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                self._receive(line.strip(), answers)
        except ValueError:
            # The pipe was closed: the process was killed.
            pass
        answers.put({"failed": "miniflare has ended"})

    def _receive(self, line: str, answers: "queue.Queue[Json]") -> None:
        try:
            said = json.loads(line)
        except json.JSONDecodeError:
            self.noise.append(line)
            return
        if isinstance(said, dict) and said.get("log") == "object":
            with self._logged:
                self.log.append(Burst(said["what"], said["at"], said["ms"], said["rows"], said["read"], said["bytes"]))
                self._logged.notify_all()
        elif isinstance(said, dict) and {"ready", "done", "failed"} & said.keys():
            answers.put(said)
        else:
            self.noise.append(line)

    @asynccontextmanager
    async def provider(self) -> AsyncIterator[ScriptedProvider]:
        """The provider that the Worker asks, for as long as the context lasts."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.provider_port, reuse_port=True)
        async with listener:
            provider = ScriptedProvider(self.provider_port)
            tasks = anyio.create_task_group()
            await tasks.__aenter__()
            tasks.start_soon(listener.serve, provider.serve)
            try:
                yield provider
            finally:
                # Not `async with`: it would wrap a failed assertion in an exception group.
                tasks.cancel_scope.cancel()
                await tasks.__aexit__(None, None, None)


def _object_of(url: str, container: str) -> str:
    return f"{url.rpartition('=')[2]}/{hashlib.sha256(container.encode()).hexdigest()[:16]}"
