import pytest
from tests.client.test_verbs import RUN, SESSION, FakeLink

from agentvm.client.handles import SessionHandle, agent_of, there
from agentvm.model.ids import MessageId, RewindId, SessionId
from agentvm.model.session import Rewind
from agentvm.operations.branch import SessionFork, SessionRewind, SessionRewindReply, SessionRewinds, SessionRewindsReply
from agentvm.operations.message import MessageEdit, MessageRegenerate, MessageSendReply
from agentvm.operations.session import SessionReply


async def test_a_session_is_forked_rewound_edited_and_asked_again_in_the_words_of_the_table() -> None:
    sent = MessageSendReply(agent_id="agent_1")
    rewind = Rewind(rewind_id=RewindId("r"), rewound_at=1, messages=2)
    rewound = SessionRewindReply(session_id=SESSION.session_id, message_ids=())
    rewinds = SessionRewindsReply(session_id=SESSION.session_id, rewinds=(rewind,))
    link = FakeLink(SessionReply(session=SESSION), rewound, rewound, rewinds, sent, sent)
    handle = SessionHandle(link, SESSION)
    assert (await handle.fork("m", title="T")).session_id == SESSION.session_id
    assert await handle.rewind("m") == await handle.rewind(before="m") == rewound
    assert await handle.rewinds() == (rewind,)
    assert await handle.edit("m", "other") == await handle.regenerate() == sent
    session_id, message_id = SessionId("sess_1"), MessageId("m")
    assert link.asked == [
        SessionFork(session_id=session_id, message_id=message_id, title="T"),
        SessionRewind(session_id=session_id, message_id=message_id),
        SessionRewind(session_id=session_id, before=message_id),
        SessionRewinds(session_id=session_id),
        MessageEdit(session_id=session_id, message_id=message_id, content="other"),
        MessageRegenerate(session_id=session_id),
    ]


def test_an_agent_is_known_by_what_the_reply_says() -> None:
    agent = agent_of(FakeLink(), RUN)
    assert (agent.agent_id, agent.session_id) == ("agent_1", "sess_1")
    with pytest.raises(ValueError, match="record"):
        there(None)
