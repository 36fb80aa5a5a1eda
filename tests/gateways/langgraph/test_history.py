from dataclasses import dataclass
from typing import Any

from tests.gateways.langgraph.fixtures import HI, talking, texts
from tests.gateways.test_talk import talk_of
from tests.server.http.fixtures import open_world

from agentvm.gateways.langgraph.history import read_history
from agentvm.gateways.talk import Talk
from agentvm.model.ids import ContainerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced(Talk):
    """After it has read the messages, another request says something, under the key that the client has given it."""

    async def ask(self, request: Any) -> Any:
        reply = await Talk.ask(self, request)
        await Talk(vm=self.vm, principal=self.principal).send(request.session_id, "once", key="m1")
        return reply


async def test_what_another_request_says_meanwhile_is_not_taken_for_what_was_taken_back() -> None:
    async with open_world() as world:
        talk = talk_of(world)
        image = await talk.agent("default", ContainerId("c1"))
        session = await talk.open(image.image_id, None)
        history = await read_history(Raced(vm=talk.vm, principal=talk.principal), session)
        assert {message.id for message in history.messages} >= history.turns.keys()
        assert list((await read_history(talk, session)).turns) == ["m1"]


async def test_a_run_shows_the_messages_up_to_its_own_end_whenever_it_is_joined() -> None:
    async with talking() as (client, _):
        thread = await client.threads.create()
        first = await client.runs.create(thread["thread_id"], "default", input=HI)
        await client.runs.join(thread["thread_id"], first["run_id"])
        later = await client.runs.wait(thread["thread_id"], "default", input={"messages": "more"})
        assert texts(later) == ["hi", "hi", "more", "more"]
        assert texts(await client.runs.join(thread["thread_id"], first["run_id"])) == ["hi", "hi"]
        assert [run["run_id"] for run in await client.runs.list(thread["thread_id"], limit=1, offset=1)] == [first["run_id"]]
