"""Container tier — jobs in containers of an engine that speaks Docker's API: an image of their own, limits by control group.

A container holds one job and is deleted with it. A persistent sandbox keeps its container between calls, until it was idle for
a minute; `tools.prewarm` keeps containers ready, paused. Every container is labelled with the id of its server and its
deadline: containers of a crashed server are deleted at its next start, overdue ones every minute. Only the operator names
images; none is pulled. A container has no network: allowed hosts are reached through the proxy of the server
(`container_network.py`).
"""

import math
import sysconfig
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field

import anyio
import anyio.abc
import msgspec

from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.model.long_json import read_json
from agentvm.model.tier import Enforces, Job, JobResult, JobUsage, Offer, TierName
from agentvm.tiers import container_network
from agentvm.tiers.base import HostCalls, Process
from agentvm.tiers.container_network import make_exchange, open_proxy, remove_exchange
from agentvm.tiers.container_programs import CLEAR, FOLDER, KILLED, PACKAGES, VALUE, ContainerProgram, below, program_of
from agentvm.tiers.container_spec import WALLS, ContainerKey, check_job, describe, key_of
from agentvm.tiers.container_spec import ContainerSettings as ContainerSettings
from agentvm.tiers.docker_api import DockerApi, make_archive, open_docker_api
from agentvm.tiers.egress import EgressPolicy

logger = get_logger(__name__)

SLOTS_MAX = 4
IDLE_SECONDS = 60.0
SWEEP_SECONDS = 60.0
START_MS = 500.0
GRACE_MS = 60_000
"""Time after its deadline from which a container is abandoned."""
OFFER_SECONDS = 30.0
"""Time for which the answer of the engine is believed."""
PERSISTENT_MAX = 8
PERSISTENT_MS = 24 * 3_600_000
"""The deadline of a container that lives on, after which another process deletes it."""
REMOVE_SECONDS = 10.0
_ENGINES = ("python", "shell", "javascript", "command")
_ENTRY_MAX_BYTES = 2048
"""Bytes of an archive for each file besides its content."""
VALUE_MAX_BYTES = 16 * 1024 * 1024


HoldLayer = Callable[[Sequence[str]], AbstractAsyncContextManager[str]]
"""Yields the folder with these packages, which stays while the context lasts."""


@dataclass(slots=True, eq=False)
class _Container:
    id: str
    image: str
    held: AsyncExitStack = field(default_factory=AsyncExitStack)
    """The folders that are mounted."""
    exchange: str = ""
    used: float = 0.0
    busy: bool = True
    cpu_ns: int = 0
    killed: int = 0
    """Processes that the kernel has killed for memory."""


class ContainerTier:
    """Containers of one engine."""

    name: TierName = "container"

    def __init__(
        self,
        api: DockerApi,
        settings: ContainerSettings,
        clock: Clock,
        policy: EgressPolicy | None = None,
        layers: HoldLayer | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._policy = policy or EgressPolicy()
        self._layers = layers
        self._pythons: dict[str, str] = {}
        """The ABI of the Python of each image."""
        self._offer: Offer | None = None
        self._offered = -math.inf
        self._own: set[str] = set()
        self._kept: dict[ContainerKey, _Container] = {}
        self._ready: dict[str, list[_Container]] = {}

    @property
    def persistent_names(self) -> tuple[str, ...]:
        """Names of the persistent sandboxes that have a container now."""
        return tuple(name for _, name, *_ in self._kept)

    async def offer(self) -> Offer:
        if self._offer is None or anyio.current_time() - self._offered > OFFER_SECONDS:
            self._offer, self._offered = await self._probe(), anyio.current_time()
        return self._offer

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        check_job(job, self._settings)
        image = self._image_of(job)
        program = program_of(job)
        # Packages are installed before the time of the job begins.
        async with self._layer(job):
            return await self._run(job, image, program)

    async def _run(self, job: Job, image: str, program: ContainerProgram) -> JobResult:
        began = anyio.current_time()
        container = result = None
        try:
            with anyio.move_on_after(job.limits.wall_ms / 1000):
                container = await self._acquire(job, image)
                async with self._surroundings(container, job):
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

    def _layer(self, job: Job) -> AbstractAsyncContextManager[str]:
        return nullcontext("") if self._layers is None or not job.packages else self._layers(job.packages)

    @asynccontextmanager
    async def _surroundings(self, container: _Container, job: Job) -> AsyncIterator[None]:
        """The network of a job, and the check that its packages are for the Python of its image."""
        if job.packages:
            await self._check_python(container)
        if not job.network:
            yield
            return
        async with open_proxy(container.exchange, job.network, self._policy):
            files = {f"{FOLDER}/{name}": data for name, data in container_network.forwarder_files().items()}
            await self._api.put_archive(container.id, make_archive(files))
            if (await self._api.run(container.id, container_network.FORWARD))[0]:
                raise TierUnavailable(f"A network needs python3 or node in the image, and {container.image} has neither")
            yield

    async def _check_python(self, container: _Container) -> None:
        own = str(sysconfig.get_config_var("SOABI"))
        if container.image not in self._pythons:
            status, output, _ = await self._api.run(container.id, ("python3", "-c", _ABI))
            self._pythons[container.image] = "not there" if status else output[1].decode(errors="replace").strip()
        if (abi := self._pythons[container.image]) != own:
            raise TierUnavailable(f"Packages are installed for Python {own}; that of the image {container.image} is {abi}")

    def open(self, job: Job) -> AbstractAsyncContextManager[Process]:
        """Refused: programs that live on run on the tier process."""
        raise TierUnavailable("The tier container runs no programs that are talked to")

    async def tend(self) -> None:
        """Deletes the containers of a crashed server, then keeps containers ready and ends idle ones, until it is cancelled."""
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
        for leftover in await self._api.list_containers(f"agentvm.server={self._settings.server}"):
            labels = msgspec.convert(leftover.get("Labels") or {}, dict[str, str])
            deadline = int(labels.get("agentvm.deadline", "0"))
            # Its own ones may live on beyond their deadline, which is for those of a server that has crashed.
            if leftover["Id"] not in self._own and (everything or self._clock() > deadline + GRACE_MS):
                await self._api.remove(str(leftover["Id"]))
                count += 1
        return count

    async def aclose(self) -> None:
        """Deletes every container of this server."""
        for container in self._kept.values():
            await container.held.aclose()
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
                await self._api.exists("/_ping")  # Not its version: Podman starts programs to tell that.
                present = [name for name, image in settings.images.items() if await self._api.exists(f"/images/{image}/json")]
        except (TierBroken, TimeoutError) as error:
            return Offer(tier="container", missing=f"no container engine at {settings.socket}: {str(error) or 'no answer'}")
        if not present:
            names = ", ".join(settings.images.values()) or "none is named"
            return Offer(tier="container", missing=f"the engine has no image of tools.docker.images ({names}): pull one")
        engines = {name for name in present if name in _ENGINES} | {f"image:{name}" for name in present}
        engines |= {f"image:{settings.images[name]}" for name in present}
        return Offer(
            tier="container",
            engines=frozenset(engines),
            walls=WALLS | ({"gvisor"} if settings.runtime == "runsc" else set()),
            enforces=Enforces(memory="total", disk="each", processes="total"),
            persistent=True,
            start_ms=START_MS,
            egress=settings.has_network,
            packages=settings.packages,
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
        key = key_of(job, image)
        warm = self._kept.get(key) if job.keep else None
        if warm is not None and not warm.busy:
            warm.busy = True
            await self._api.run(warm.id, CLEAR)
            return warm
        ready = self._ready.get(image)
        # It fits no job with a network, packages, or other limits.
        if ready and not job.keep and key[3:] == key_of(_DEFAULT, image)[3:]:
            container = ready.pop()
            try:
                await self._api.post(f"/containers/{container.id}/unpause")
                return container
            except TierBroken:
                # Somebody has deleted it, or the engine was started anew.
                await self._remove(container)
        container = await self._create(job, image)
        if job.keep and key not in self._kept and len(self._kept) < PERSISTENT_MAX:
            self._kept[key] = container
        return container

    async def _create(self, job: Job, image: str) -> _Container:
        container = _Container("", image)
        started = False
        try:
            mounts = await self._mounts(container, job)
            created = await self._api.post(
                "/containers/create", describe(job, image, mounts, self._settings, self._deadline(job))
            )
            container.id = str(created["Id"])
            self._own.add(container.id)
            await self._api.put_archive(container.id, make_archive({}, folders=("workspace", FOLDER)))
            await self._api.post(f"/containers/{container.id}/start")
            started = True
        finally:
            if not started:
                await self._remove(container)
        return container

    def _deadline(self, job: Job) -> int:
        return self._clock() + (PERSISTENT_MS if job.keep else job.limits.wall_ms)

    async def _mounts(self, container: _Container, job: Job) -> list[dict[str, object]]:
        """Folders of the server that the container sees and cannot change."""
        sources: dict[str, str] = {}
        if job.network:
            container.exchange = sources[container_network.FOLDER] = make_exchange(self._settings.exchange)
            container.held.callback(remove_exchange, container.exchange)
        if job.packages:
            sources[PACKAGES] = await container.held.enter_async_context(self._layer(job))
        return [{"Type": "bind", "Source": source, "Target": name, "ReadOnly": True} for name, source in sources.items()]

    async def _execute(self, container: _Container, job: Job, program: ContainerProgram) -> JobResult:
        files = below("workspace", job.files) | below(FOLDER, program.files)
        inputs = below("in", job.inputs) | below("skills", job.skills)
        executable = {f"workspace/{path}" for path in job.executable}
        archive = await anyio.to_thread.run_sync(make_archive, files | inputs, executable, (), inputs)
        await self._api.put_archive(container.id, archive)
        status, output, truncated = await self._api.run(container.id, program.argv, program.env, job.limits.output_bytes)
        if truncated:
            return JobResult(signal="SIGKILL", stdout=output[1], stderr=output[2], truncated=True)
        most = job.limits.disk_bytes + _ENTRY_MAX_BYTES * job.limits.files
        after, executed, left_out = await self._api.read_files(container.id, "/workspace", most)
        changed = {path: data for path, data in after.items() if job.files.get(path) != data}
        return JobResult(
            exit_code=status,
            stdout=output[1],
            stderr=output[2],
            oom=status != 0 and await self._ran_out_of_memory(container),
            usage=await self._usage(container),
            value=await self._value(container) if program.has_value and status == 0 else None,
            files=changed,
            deleted=tuple(path for path in job.files if path not in after),
            executable=frozenset(executed & changed.keys()),
            left_out=left_out,
        )

    async def _value(self, container: _Container) -> object:
        files, _, _ = await self._api.read_files(container.id, f"/{FOLDER}/{VALUE}", VALUE_MAX_BYTES)
        try:
            return read_json(files.get(VALUE, b"null"))
        except ValueError:
            # The code wrote the file itself.
            return None

    async def _ran_out_of_memory(self, container: _Container) -> bool:
        """Reads the control group: engines report only the first process of a container, which uses no memory."""
        _, output, _ = await self._api.run(container.id, KILLED)
        before, container.killed = container.killed, sum(map(int, filter(bytes.isdigit, output[1].split())))
        return container.killed > before

    async def _usage(self, container: _Container) -> JobUsage:
        stats = await self._api.get(f"/containers/{container.id}/stats", {"stream": "false", "one-shot": "true"})
        before, container.cpu_ns = container.cpu_ns, _number(stats, "cpu_stats", "cpu_usage", "total_usage")
        memory = _number(stats, "memory_stats", "max_usage") or _number(stats, "memory_stats", "usage")
        return JobUsage(cpu_ms=max(0, container.cpu_ns - before) // 1_000_000, max_rss_bytes=memory)

    async def _release(self, container: _Container, job: Job, *, keep: bool) -> None:
        key = key_of(job, container.image)
        if keep and self._kept.get(key) is container:
            container.busy, container.used = False, anyio.current_time()
            return
        if self._kept.get(key) is container:
            del self._kept[key]
        await self._remove(container)

    async def _remove(self, container: _Container) -> None:
        """Deletes a container, also if the caller was cancelled. If the engine does not answer, a sweep does it later."""
        with anyio.move_on_after(REMOVE_SECONDS, shield=True) as waiting:
            try:
                self._own.discard(container.id)
                if container.id:
                    await self._api.remove(container.id)
            except TierBroken as error:
                logger.warning("container_not_removed", reason=str(error))
            await container.held.aclose()
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
_ABI = "import sysconfig; print(sysconfig.get_config_var('SOABI'))"


def _number(value: object, *path: str) -> int:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) else 0


@asynccontextmanager
async def open_container_tier(
    settings: ContainerSettings, clock: Clock, policy: EgressPolicy | None = None, layers: HoldLayer | None = None
) -> AsyncIterator[ContainerTier]:
    """Yields the tier; when the context is left, no container of this server is left."""
    if settings.exchange:
        # What a crashed server has left.
        await anyio.to_thread.run_sync(remove_exchange, settings.exchange)
    async with open_docker_api(settings.socket) as api:
        tier = ContainerTier(api, settings, clock, policy, layers)
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
