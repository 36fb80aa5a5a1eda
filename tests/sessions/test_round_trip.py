"""Whatever was said, it is the same on another server."""

from base64 import b64encode

import anyio
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.records import HOME, IMAGE, SESSION, session
from tests.sessions.histories import TENANT, archive, history, put, take_in
from tests.support.examples import examples

from agentvm.model.attachment import reference_to, references_of
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    ContentOutput,
    DeniedOutput,
    ErrorJsonOutput,
    ErrorMessage,
    FilePart,
    ImagePart,
    Message,
    TextOutput,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.model.turn import Turn
from agentvm.model.usage import Usage
from agentvm.sessions import line
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, SessionContent
from agentvm.storage.engine import open_store
from agentvm.storage.sql.attachments import read_all

text = st.text(st.characters(codec="utf-8"), max_size=20)
times = st.integers(0, 2**41)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
base64 = st.binary(max_size=12).map(lambda body: b64encode(body).decode())
FILES = (b"one", b"two" * 100_000, b"three")
"""The last was never uploaded: what refers to it refers to nothing, here and elsewhere."""
references = st.sampled_from([reference_to(line.digest_of(body)) for body in FILES])
data = base64 | text | st.just("https://example.com/a.png") | references | st.just(b64encode(FILES[0]).decode())
usage = st.builds(Usage, input_tokens=times, output_tokens=times, cache_read_tokens=times, estimated=st.booleans())
optional = st.none() | text

user_parts = (
    st.builds(TextPart, text=text)
    | st.builds(ImagePart, data=data, media_type=text, name=optional)
    | st.builds(FilePart, data=data, media_type=text, filename=optional)
)
said_parts = st.builds(TextPart, text=text) | st.builds(ThinkingPart, reasoning=text, signature=optional)
turn_ids = st.none() | st.sampled_from([TurnId("t0"), TurnId("t1"), TurnId("elsewhere")])
about = {"id": st.just(MessageId("")), "timestamp": times, "turn_id": turn_ids}
messages = st.one_of(
    st.builds(UserMessage, role=st.just("user"), content=text | st.lists(user_parts, max_size=4).map(tuple), **about),
    st.builds(
        AssistantMessage, role=st.just("assistant"), content=st.lists(said_parts, max_size=3).map(tuple),
        usage=st.none() | usage, **about,
    ),
    st.builds(
        ToolCallMessage, role=st.just("assistant"), parent_id=st.just(MessageId("m0")),
        tool_call=st.builds(ToolCall, id=text, name=text, input=st.dictionaries(text, json, max_size=3)), **about,
    ),
    st.builds(
        ToolResultMessage, role=st.just("tool"), tool_call_id=text,
        tool_result=st.builds(
            ToolResult, id=text, name=text,
            output=st.builds(TextOutput, value=text) | st.builds(ErrorJsonOutput, value=json)
            | st.builds(ContentOutput, value=st.lists(user_parts, max_size=3).map(tuple))
            | st.builds(DeniedOutput, reason=text),
        ), **about,
    ),
    st.builds(ErrorMessage, role=st.just("error"), content=text, error_code=text, **about),
)  # fmt: skip
turns = st.builds(
    Turn, turn_id=st.just(TurnId("")), container_id=st.just(HOME), image_id=st.just(IMAGE), session_id=st.just(SESSION),
    message_id=st.just(MessageId("m0")), accepted_at=times, outcome=st.sampled_from(["completed", "interrupted", "failed"]),
    usage=st.none() | usage, ended_at=times, attempts=st.integers(0, 3),
)  # fmt: skip
titles = st.none() | text


def numbered(found: list[Message]) -> tuple[Message, ...]:
    return tuple(msgspec.structs.replace(one, id=MessageId(f"m{number}")) for number, one in enumerate(found))


async def carry(said: SessionContent, other: SessionContent, title: str | None) -> None:
    image, first, _ = history()
    files = [
        Attached(line.digest_of(body), len(body), Upload(media_type="a/b", name="n"), body) for body in FILES[: len(FILES) - 1]
    ]
    second = msgspec.structs.replace(session("s2", now=7), title=title, archived_at=8)
    async with open_store(None) as here, open_store(None) as there:
        await put(here, image, first, *files, said, second, other)
        before = await archive(here)
        await take_in(there, before)
        assert await archive(there) == before
        for session_id in (first.session_id, second.session_id):
            homes = [store.tenant(TENANT).container(HOME) for store in (here, there)]
            told, kept = [await home.list_messages(session_id) for home in homes]
            assert told == kept
            assert await homes[0].log(session_id).list_turns() == await homes[1].log(session_id).list_turns()
            assert await homes[0].get_session(session_id) == await homes[1].get_session(session_id)
        wanted = {digest for one in (*said.messages, *other.messages) for digest in references_of(one)}
        for body in FILES:
            digest = line.digest_of(body)
            expected = body if digest in wanted and body != FILES[-1] else None
            assert await read_all(homes[1].attachments, digest) == expected
        # What came along is kept for as long as the messages are.
        await there.collect(10**15, grace=0)
        assert await archive(there) == before


@settings(
    max_examples=examples(20, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(messages, max_size=8), st.lists(turns, max_size=2), st.lists(messages, max_size=3), titles)
def test_whatever_was_said_is_the_same_elsewhere(
    said: list[Message], ended: list[Turn], other: list[Message], title: str | None
) -> None:
    named = tuple(msgspec.structs.replace(one, turn_id=TurnId(f"t{number}")) for number, one in enumerate(ended))
    anyio.run(carry, SessionContent(numbered(said), named), SessionContent(numbered(other)), title)
