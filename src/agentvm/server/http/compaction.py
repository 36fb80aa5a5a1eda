"""Compaction — `/v1/sessions/{id}/summaries`: what a session came to, and having it summed up."""

from typing import Any

from agentvm.errors import Conflict, ProviderError, QuotaExceeded, SessionNotFound, WalletEmpty
from agentvm.model.ids import SessionId
from agentvm.model.session import Summary
from agentvm.server.http.route import Ask, Nothing, Page, Routes
from agentvm.server.http.sessions import READ, WRITE, library_of

routes = Routes()

_ONE = "/v1/sessions/{session_id:str}"


@routes.add(
    "POST",
    f"{_ONE}/compact",
    needs=WRITE,
    takes=Nothing,
    action="session.compact",
    raises=(SessionNotFound, Conflict, QuotaExceeded, WalletEmpty, ProviderError),
)
async def compact(ask: Ask[Nothing]) -> Summary:
    """Sum up what was said so far.

    But for the newest exchanges. It is a model call, and billed like one; the messages stay as they are.
    """
    return await library_of(ask).compact(_named(ask))


@routes.add("GET", f"{_ONE}/summaries", needs=READ, takes=Nothing, raises=(SessionNotFound,))
async def summaries(ask: Ask[Nothing]) -> Page[Summary]:
    """List the summaries of a session, the newest first."""
    return Page(items=await library_of(ask).summaries(_named(ask)))


def _named(ask: Ask[Any]) -> SessionId:
    return SessionId(ask.path["session_id"])
