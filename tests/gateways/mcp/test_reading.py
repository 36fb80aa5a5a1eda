import pytest
from tests.gateways.mcp.fixtures import ERAS, calling
from tests.gateways.mcp.test_agent_tool import text_of
from tests.support.serving import Play


@pytest.mark.parametrize("mode", ERAS)
async def test_a_conversation_is_found_and_read(mode: str) -> None:
    async with calling(Play(), mode=mode) as (client, _):
        asked = await client.call_tool("ask_default", {"message": "zebra <b>stripes</b>"})
        session_id = asked.structured_content["sessionId"]
        found = await client.call_tool("search_sessions", {"q": "zebra"})
        match = found.structured_content["found"][0]
        assert match["sessionId"] == session_id
        assert "<b>stripes</b>" in match["text"]
        assert session_id in text_of(found)
        nothing = await client.call_tool("search_sessions", {"q": "giraffe"})
        assert nothing.structured_content["found"] == []
        await client.call_tool("ask_default", {"message": "tool", "session_id": session_id})
        shown = await client.call_tool("read_session", {"id": session_id})
        messages = shown.structured_content["messages"]
        assert [message["role"] for message in messages][:2] == ["user", "assistant"]
        assert "tool" in {message["role"] for message in messages}
        assert 'calculator({"expression":' in text_of(shown)
        resource = await client.read_resource(f"session://{session_id}")
        assert resource.contents[0].text == text_of(shown)  # type: ignore[union-attr]


async def test_a_long_conversation_is_read_page_by_page() -> None:
    async with calling() as (client, _):
        session_id = None
        for number in range(26):
            arguments = {"message": f"m{number}"} | ({} if session_id is None else {"session_id": session_id})
            session_id = (await client.call_tool("ask_default", arguments)).structured_content["sessionId"]
        first = (await client.call_tool("read_session", {"id": session_id})).structured_content
        rest = await client.call_tool("read_session", {"id": session_id, "cursor": first["nextCursor"]})
        texts = [message["text"] for message in (*first["messages"], *rest.structured_content["messages"])]
        assert texts == [text for number in range(26) for text in (f"m{number}", f"m{number}")]
        assert "nextCursor" not in rest.structured_content
