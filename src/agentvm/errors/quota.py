"""Quota — the message of an exhausted limit: remaining amount, reset time and required amount."""

from datetime import UTC, datetime

_LIMITS = {
    "tokens_per_day": "Daily token limit",
    "tokens_per_month": "Monthly token limit",
    "budget_per_month": "Monthly budget",
    "requests_per_minute": "Requests per minute",
    "storage_bytes": "Storage limit in bytes",
    "sandbox_seconds_per_day": "Daily limit of sandbox seconds",
    "export_bytes_per_day": "Daily export limit in bytes",
}
"""Display names of limits."""


def quota_text(metric: str, *, limit: int, used: int, adding: int, reset_at: int | None) -> str:
    """The message; `reset_at` is in Unix ms, None for a limit that does not reset."""
    amount = _in_dollars if metric.startswith("budget") else _in_numbers
    left, needs = amount(max(0, limit - used)), f"; this request needs at least {amount(adding)}" if adding > 1 else ""
    day = "" if metric.endswith("_per_day") else "%Y-%m-%d "
    wait = "" if reset_at is None else f" until {datetime.fromtimestamp(reset_at / 1000, UTC):{day}%H:%M} UTC"
    return f"{_LIMITS.get(metric, f'Limit {metric}')}: {left} of {amount(limit)} left{wait}{needs}"


def _in_numbers(count: int) -> str:
    return f"{count:,}"


def _in_dollars(nano: int) -> str:
    return f"${nano / 1_000_000_000:,.6f}".rstrip("0").rstrip(".")
