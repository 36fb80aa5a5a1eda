"""Errors — `/v1/errors`: what went wrong, by kind, as the log tells it."""

from agentvm.observability.error_groups import ErrorGroup
from agentvm.observability.log_filter import LogFilter, log_scope
from agentvm.server.http.route import Ask, Given, Limit, Page, Routes, moment

routes = Routes()


class ErrorsGiven(Given):
    since: str | None = None
    until: str | None = None
    limit: Limit = 100


@routes.add("GET", "/v1/errors", needs=("logs:read",), takes=ErrorsGiven)
async def list_all(ask: Ask[ErrorsGiven]) -> Page[ErrorGroup]:
    """List what went wrong, by kind.

    Errors with the same code, event and place are one, with how often, when first and when last. Those seen last are first.
    Only what the log still holds is counted.
    """
    wanted = LogFilter(since=moment(ask.given.since, "since"), until=moment(ask.given.until, "until"))
    found = await ask.vm.logs.errors(wanted, log_scope(ask.principal, ask.tenant_id if ask.named else None))
    return Page(items=found[: ask.given.limit])
