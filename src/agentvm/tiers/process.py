"""Process tier — each job in a jail of its own: a forked process behind every wall that this machine has.

It needs nothing but Linux. The first job starts the launcher; a job then costs one fork, and leaves nothing behind.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.model.tier import Job, JobResult, Offer, TierName
from agentvm.tiers.base import HostCalls, Process
from agentvm.tiers.egress import EgressPolicy
from agentvm.tiers.frames import Bounds, HostAnswer, HostReport, JobWork
from agentvm.tiers.jailed_job import JailedJob
from agentvm.tiers.launcher_host import JailLink, LauncherHost, LauncherSettings, open_launcher_host
from agentvm.tiers.layers import NO_INDEX, Layers, LayerSettings
from agentvm.tiers.probe import NO_LAUNCHER, offer_of

_ROLES = frozenset({"python", "shell", "javascript", "command"})


class ProcessTier:
    """Jails on this machine."""

    name: TierName = "process"

    def __init__(self, host: LauncherHost, policy: EgressPolicy, layers: Layers | None) -> None:
        self._host = host
        self._policy = policy
        self._layers = layers
        self.report: HostReport | None = None
        """The findings of the first launcher about this machine."""
        self._offer = NO_LAUNCHER

    @property
    def launcher_process_id(self) -> int | None:
        return self._host.process_id

    async def offer(self) -> Offer:
        if self.report is None:
            try:
                async with self._host.lease() as launcher:
                    self.report = launcher.report
            except TierBroken as error:
                return msgspec.structs.replace(NO_LAUNCHER, missing=str(error))
            self._offer = offer_of(self.report) if self.report is not None else NO_LAUNCHER
        return self._offer

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        stdin = job.stdin or _input(job) or b""
        async with self._start(job, stdin=stdin, grouped=job.engine == "javascript") as jailed:
            return await jailed.run(stdin, calls)

    @asynccontextmanager
    async def open(self, job: Job) -> AsyncIterator[Process]:
        async with self._start(job, stdin=None, grouped=True) as jailed, jailed.open() as process:
            yield process

    @asynccontextmanager
    async def _start(self, job: Job, *, stdin: bytes | None, grouped: bool) -> AsyncIterator[JailedJob]:
        offer = await self.offer()
        if offer.missing or job.engine not in _ROLES or (job.network and not offer.egress):
            raise TierUnavailable(offer.missing or f"The tier process offers no {job.engine} with this network")
        async with self._layer(job) as layer, self._jail(job, offer, stdin=stdin, grouped=grouped) as jail:
            try:
                await jail.line.send(_work(job, layer))
            except OSError:
                # The jail may have ended already; it says why.
                pass
            with JailedJob(job, jail, self._policy) as jailed:
                yield jailed

    @asynccontextmanager
    async def _layer(self, job: Job) -> AsyncIterator[str]:
        """The layer with the packages of a job; empty if it has none."""
        if not job.packages:
            yield ""
            return
        if job.engine == "javascript":
            raise TierUnavailable("packages are those of Python; this sandbox runs javascript")
        if self._layers is None:
            raise TierUnavailable(NO_INDEX)
        async with self._layers.hold(job.packages, self.run) as layer:
            yield layer

    @asynccontextmanager
    async def hold_layer(self, packages: Sequence[str]) -> AsyncIterator[str]:
        """The folder with these packages, for a tier that mounts it itself; it stays while the context lasts."""
        if self._layers is None:
            raise TierUnavailable(NO_INDEX)
        async with self._layers.hold(packages, self.run) as layer:
            yield str(self._layers.folder / layer)

    @asynccontextmanager
    async def _jail(self, job: Job, offer: Offer, *, stdin: bytes | None, grouped: bool) -> AsyncIterator[JailLink]:
        # A control group counts what limits for each process cannot. Files of the workspace are memory, too.
        limits = job.limits
        memory = limits.memory_bytes + limits.disk_bytes if grouped and "cgroup" in offer.walls else 0
        async with (
            self._host.lease() as launcher,
            launcher.job(has_stdin=stdin != b"", memory_bytes=memory, processes=limits.processes) as jail,
        ):
            yield jail


def _input(job: Job) -> bytes | None:
    return None if job.input is None else msgspec.json.encode(job.input)


def _work(job: Job, layer: str) -> JobWork:
    limits = job.limits
    return JobWork(
        role=job.engine,
        bounds=Bounds(
            cpu_seconds=limits.cpu_seconds,
            memory_bytes=limits.memory_bytes,
            processes=limits.processes,
            disk_bytes=limits.disk_bytes,
            files=limits.files,
        ),
        code=job.code,
        script=job.script,
        argv=list(job.argv),
        input=_input(job),
        env=dict(job.env) | ({"AVM_CALL_KEY": job.key} if job.key else {}),
        files=dict(job.files),
        executable=sorted(job.executable),
        inputs=dict(job.inputs),
        skills=dict(job.skills),
        functions={name: list(parameters) for name, parameters in job.functions.items()},
        known=[HostAnswer(id=number, value=answer.value, error=answer.error) for number, answer in enumerate(job.known, 1)],
        network=bool(job.network),
        layer=layer,
    )


@asynccontextmanager
async def open_process_tier(
    settings: LauncherSettings | None = None, policy: EgressPolicy | None = None, layers: LayerSettings | None = None
) -> AsyncIterator[ProcessTier]:
    """Yields the tier, which has packages with `layers` only. When the context is left, its launcher and all jails are gone."""
    settings = settings or LauncherSettings()
    if layers is not None and layers.index is not None:
        layers.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        settings = replace(settings, layers=str(layers.folder))
    async with open_launcher_host(settings) as host:
        yield ProcessTier(host, policy or EgressPolicy(), Layers(layers) if settings.layers and layers else None)
