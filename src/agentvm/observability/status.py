"""Status — whether the server is well, in sentences that say what to do. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

from agentvm.drivers.health import ProviderHealth
from agentvm.model.base import Record
from agentvm.observability.gauges import Gauges
from agentvm.observability.sampler import FULL
from agentvm.version import VERSION

Grade = Literal["ok", "warn", "fail"]

SLUGGISH, STUCK = 0.1, 2.0
"""Seconds that the event loop may be late before it is told, and before nobody can be served."""

_GRADES: tuple[Grade, ...] = ("ok", "warn", "fail")


class Check(Record):
    """One thing that was looked at. `message` is for people."""

    name: str
    status: Grade
    message: str


class Status(Record):
    """As bad as the worst of its checks."""

    status: Grade
    version: str
    uptime_seconds: float
    checks: Sequence[Check]


def judge(now: Gauges, *, disk_warning: int, addresses: bool = False) -> Status:
    """`disk_warning` is how many free bytes are little. With `addresses` a provider that fails is shown with its base URL."""
    checks = [_store(now), _disk(now.disk_free, disk_warning), _loop(now.loop_lag), *_providers(now.providers, addresses)]
    worst = max((check.status for check in checks), key=_GRADES.index)
    return Status(status=worst, version=VERSION, uptime_seconds=now.uptime, checks=checks)


def _store(now: Gauges) -> Check:
    if now.failing:
        text = "The store refuses writes, so no message is accepted; look at the server's log and at the disk"
        return Check(name="store", status="fail", message=text)
    if now.hindrance is not None:
        return Check(name="store", status="fail", message=f"No new work is taken: {now.hindrance}")
    if now.quarantined:
        some = "One session is" if now.quarantined == 1 else f"{now.quarantined} sessions are"
        text = f"{some} set aside because the server did not survive them; see session_release"
        return Check(name="store", status="warn", message=text)
    return Check(name="store", status="ok", message="What happens is stored")


def _disk(free: int | None, little: int) -> Check:
    if free is None:
        return Check(name="disk", status="ok", message="Nothing is kept on a disk")
    left = f"{free / 1024**3:.1f} GiB" if free >= 1024**3 else f"{free / 1024**2:.0f} MiB"
    left = f"{left} are free where the data is"
    if free < FULL:
        text = f"{left}: make room now, or nothing can be stored; /ready sends load balancers elsewhere until then"
        return Check(name="disk", status="fail", message=text)
    if free < little:
        return Check(name="disk", status="warn", message=f"{left}, less than limits.diskFree says: make room soon")
    return Check(name="disk", status="ok", message=left)


def _loop(lag: float) -> Check:
    text = f"The event loop was at most {lag * 1000:.0f} ms late in the last 15 s"
    if lag >= STUCK:
        return Check(name="loop", status="fail", message=f"{text}: something keeps everybody waiting")
    if lag >= SLUGGISH:
        return Check(name="loop", status="warn", message=f"{text}: the machine has too much to do")
    return Check(name="loop", status="ok", message=text)


def _providers(found: Sequence[ProviderHealth], addresses: bool) -> Iterator[Check]:
    """Who answers by default, and who stands in; the others are looked at when somebody asks for them."""
    in_line = [one for one in found if one.role is not None]
    able = any(one.state in ("ok", "unknown") for one in in_line)
    for one in in_line:
        name = f"provider:{one.name}"
        match one.state:
            case "ok":
                yield Check(name=name, status="ok", message=f"{one.name} answers")
            case "unknown":
                yield Check(name=name, status="ok", message=f"{one.name} was not asked yet")
            case state:
                how = "limits the rate of requests" if state == "limited" else "is out"
                why = "" if one.last_error is None else f" ({one.last_error})"
                rest = "another one stands in" if able else "nobody can stand in, so turns fail"
                at = f" at {one.base_url}" if addresses and one.base_url is not None else ""
                yield Check(name=name, status="warn" if able else "fail", message=f"{one.name}{at} {how}{why}: {rest}")
