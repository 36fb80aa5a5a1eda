from tests.operations.fixtures import Desk, open_desk
from tests.server.http.fixtures import open_world

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, echo, reply
from agentvm.model.limits import Compaction

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


async def test_a_session_is_summed_up_and_its_summaries_are_listed() -> None:
    async with open_world() as world:
        path = f"/v1/sessions/{await world.say(world.acme, *(f'saying {number}' for number in range(9)))}"
        made = await world.ask("POST", f"{path}/compact", key=world.acme.admin)
        assert made.status == 200
        # The scripted model repeats what it was shown.
        assert "saying 2" in made.body["text"]
        assert "saying 3" not in made.body["text"]
        listed = await world.ask("GET", f"{path}/summaries", key=world.acme.admin)
        assert listed.items == [made.body]
        messages = (await world.ask("GET", f"{path}/messages", key=world.acme.admin)).body
        assert messages["total"] == 9
        assert "session.compact" in [action for action, *_ in await world.audit(world.acme.tenant_id)]
        used = (await world.ask("GET", "/v1/usage", key=world.acme.admin)).body
        assert sum(row["calls"] for row in used["items"]) == 1


async def test_nothing_to_sum_up_is_a_conflict_and_what_is_not_there_is_not_found() -> None:
    async with open_world() as world:
        path = f"/v1/sessions/{await world.say(world.acme, 'hello')}"
        again = await world.ask("POST", f"{path}/compact", key=world.acme.admin)
        assert (again.status, again.code) == (409, "conflict")
        for method, what in (("POST", "compact"), ("GET", "summaries")):
            gone = await world.ask(method, f"/v1/sessions/nope/{what}", key=world.acme.admin)
            assert (gone.status, gone.code) == (404, "session_not_found")
            theirs = await world.ask(method, f"{path}/{what}", key=world.bolt.admin)
            assert (theirs.status, theirs.code) == (404, "session_not_found")
