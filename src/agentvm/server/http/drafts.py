"""Drafts — `/v1/drafts` and those of `/v1/sessions/{id}`: what you have begun to write and not sent.

None of it is in the audit log, which would hold an entry for every word that somebody thinks about.
"""

from typing import Annotated, Any

from msgspec import Meta, to_builtins

from agentvm.commands.session import draft_record
from agentvm.errors import ContainerForbidden, PreconditionFailed, SessionNotFound
from agentvm.model.base import Record
from agentvm.model.ids import SessionId
from agentvm.model.session import Draft
from agentvm.protocol.commands import DraftListed
from agentvm.server.http.route import BIG, NO_CONTENT, Answer, Ask, Given, Nothing, Page, Routes
from agentvm.sessions.drafts import DraftLibrary

routes = Routes()

WRITE = ("agent:use",)
_OF_SESSION = "/v1/sessions/{session_id:str}"


class DraftGiven(Given):
    """An empty `text` removes the draft. `if_updated_at` is of the draft that was seen; 0 if there was none."""

    text: str
    device: str | None = None
    if_updated_at: Annotated[int, Meta(ge=0, le=BIG)] | None = None


class DeviceGiven(Given):
    device: str | None = None


class ListGiven(Given):
    container: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class DraftView(Record):
    """What is there now; nothing when it was removed."""

    draft: Draft | None = None


@routes.add("GET", f"{_OF_SESSION}/drafts", needs=WRITE, across=False, takes=Nothing, raises=(SessionNotFound,))
async def of_session(ask: Ask[Nothing]) -> Page[Draft]:
    """List your own drafts in a session, of all your devices."""
    return Page(items=await _drafts(ask).list_session(_named(ask)))


@routes.add(
    "PUT", f"{_OF_SESSION}/draft", needs=WRITE, across=False, takes=DraftGiven, raises=(SessionNotFound, PreconditionFailed)
)
async def save(ask: Ask[DraftGiven]) -> DraftView:
    """Keep what you have begun to write in a session."""
    given = ask.given
    done = await _drafts(ask).save(_named(ask), given.text, device=given.device, if_updated_at=given.if_updated_at)
    if not done.saved:
        raise PreconditionFailed(
            "The draft was changed meanwhile; look at it and try again", details={"draft": to_builtins(done.draft)}
        )
    return DraftView(draft=done.draft)


@routes.add("DELETE", f"{_OF_SESSION}/draft", needs=WRITE, across=False, takes=DeviceGiven, raises=(SessionNotFound,))
async def remove(ask: Ask[DeviceGiven]) -> Answer[None]:
    """Remove a draft."""
    await _drafts(ask).save(_named(ask), "", device=ask.given.device)
    return NO_CONTENT


@routes.add("GET", "/v1/drafts", needs=WRITE, across=False, takes=ListGiven, raises=(ContainerForbidden,))
async def of_all(ask: Ask[ListGiven]) -> Page[DraftListed]:
    """List your own drafts of all sessions, each with its beginning."""
    return Page(items=tuple(map(draft_record, await _drafts(ask).list_all(ask.given.container, ask.given.limit))))


def _drafts(ask: Ask[Any]) -> DraftLibrary:
    return DraftLibrary(ask.workspace)


def _named(ask: Ask[Any]) -> SessionId:
    return SessionId(ask.path["session_id"])
