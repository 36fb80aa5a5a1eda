import uuid
from typing import Any

import httpx2
from tests.gateways.langgraph.fixtures import ASKING, asking, client_at, converse, texts
from tests.support.serving import serving


async def send(http: httpx2.AsyncClient, thread_id: str, method: str, **params: Any) -> httpx2.Response:
    return await http.post(f"/threads/{thread_id}/commands", json={"id": 3, "method": method, "params": params})


async def test_a_thread_is_run_read_and_forked_by_commands() -> None:
    async with serving(converse) as served, client_at(served.port) as client, asking(served) as http:
        thread_id = str(uuid.uuid4())

        async def run(method: str, **params: Any) -> list[str]:
            answer = (await send(http, thread_id, method, **params)).json()
            assert (answer["type"], answer["id"]) == ("success", 3)
            return texts(await client.runs.join(thread_id, answer["result"]["run_id"]))

        said = {"messages": [{"type": "human", "content": "one", "id": "m1"}]}
        assert await run("run.start", assistant_id="default", input=said) == ["one", "You said one"]
        assert await run("run.start", assistant_id="default", input=said) == ["one", "You said one"]
        assert len(served.model.prompts) == 1
        assert (await send(http, thread_id, "state.get")).json()["result"]["values"]["messages"][0]["id"] == "m1"
        assert await run("input.inject", message={"role": "user", "content": "two"}) == [
            *("one", "You said one"),
            *("two", "You said two"),
        ]
        listed = (await send(http, thread_id, "state.listCheckpoints", limit=3)).json()["result"]["checkpoints"]
        assert [checkpoint["step"] for checkpoint in listed] == [4, 3, 2]
        forked = {"messages": [{"type": "human", "content": "three"}]}
        assert await run("state.fork", checkpoint_id=listed[2]["id"], input=forked) == [
            *("one", "You said one"),
            *("three", "You said three"),
        ]
        config = {"configurable": {"checkpoint_id": "m1"}}
        assert await run("run.start", assistant_id="default", input=None, config=config) == ["one", "You said one"]
        state = (await send(http, thread_id, "state.get")).json()["result"]
        assert texts(state["values"]) == ["one", "You said one"]
        tree = (await send(http, thread_id, "agent.getTree")).json()["result"]["tree"]
        assert (tree["status"], tree["graph_name"]) == ("completed", "default")


async def test_what_waits_is_answered_once() -> None:
    async with serving(converse, tools=ASKING) as served, client_at(served.port) as client, asking(served) as http:
        started = (await send(http, "mine", "run.start", assistant_id="default", input={"messages": "ask"})).json()
        await client.runs.join("mine", started["result"]["run_id"])
        (interrupt,) = (await client.threads.get_state("mine"))["interrupts"]
        about = {"interrupt_id": interrupt["id"], "namespace": [], "response": {"decisions": [{"type": "approve"}]}}
        assert (await send(http, "mine", "input.respond", **{**about, "goto": "x"})).status_code == 422
        assert (await send(http, "mine", "input.respond", **{**about, "interrupt_id": "wait_x"})).status_code == 404
        answered = (await send(http, "mine", "input.respond", responses=[about], goto=[])).json()
        assert answered["result"] == started["result"]
        assert answered["meta"]["applied_through_seq"] > started["meta"]["applied_through_seq"]
        assert texts(await client.runs.join("mine", started["result"]["run_id"]))[-1] == "It is 2"
        assert (await send(http, "mine", "input.respond", **about)).status_code == 404
        assert len(served.model.prompts) == 2


async def test_an_input_without_messages_answers_what_waits() -> None:
    async with serving(converse, tools=ASKING) as served, client_at(served.port) as client, asking(served) as http:
        started = (await send(http, "mine", "run.start", assistant_id="default", input={"messages": "ask"})).json()
        await client.runs.join("mine", started["result"]["run_id"])
        answered = await send(http, "mine", "run.start", assistant_id="default", input=True)
        assert answered.json()["result"] == started["result"]
        assert texts(await client.runs.join("mine", started["result"]["run_id"]))[-1] == "It is 2"


async def test_a_wrong_command_is_refused_in_the_shape_of_the_protocol() -> None:
    async with serving(converse) as served, asking(served) as http:
        for method, params, status in (
            ("run.start", {"assistant_id": "nobody", "input": {"messages": "x"}}, 404),
            ("run.start", {"input": {"messages": "x"}}, 422),
            ("run.start", {"assistant_id": "default", "input": {"messages": []}}, 422),
            ("run.start", {"assistant_id": "default", "input": 5}, 422),
            ("state.get", {}, 404),
        ):
            refused = await send(http, "nobody", method, **params)
            assert (refused.status_code, refused.json()["message"]) == (status, refused.json()["detail"]), method
        await send(http, "mine", "run.start", assistant_id="default", input={"messages": "x"})
        assert (await send(http, "mine", "subscription.subscribe")).status_code == 422
        giant = await http.post("/threads/mine/commands", content=b" " * (33 * 1024 * 1024))
        assert (giant.status_code, set(giant.json())) == (413, {"detail", "error", "message"})
