"""Million page — the recorded run with a million users as the table of docs/cost.md, which a test compares."""

from pathlib import Path
from typing import Any

from bench.million_store import MESSAGES_MAX, SESSIONS_MAX

RESULTS = Path(__file__).parent / "results" / "million.json"


def page(found: dict[str, Any]) -> str:
    """The table."""
    average, peak, copied, floor = (found[name] for name in ("average", "peak", "beside_backup", "floor_at_peak"))
    loads = (average, peak, copied)
    rows = {
        f"disk of an idle user, every tenth with {SESSIONS_MAX} sessions and {MESSAGES_MAX} messages": (
            f"{found['disk_bytes_per_user']:,} bytes"
        ),
        "memory of such a user": f"{found['rss_bytes_per_user']:g} bytes",
        "from the start to `/ready`, of this CPU": f"{found['ready_seconds']:g} s, {found['ready_cpu_seconds']:g} s",
        "the same without users": f"{found['empty_ready_seconds']:g} s, {found['empty_ready_cpu_seconds']:g} s",
        "first delta of the first message after the start": f"{found['first_message_ms']:g} ms",
        "a page of 100 containers": f"{found['page_of_containers_ms']:g} ms",
        "sessions of a user, p95": f"{found['sessions_of_a_user_p95_ms']:g} ms",
        "search in the messages of a user, p95": f"{found['search_p95_ms']:g} ms",
        "backup beside the running server": f"{found['backup_seconds']:g} s",
        "CPU of a turn, average and busiest minutes": f"{average['cpu_ms_per_turn']:g} and {peak['cpu_ms_per_turn']:g} ms",
        "CPU of a turn of the floor in the busiest minutes": f"{floor['cpu_ms_per_turn']:g} ms",
        "streams at once, memory of the server": f"{peak['streams']:,}, {peak['rss_mb']:g} MB",
        "first delta, p50 and p99, average": f"{average['first_p50_ms']:g} and {average['first_p99_ms']:g} ms",
        "first delta, p50 and p99, busiest minutes": f"{peak['first_p50_ms']:g} and {peak['first_p99_ms']:g} ms",
        "first delta, p50 and p99, of the floor in the busiest minutes": (
            f"{floor['first_p50_ms']:g} and {floor['first_p99_ms']:g} ms"
        ),
        "the difference of these p99": f"{found['added_first_p99_ms']:g} ms",
        "first delta, p50 and p99, average, while a backup runs": (
            f"{copied['first_p50_ms']:g} and {copied['first_p99_ms']:g} ms"
        ),
        "load average during the run, including other programs": f"{found['load_average']:g}",
        "turns, of these with a tool, failed": ", ".join(
            f"{sum(load[name] for load in loads):,}" for name in ("turns", "tool_turns", "failed")
        ),
        "users whose history was checked, of these with a broken promise": (
            f"{found['checked_users']:,}, {found['broken_histories']:,}"
        ),
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])
