"""Status — health checks of the server, with remedies. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

from agentvm.drivers.health import ProviderHealth
from agentvm.model.base import Record
from agentvm.observability.gauges import Gauges
from agentvm.observability.sampler import DISK_FULL_BYTES
from agentvm.version import VERSION

Grade = Literal["ok", "warn", "fail"]

LAG_WARN_SECONDS, LAG_FAIL_SECONDS = 0.1, 2.0
"""Delays of the event loop that are a warning and a failure."""

_GRADES: tuple[Grade, ...] = ("ok", "warn", "fail")


class Check(Record):
    """One health check. `message` is for people."""

    name: str
    status: Grade
    message: str
    node_id: int | None = None
    """In a cluster, in a status of several nodes: the node whose check it is."""


class Status(Record):
    """The result of all checks: the worst of them."""

    status: Grade
    version: str
    uptime_seconds: float
    checks: Sequence[Check]


def judge(now: Gauges, *, disk_warning: int, addresses: bool = False) -> Status:
    """Runs the checks. Less free space than `disk_warning` is a warning; `addresses` adds the URLs of failing providers."""
    checks = [_store(now), _disk(now.disk_free, disk_warning), _loop(now.loop_lag), *_providers(now.providers, addresses)]
    return Status(status=worst(checks), version=VERSION, uptime_seconds=now.uptime, checks=checks)


def worst(checks: Sequence[Check]) -> Grade:
    """The grade of all checks together."""
    return max((check.status for check in checks), key=_GRADES.index, default="ok")


def _store(now: Gauges) -> Check:
    if now.failing:
        text = "The database refuses writes, so no message is accepted; check the server's log and the disk"
        return Check(name="store", status="fail", message=text)
    if now.hindrance is not None:
        return Check(name="store", status="fail", message=f"No new work is accepted: {now.hindrance}")
    if now.quarantined:
        some = "One session is" if now.quarantined == 1 else f"{now.quarantined} sessions are"
        text = f"{some} in quarantine because the server crashed on them; see session_release"
        return Check(name="store", status="warn", message=text)
    return Check(name="store", status="ok", message="Database is writable")


def _disk(free: int | None, little: int) -> Check:
    if free is None:
        return Check(name="disk", status="ok", message="No data on disk")
    left = f"{free / 1024**3:.1f} GiB" if free >= 1024**3 else f"{free / 1024**2:.0f} MiB"
    left = f"{left} free on the disk of the data"
    if free < DISK_FULL_BYTES:
        text = f"{left}: free space now, or nothing can be stored; /ready fails until then"
        return Check(name="disk", status="fail", message=text)
    if free < little:
        return Check(name="disk", status="warn", message=f"{left}, less than limits.diskFree: free space soon")
    return Check(name="disk", status="ok", message=left)


def _loop(lag: float) -> Check:
    text = f"The event loop was at most {lag * 1000:.0f} ms late in the last 15 s"
    if lag >= LAG_FAIL_SECONDS:
        return Check(name="loop", status="fail", message=f"{text}: all clients are waiting")
    if lag >= LAG_WARN_SECONDS:
        return Check(name="loop", status="warn", message=f"{text}: the machine is overloaded")
    return Check(name="loop", status="ok", message=text)


def _providers(providers: Sequence[ProviderHealth], addresses: bool) -> Iterator[Check]:
    """The default provider and its fallbacks; the others are not checked."""
    used = [provider for provider in providers if provider.role is not None]
    able = any(provider.state in ("ok", "unknown") for provider in used)
    for provider in used:
        name = f"provider:{provider.name}"
        match provider.state:
            case "ok":
                yield Check(name=name, status="ok", message=f"{provider.name} is available")
            case "unknown":
                yield Check(name=name, status="ok", message=f"{provider.name}: no requests yet")
            case state:
                how = "limits the rate of requests" if state == "limited" else "is unavailable"
                why = "" if provider.last_error is None else f" ({provider.last_error})"
                rest = "a fallback answers" if able else "no fallback is available, so turns fail"
                at = f" at {provider.base_url}" if addresses and provider.base_url is not None else ""
                yield Check(name=name, status="warn" if able else "fail", message=f"{provider.name}{at} {how}{why}: {rest}")
