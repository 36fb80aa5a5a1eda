"""Branches — fork a session, rewind it, list its rewinds."""

from agentvm.errors import AgentBusy, ImageNotFound, NotFound, SessionNotFound, ShuttingDown
from agentvm.model.ids import ImageId, MessageId, RewindId, SessionId
from agentvm.model.session import Rewind
from agentvm.operations.message import OnBusy
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.session import SessionRecordReply
from agentvm.operations.session_lists import session_record
from agentvm.protocol.requests import Reply, Request

operation = OperationGroup("branches")

READ, USE = "sessions:read", "agent:use"
_ONE = "/v1/sessions/{session_id}"


class SessionFork(Request[SessionRecordReply]):
    """Up to and with `messageId`, by default all of it; for another image of the same container if `imageId` names one."""

    session_id: SessionId
    message_id: MessageId | None = None
    image_id: ImageId | None = None
    title: str | None = None


@operation(
    "session.fork",
    needs=USE,
    command=True,
    http=Http("POST", f"{_ONE}/fork", status=201, result="session", names=("ForkRequest", None)),
    audit="session.fork",
    raises=(SessionNotFound, NotFound, ImageNotFound),
)
async def fork(context: Context, request: SessionFork) -> SessionRecordReply:
    """Fork a session.

    The new session starts with the messages of this one, up to and including a message, which may also be a rewound one.
    """
    session = await context.branches.fork(
        request.session_id, message_id=request.message_id, image_id=request.image_id, title=request.title
    )
    record = session_record(await context.sessions.get(session.session_id))
    return SessionRecordReply(session=record, subscriptions=context.subscribe(session))


class SessionRewindReply(Reply):
    """The messages that were removed. Without `rewindId` there were none."""

    session_id: SessionId
    message_ids: tuple[MessageId, ...]
    rewind_id: RewindId | None = None


class SessionRewind(Request[SessionRewindReply]):
    """`messageId` is the last message that stays, `before` the first that is removed: one of them."""

    session_id: SessionId
    message_id: MessageId | None = None
    before: MessageId | None = None
    on_busy: OnBusy = "reject"


@operation(
    "session.rewind",
    needs=USE,
    command=True,
    http=Http("POST", f"{_ONE}/rewind", names=("RewindRequest", "Rewound")),
    audit="session.rewind",
    raises=(SessionNotFound, NotFound, AgentBusy, ShuttingDown),
)
async def rewind(context: Context, request: SessionRewind) -> SessionRewindReply:
    """Remove the end of a session.

    The messages leave the history and the search, and are kept.
    """
    rewound = await context.branches.rewind(
        request.session_id, message_id=request.message_id, before=request.before, on_busy=request.on_busy
    )
    if rewound is None:
        return SessionRewindReply(session_id=request.session_id, message_ids=())
    return SessionRewindReply(session_id=request.session_id, message_ids=rewound.message_ids, rewind_id=rewound.rewind_id)


class SessionRewindsReply(Reply):
    session_id: SessionId
    rewinds: tuple[Rewind, ...]


class SessionRewinds(Request[SessionRewindsReply]):
    session_id: SessionId


@operation(
    "session.rewinds",
    needs=READ,
    command=True,
    http=Http("GET", f"{_ONE}/rewinds", items="rewinds", names=(None, "RewindPage")),
    raises=(SessionNotFound,),
)
async def rewinds(context: Context, request: SessionRewinds) -> SessionRewindsReply:
    """List the rewinds of a session, the latest first.

    `/messages?rewind=` reads the messages of one, and `fork` continues from one of them.
    """
    return SessionRewindsReply(session_id=request.session_id, rewinds=await context.branches.rewinds(request.session_id))
