import pytest
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError
from tests.gateways.langgraph.fixtures import HI, talking, texts


async def test_the_states_of_a_thread_are_listed_from_the_newest() -> None:
    async with talking() as (client, _):
        thread = await client.threads.create()
        empty = await client.threads.get_state(thread["thread_id"])
        assert (texts(empty["values"]), empty["next"], empty["checkpoint"]["checkpoint_id"]) == ([], [], "start")
        for text in ("one", "two"):
            await client.runs.wait(thread["thread_id"], "default", input={"messages": text})
        history = await client.threads.get_history(thread["thread_id"])
        assert [len(state["values"]["messages"]) for state in history] == [4, 3, 2, 1]
        assert [state["parent_checkpoint"]["checkpoint_id"] for state in history[:-1]] == [
            state["checkpoint"]["checkpoint_id"] for state in history[1:]
        ]
        state = await client.threads.get_state(thread["thread_id"])
        assert state["checkpoint"] == history[0]["checkpoint"]
        page = await client.threads.get_history(thread["thread_id"], limit=1, before=history[1]["checkpoint"])
        assert page == [history[2]]
        earlier = await client.threads.get_state(thread["thread_id"], checkpoint=history[2]["checkpoint"])
        assert earlier["values"] == history[2]["values"]
        with pytest.raises(NotFoundError):
            await client.threads.get_state(thread["thread_id"], checkpoint_id="msg_x")


async def test_a_new_thread_can_be_given_its_first_messages() -> None:
    async with talking() as (client, served):
        thread = await client.threads.create()
        first = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
        await client.threads.update_state(thread["thread_id"], first)
        assert texts((await client.threads.get_state(thread["thread_id"]))["values"]) == ["a", "b"]
        assert texts(await client.runs.wait(thread["thread_id"], "default", input=HI)) == ["a", "b", "hi", "hi"]
        assert len(served.model.prompts[-1].conversation) == 3
        with pytest.raises(UnprocessableEntityError):
            await client.threads.update_state(thread["thread_id"], first)
