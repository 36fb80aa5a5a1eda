"""Branches — `/v1/sessions/{id}/fork`, `rewind`, `edit`, `regenerate`: what was said, said otherwise."""

from typing import Any, Literal

from agentvm.commands.session import session_record
from agentvm.errors import AgentBusy, ImageNotFound, NotFound, SessionNotFound, ShuttingDown
from agentvm.model.base import Record
from agentvm.model.ids import ImageId, MessageId, RewindId, SessionId, TurnId
from agentvm.model.message import UserContent
from agentvm.model.session import Rewind
from agentvm.protocol.commands.message import ClientKey
from agentvm.protocol.records import SessionRecord
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Page, Routes
from agentvm.server.http.sessions import READ, WRITE, library_of
from agentvm.sessions.branches import Branches
from agentvm.sessions.sender import SentMessage

routes = Routes()

_ONE = "/v1/sessions/{session_id:str}"
_REFUSES = (SessionNotFound, NotFound, AgentBusy, ShuttingDown)
OnBusy = Literal["reject", "interrupt"]


class ForkGiven(Given):
    """Up to and with `messageId`, by default all of it; for another image of the same container if `imageId` names one."""

    message_id: str | None = None
    image_id: str | None = None
    title: str | None = None


class RewindGiven(Given):
    """`messageId` is the last message that stays, `before` the first that is taken back: one of them."""

    message_id: str | None = None
    before: str | None = None
    on_busy: OnBusy = "reject"


class EditGiven(Given):
    """`onBusy: interrupt` stops a turn that runs; else the edit is refused. `clientMessageId` makes a repeated edit one."""

    message_id: str
    content: UserContent
    client_message_id: ClientKey | None = None
    on_busy: OnBusy = "reject"


class RegenerateGiven(Given):
    """What `messageId` is an answer to is asked again; by default what was asked last."""

    message_id: str | None = None
    client_message_id: ClientKey | None = None
    on_busy: OnBusy = "reject"


class RewoundView(Record):
    """Which messages were taken back. Without `rewindId` there were none."""

    session_id: SessionId
    message_ids: tuple[MessageId, ...]
    rewind_id: RewindId | None = None


class SpokenView(Record):
    """What was stored. The answer is in the session when the turn has ended: `/v1/turns/{turnId}`."""

    session_id: SessionId
    message_id: MessageId
    turn_id: TurnId


@routes.add(
    "POST", f"{_ONE}/fork", needs=WRITE, takes=ForkGiven, action="session.fork", statuses=(201,),
    raises=(SessionNotFound, NotFound, ImageNotFound),
)  # fmt: skip
async def fork(ask: Ask[ForkGiven]) -> Answer[SessionRecord]:
    """Fork a session.

    A new session begins with what was said in this one, up to and with a message, which may also be one that was taken back.
    """
    given = ask.given
    image_id = None if given.image_id is None else ImageId(given.image_id)
    session = await branches_of(ask).fork(
        _named(ask), message_id=_message(given.message_id), image_id=image_id, title=given.title
    )
    return Answer(content=session_record(await library_of(ask).get(session.session_id)), status=201)


@routes.add("POST", f"{_ONE}/rewind", needs=WRITE, takes=RewindGiven, action="session.rewind", raises=_REFUSES)
async def rewind(ask: Ask[RewindGiven]) -> RewoundView:
    """Take back the end of a session.

    It leaves the history and the search, and is kept.
    """
    given, session_id = ask.given, _named(ask)
    rewound = await branches_of(ask).rewind(
        session_id, message_id=_message(given.message_id), before=_message(given.before), on_busy=given.on_busy
    )
    if rewound is None:
        return RewoundView(session_id=session_id, message_ids=())
    return RewoundView(session_id=session_id, message_ids=rewound.message_ids, rewind_id=rewound.rewind_id)


@routes.add("GET", f"{_ONE}/rewinds", needs=READ, takes=Nothing, raises=(SessionNotFound,))
async def rewinds(ask: Ask[Nothing]) -> Page[Rewind]:
    """List what was taken back, the latest first.

    `/messages?rewind=` reads it, and `fork` goes on from one of its messages.
    """
    return Page(items=await branches_of(ask).rewinds(_named(ask)))


@routes.add(
    "POST", f"{_ONE}/edit", needs=WRITE, takes=EditGiven, action="session.edit", statuses=(202,), raises=_REFUSES
)  # fmt: skip
async def edit(ask: Ask[EditGiven]) -> Answer[SpokenView]:
    """Say something else in place of a user's message.

    What came after it is taken back in the same commit, and a turn begins.
    """
    given = ask.given
    return _begun(
        await branches_of(ask).edit(
            _named(ask),
            MessageId(given.message_id),
            given.content,
            client_key=given.client_message_id,
            on_busy=given.on_busy,
        )
    )


@routes.add(
    "POST", f"{_ONE}/regenerate", needs=WRITE, takes=RegenerateGiven, action="session.regenerate", statuses=(202,),
    raises=_REFUSES,
)  # fmt: skip
async def regenerate(ask: Ask[RegenerateGiven]) -> Answer[SpokenView]:
    """Make an answer anew."""
    given = ask.given
    return _begun(
        await branches_of(ask).regenerate(
            _named(ask), _message(given.message_id), client_key=given.client_message_id, on_busy=given.on_busy
        )
    )


def branches_of(ask: Ask[Any]) -> Branches:
    return Branches(ask.workspace)


def _begun(sent: SentMessage) -> Answer[SpokenView]:
    # Whoever asks by HTTP reads what comes of it later, so it need not wait for the answer to have left.
    sent.release()
    view = SpokenView(session_id=sent.agent.session_id, message_id=sent.message_id, turn_id=sent.turn_id)
    return Answer(content=view, status=202)


def _named(ask: Ask[Any]) -> SessionId:
    return SessionId(ask.path["session_id"])


def _message(named: str | None) -> MessageId | None:
    return None if named is None else MessageId(named)
