import pytest
from tests.commands.fixtures import Desk, open_desk

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, echo, reply
from agentvm.model.ids import TenantId
from agentvm.model.limits import Compaction

pytestmark = pytest.mark.anyio

COMPACTION = Compaction(keep=2)


def script(prompt: Prompt) -> list[ScriptStep]:
    return reply("They spoke of the weather.") if "record" in (prompt.system or "") else list(echo(prompt))


async def chat(desk: Desk, *texts: str) -> str:
    image = await desk.create_image()
    for number, text in enumerate(texts, start=1):
        await desk.ask("message_send", imageId=image["imageId"], content=text)
        await desk.hear("turn_response", times=number)
    return str(image["sessionId"])


async def test_who_asks_is_answered_with_the_summary_and_all_hear_that_there_is_one() -> None:
    async with open_desk(ScriptedDriver(script), compaction=COMPACTION) as desk:
        session_id = await chat(desk, "one", "two", "three")
        made = (await desk.ask("session_compact", sessionId=session_id))["summary"]
        assert made["text"] == "They spoke of the weather."
        assert made["model"] == "scripted/scripted"
        messages = (await desk.ask("session_messages", sessionId=session_id))["messages"]
        assert made["messageId"] == messages[1]["id"]
        listed = await desk.ask("session_summaries", sessionId=session_id)
        assert listed == {"sessionId": session_id, "summaries": [made]}
        told = next(event for event in desk.hear_nowait() if event["type"] == "session_compacted")
        assert told["data"] == {
            "sessionId": session_id,
            "summaryId": made["summaryId"],
            "messageId": made["messageId"],
            "tokens": made["tokens"],
        }


async def test_when_there_is_nothing_to_sum_up_that_is_said() -> None:
    async with open_desk(ScriptedDriver(script), compaction=COMPACTION) as desk:
        session_id = await chat(desk, "one", "two")
        refused = await desk.ask("session_compact", sessionId=session_id)
        assert refused["errorCode"] == "conflict"
        assert "nothing to sum up" in refused["error"]
        assert (await desk.ask("session_summaries", sessionId=session_id))["summaries"] == []


async def test_what_is_not_there_or_somebody_elses_is_not_found() -> None:
    async with open_desk(ScriptedDriver(script), compaction=COMPACTION) as desk:
        session_id = await chat(desk, "one", "two", "three")
        stranger = desk.another(TenantId("other"))
        for asker, named in ((desk, "sess_none"), (stranger, session_id)):
            for command in ("session_compact", "session_summaries"):
                assert (await asker.ask(command, sessionId=named))["errorCode"] == "session_not_found"
