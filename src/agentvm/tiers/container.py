"""Container tier — jobs in containers of an engine that speaks Docker's API: an image of their own, limits by control group.

A container holds one job and is deleted with it. A persistent sandbox keeps its container between calls, until it was idle for
a minute; `tools.prewarm` keeps containers ready, paused. Every container carries the id of its server and its deadline: what a
crashed server has left is deleted when it starts again, and what is overdue each minute. Only the operator names images; none
is pulled. Code has no network.
"""

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc
import msgspec

from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.model.tier import Enforces, Job, JobResult, JobUsage, Offer, TierName, Wall
from agentvm.tiers.base import HostCalls, Process
from agentvm.tiers.container_programs import CLEAR, FOLDER, HOLD, VALUE, ContainerProgram, program_of
from agentvm.tiers.docker_api import USER, DockerApi, make_archive, open_docker_api

logger = get_logger(__name__)

SLOTS_MAX = 4
IDLE_SECONDS = 60.0
SWEEP_SECONDS = 60.0
START_MS = 500.0
GRACE_MS = 60_000
"""Time after its deadline from which a container is nobody's."""
OFFER_SECONDS = 30.0
"""Time for which the answer of the engine is believed."""
KEPT_MAX = 8
KEPT_MS = 24 * 3_600_000
"""The deadline of a container that lives on; this process ends it long before."""
REMOVE_SECONDS = 10.0
_ENGINES = ("python", "shell", "javascript", "command")
_WALLS: frozenset[Wall] = frozenset({"process", "uid", "pid", "net", "ipc", "uts", "mount", "seccomp", "rlimits", "cgroup"})
_ENTRY_MAX_BYTES = 2048
"""Bytes of an archive for each file besides its content."""
VALUE_MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """The engine, and the images that the operator allows."""

    socket: str
    server: str
    """The id of this server, the same after a restart."""
    images: Mapping[str, str]
    """Images by name; one named as an engine runs that engine's jobs."""
    runtime: str | None = None
    """The runtime of the engine: `runsc` for gVisor."""
    prewarm: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Container:
    id: str
    image: str
    used: float = 0.0
    busy: bool = True
    cpu_ns: int = 0


class ContainerTier:
    """Containers of one engine."""

    name: TierName = "container"

    def __init__(self, api: DockerApi, settings: ContainerSettings, clock: Clock) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._offer: Offer | None = None
        self._offered = -math.inf
        self._own: set[str] = set()
        self._kept: dict[tuple[str, str, str], _Container] = {}
        self._ready: dict[str, list[_Container]] = {}

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the persistent sandboxes that have a container now."""
        return tuple(name for _, name, _ in self._kept)

    async def offer(self) -> Offer:
        if self._offer is None or anyio.current_time() - self._offered > OFFER_SECONDS:
            self._offer, self._offered = await self._probe(), anyio.current_time()
        return self._offer

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        if job.network or job.functions or job.packages:
            raise TierUnavailable("The tier container has no network, no packages, and its programs call no tools")
        image = self._image_of(job)
        program = program_of(job)
        began = anyio.current_time()
        container = result = None
        try:
            with anyio.move_on_after(job.limits.wall_ms / 1000):
                container = await self._acquire(job, image)
                result = await self._execute(container, job, program)
        except TierBroken as error:
            error.started = container is not None
            raise
        finally:
            if container is not None:
                await self._release(container, job, keep=result is not None and not result.truncated)
        duration_ms = round((anyio.current_time() - began) * 1000)
        if result is None:
            return JobResult(signal="SIGKILL", timed_out=True, duration_ms=duration_ms)
        return msgspec.structs.replace(result, duration_ms=duration_ms)

    def open(self, job: Job) -> AbstractAsyncContextManager[Process]:
        """Refused: programs that live on run on the tier process."""
        raise TierUnavailable("The tier container runs no programs that are talked to")

    async def tend(self) -> None:
        """Deletes what a crashed server has left, then keeps containers ready and ends idle ones, until it is cancelled."""
        swept = False
        while True:
            try:
                await self.sweep(everything=not swept)
                swept = True
                await self._prewarm()
            except TierBroken as error:
                logger.warning("containers_not_tended", reason=str(error))
            await anyio.sleep(min(SWEEP_SECONDS, IDLE_SECONDS / 4))

    async def sweep(self, *, everything: bool = False) -> int:
        """Deletes idle and overdue containers of this server, or all that this process did not make; returns how many."""
        now, count = anyio.current_time(), 0
        for key, container in list(self._kept.items()):
            if not container.busy and now - container.used >= IDLE_SECONDS:
                del self._kept[key]
                await self._remove(container)
                count += 1
        for found in await self._api.list_containers(f"agentvm.server={self._settings.server}"):
            labels = msgspec.convert(found.get("Labels") or {}, dict[str, str])
            deadline = int(labels.get("agentvm.deadline", "0"))
            stray = everything and found["Id"] not in self._own
            if stray or self._clock() > deadline + GRACE_MS:
                await self._api.remove(str(found["Id"]))
                count += 1
        return count

    async def aclose(self) -> None:
        """Deletes every container of this server."""
        self._kept.clear()
        self._ready.clear()
        self._own.clear()
        try:
            await self.sweep(everything=True)
        except TierBroken as error:
            logger.warning("containers_left", reason=str(error))

    async def _probe(self) -> Offer:
        settings = self._settings
        try:
            with anyio.fail_after(10):
                await self._api.get("/version")
                present = [name for name, image in settings.images.items() if await self._api.exists(f"/images/{image}/json")]
        except (TierBroken, TimeoutError) as error:
            return Offer(tier="container", missing=f"no container engine at {settings.socket}: {error}")
        if not present:
            names = ", ".join(settings.images.values()) or "none is named"
            return Offer(tier="container", missing=f"the engine has no image of tools.docker.images ({names}): pull one")
        engines = {name for name in present if name in _ENGINES} | {f"image:{name}" for name in present}
        engines |= {f"image:{settings.images[name]}" for name in present}
        return Offer(
            tier="container",
            engines=frozenset(engines),
            walls=_WALLS | ({"gvisor"} if settings.runtime == "runsc" else set()),
            enforces=Enforces(memory="total", disk="each", processes="total"),
            persistent=True,
            start_ms=START_MS,
        )

    def _image_of(self, job: Job) -> str:
        name = job.image or job.engine
        image = self._settings.images.get(name)
        if image is None and name in self._settings.images.values():
            return name
        if image is None:
            raise TierUnavailable(f"tools.docker.images has no {name}")
        return image

    async def _acquire(self, job: Job, image: str) -> _Container:
        key = (job.owner, job.keep, image)
        kept = self._kept.get(key) if job.keep else None
        if kept is not None and not kept.busy:
            kept.busy = True
            await self._run_quietly(kept, CLEAR)
            return kept
        ready = self._ready.get(image)
        # A container that was made ready has the default limits: it fits no other job.
        if ready and not job.keep and job.limits.memory_bytes >= _DEFAULT.limits.memory_bytes:
            container = ready.pop()
            await self._api.post(f"/containers/{container.id}/unpause")
            return container
        container = await self._create(job, image)
        if job.keep and key not in self._kept and len(self._kept) < KEPT_MAX:
            self._kept[key] = container
        return container

    async def _create(self, job: Job, image: str) -> _Container:
        created = await self._api.post("/containers/create", self._described(job, image))
        container = _Container(str(created["Id"]), image)
        self._own.add(container.id)
        started = False
        try:
            await self._api.put_archive(container.id, make_archive({}, folders=("workspace", FOLDER)))
            await self._api.post(f"/containers/{container.id}/start")
            started = True
        finally:
            if not started:
                await self._remove(container)
        return container

    def _described(self, job: Job, image: str) -> dict[str, object]:
        limits = job.limits
        deadline = self._clock() + (KEPT_MS if job.keep else limits.wall_ms)
        return {
            "Image": image,
            "Cmd": list(HOLD),
            "Entrypoint": [],
            "User": USER,
            "WorkingDir": "/",
            "NetworkDisabled": True,
            "Labels": {"agentvm.server": self._settings.server, "agentvm.deadline": str(deadline)},
            "HostConfig": {
                "NetworkMode": "none",
                "Memory": limits.memory_bytes,
                "MemorySwap": limits.memory_bytes,
                "PidsLimit": limits.processes + 2,
                "CapDrop": ["ALL"],
                "Tmpfs": {"/tmp": f"rw,nosuid,nodev,mode=1777,size={limits.disk_bytes}"},
                "SecurityOpt": ["no-new-privileges"],
                "Ulimits": [
                    {"Name": "fsize", "Soft": limits.disk_bytes, "Hard": limits.disk_bytes},
                    {"Name": "nofile", "Soft": 1024, "Hard": 1024},
                    {"Name": "nproc", "Soft": 4096, "Hard": 4096},
                    {"Name": "core", "Soft": 0, "Hard": 0},
                ],
                **({} if self._settings.runtime is None else {"Runtime": self._settings.runtime}),
            },
        }

    async def _execute(self, container: _Container, job: Job, program: ContainerProgram) -> JobResult:
        files = {f"workspace/{path}": data for path, data in job.files.items()}
        files |= {f"{FOLDER}/{path}": data for path, data in program.files.items()}
        inputs = {f"in/{name}": data for name, data in job.inputs.items()}
        executable = {f"workspace/{path}" for path in job.executable}
        archive = await anyio.to_thread.run_sync(make_archive, files | inputs, executable, (), inputs)
        await self._api.put_archive(container.id, archive)
        status, output, truncated = await self._communicate(container, program, job.limits.output_bytes)
        if truncated:
            return JobResult(signal="SIGKILL", stdout=output[1], stderr=output[2], truncated=True)
        state = await self._api.get(f"/containers/{container.id}/json")
        most = job.limits.disk_bytes + _ENTRY_MAX_BYTES * job.limits.files
        after, executed, left_out = await self._api.read_files(container.id, "/workspace", most)
        changed = {path: data for path, data in after.items() if job.files.get(path) != data}
        return JobResult(
            exit_code=status,
            stdout=output[1],
            stderr=output[2],
            oom=bool(msgspec.convert(state.get("State") or {}, dict[str, object]).get("OOMKilled")),
            usage=await self._usage(container),
            value=await self._value(container) if program.has_value and status == 0 else None,
            files=changed,
            deleted=tuple(path for path in job.files if path not in after),
            executable=frozenset(executed & changed.keys()),
            left_out=left_out,
        )

    async def _communicate(
        self, container: _Container, program: ContainerProgram, output_max: int
    ) -> tuple[int, dict[int, bytes], bool]:
        exec_id = await self._prepare(container, program.argv, program.env)
        outputs, room = {1: bytearray(), 2: bytearray()}, output_max
        async with self._api.output(exec_id) as frames:
            async for frame in frames:
                outputs[frame.stream if frame.stream in outputs else 2] += frame.data[: max(0, room)]
                room -= len(frame.data)
                if room < 0:
                    return 0, {number: bytes(data) for number, data in outputs.items()}, True
        ended = await self._api.get(f"/exec/{exec_id}/json")
        status = ended.get("ExitCode")
        return status if isinstance(status, int) else 1, {number: bytes(data) for number, data in outputs.items()}, False

    async def _prepare(self, container: _Container, argv: tuple[str, ...], env: tuple[str, ...] = ()) -> str:
        body = {
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": list(argv),
            "Env": list(env),
            "User": USER,
        }
        return str((await self._api.post(f"/containers/{container.id}/exec", body))["Id"])

    async def _run_quietly(self, container: _Container, argv: tuple[str, ...]) -> None:
        async with self._api.output(await self._prepare(container, argv)) as frames:
            async for _ in frames:
                pass

    async def _value(self, container: _Container) -> object:
        files, _, _ = await self._api.read_files(container.id, f"/{FOLDER}/{VALUE}", VALUE_MAX_BYTES)
        try:
            return msgspec.json.decode(files.get(VALUE, b"null"))
        except msgspec.MsgspecError:
            # The code wrote the file itself.
            return None

    async def _usage(self, container: _Container) -> JobUsage:
        stats = await self._api.get(f"/containers/{container.id}/stats", {"stream": "false", "one-shot": "true"})
        before, container.cpu_ns = container.cpu_ns, _number(stats, "cpu_stats", "cpu_usage", "total_usage")
        memory = _number(stats, "memory_stats", "max_usage") or _number(stats, "memory_stats", "usage")
        return JobUsage(cpu_ms=max(0, container.cpu_ns - before) // 1_000_000, max_rss_bytes=memory)

    async def _release(self, container: _Container, job: Job, *, keep: bool) -> None:
        key = (job.owner, job.keep, container.image)
        if keep and self._kept.get(key) is container:
            container.busy, container.used = False, anyio.current_time()
            return
        if self._kept.get(key) is container:
            del self._kept[key]
        await self._remove(container)

    async def _remove(self, container: _Container) -> None:
        """Deletes a container, also for somebody who was cancelled. If the engine does not answer, a sweep does it later."""
        with anyio.move_on_after(REMOVE_SECONDS, shield=True) as waiting:
            try:
                await self._api.remove(container.id)
                self._own.discard(container.id)
            except TierBroken as error:
                logger.warning("container_not_removed", reason=str(error))
        if waiting.cancelled_caught:
            logger.warning("container_not_removed", reason="the engine does not answer")

    async def _prewarm(self) -> None:
        for name, number in self._settings.prewarm.items():
            image = self._settings.images.get(name)
            ready = self._ready.setdefault(image or "", [])
            while image is not None and len(ready) < number:
                container = await self._create(_DEFAULT, image)
                await self._api.post(f"/containers/{container.id}/pause")
                ready.append(container)


_DEFAULT = Job(engine="command", keep="ready")


def _number(value: object, *path: str) -> int:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) else 0


@asynccontextmanager
async def open_container_tier(settings: ContainerSettings, clock: Clock) -> AsyncIterator[ContainerTier]:
    """Yields the tier; when the context is left, no container of this server is left."""
    async with open_docker_api(settings.socket) as api:
        tier = ContainerTier(api, settings, clock)
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        tasks.start_soon(tier.tend)
        try:
            yield tier
        finally:
            # Not `async with`: it would wrap the caller's exception in an exception group.
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)
            with anyio.move_on_after(10, shield=True):
                await tier.aclose()
