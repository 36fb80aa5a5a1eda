from tests.gateways.langgraph.fixtures import HI, talking, texts


async def test_a_run_shows_the_messages_up_to_its_own_end_whenever_it_is_joined() -> None:
    async with talking() as (client, _):
        thread = await client.threads.create()
        first = await client.runs.create(thread["thread_id"], "default", input=HI)
        await client.runs.join(thread["thread_id"], first["run_id"])
        later = await client.runs.wait(thread["thread_id"], "default", input={"messages": "more"})
        assert texts(later) == ["hi", "hi", "more", "more"]
        assert texts(await client.runs.join(thread["thread_id"], first["run_id"])) == ["hi", "hi"]
        assert [run["run_id"] for run in await client.runs.list(thread["thread_id"], limit=1, offset=1)] == [first["run_id"]]
