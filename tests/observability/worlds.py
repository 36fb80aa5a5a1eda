"""How things stand, for the tests of this folder."""

from typing import Any

from agentvm.drivers.health import HealthState, ProviderHealth
from agentvm.observability.gauges import Gauges


def provider(name: str = "anthropic", state: HealthState = "ok", role: Any = "default", **about: Any) -> ProviderHealth:
    known: dict[str, Any] = {"calls": 3, "failures": 1, "consecutive_failures": 0, **about}
    return ProviderHealth(name=name, driver=name, default_model="m", role=role, state=state, **known)


def gauges(**about: Any) -> Gauges:
    known: dict[str, Any] = {
        "agents": 1,
        "containers": 2,
        "connections": 3,
        "turns_running": 4,
        "messages_waiting": 5,
        "journal_waiting": 6,
        "database_waiting": 7,
        "quarantined": 0,
        "evicted": 9,
        "loop_lag": 0.01,
        "rss": 11,
        "open_files": 12,
        "database_bytes": 13,
        "wal_bytes": 14,
        "disk_free": 50 * 1024**3,
        "uptime": 16.5,
        "failing": False,
        "hindrance": None,
        "providers": (provider(),),
    }
    return Gauges(**known | about)
