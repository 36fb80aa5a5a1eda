"""Quota — what is said of a limit that does not allow something: what is left, until when, and what is needed."""

from datetime import UTC, datetime

_LIMITS = {
    "tokens_per_day": "Daily token limit",
    "tokens_per_month": "Monthly token limit",
    "budget_per_month": "Monthly budget",
    "requests_per_minute": "Limit of requests a minute",
    "storage_bytes": "Limit of stored bytes",
    "export_bytes_per_day": "Daily limit of exported bytes",
}
"""What people call a limit; those that are not here have only their name."""


def quota_text(metric: str, *, limit: int, used: int, adding: int, reset_at: int | None) -> str:
    """`reset_at` is in ms since 1970, None when time does not help."""
    said = _in_dollars if metric.startswith("budget") else _in_numbers
    left, needs = said(max(0, limit - used)), f"; this request needs at least {said(adding)}" if adding > 1 else ""
    day = "" if metric.endswith("_per_day") else "%Y-%m-%d "
    wait = "" if reset_at is None else f" until {datetime.fromtimestamp(reset_at / 1000, UTC):{day}%H:%M} UTC"
    return f"{_LIMITS.get(metric, f'Limit {metric}')}: {left} of {said(limit)} left{wait}{needs}"


def _in_numbers(count: int) -> str:
    return f"{count:,}"


def _in_dollars(nano: int) -> str:
    return f"${nano / 1_000_000_000:,.6f}".rstrip("0").rstrip(".")
