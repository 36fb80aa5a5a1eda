"""The official Python client of A2A against a real server."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import (
    A2A_ERROR_REASONS,
    JSON_RPC_ERROR_CODE_MAP,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from tests.gateways.scene import scene
from tests.provision.clients import Clients
from tests.support.serving import Served

REASONS = {code: A2A_ERROR_REASONS[error] for error, code in JSON_RPC_ERROR_CODE_MAP.items() if error in A2A_ERROR_REASONS}
PROGRAM = (Path(__file__).parent / "client.mjs").read_text()


@asynccontextmanager
async def talking(**config: Any) -> AsyncIterator[tuple[Client, Served]]:
    async with scene() as served:
        client = await create_client(f"{served.http}/a2a/default", ClientConfig(**config))
        try:
            yield client, served
        finally:
            await client.close()


def said(text: str, **about: str) -> SendMessageRequest:
    message_id, tenant = about.pop("message_id", uuid.uuid4().hex), about.pop("tenant", "")
    message = Message(message_id=message_id, role=Role.ROLE_USER, parts=[Part(text=text)], **about)
    return SendMessageRequest(message=message, tenant=tenant)


def states(events: list[StreamResponse]) -> list[str]:
    return [TaskState.Name(event.status_update.status.state) for event in events if event.HasField("status_update")]


def text_of(events: list[StreamResponse]) -> str:
    parts = (event.artifact_update.artifact.parts for event in events if event.HasField("artifact_update"))
    return "".join(part.text for some in parts for part in some)


async def read(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    with anyio.fail_after(60):
        return [event async for event in client.send_message(request)]


async def test_text_tool_error_wait_interrupt_and_resume_by_the_official_client() -> None:
    async with talking() as (client, _):
        hello = await read(client, said("hello there", context_id="mine"))
        task = hello[0].task
        assert TaskState.Name(task.status.state) == "TASK_STATE_SUBMITTED"
        assert (task.context_id, text_of(hello)) == ("mine", "hello there")
        assert states(hello) == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
        whole = await client.get_task(GetTaskRequest(id=task.id))
        assert (whole.artifacts[0].parts[0].text, whole.context_id) == ("hello there", "mine")
        tool = await read(client, said("tool", context_id="mine"))
        assert "Let me check." in text_of(tool)
        assert states(tool)[-1] == "TASK_STATE_COMPLETED"
        tools = [event.status_update.metadata["tool"] for event in tool if "tool" in event.status_update.metadata]
        assert tools == ["calculator"]
        failed = await read(client, said("fail"))
        assert states(failed)[-1] == "TASK_STATE_FAILED"
        assert failed[-1].status_update.status.message.parts[0].text
        asked = await read(client, said("ask", context_id="asking"))
        assert states(asked)[-1] == "TASK_STATE_INPUT_REQUIRED"
        waiting = await client.get_task(GetTaskRequest(id=asked[0].task.id))
        assert TaskState.Name(waiting.status.state) == "TASK_STATE_INPUT_REQUIRED"
        approved = await read(client, said("approve", task_id=asked[0].task.id, context_id="asking"))
        assert (states(approved)[-1], text_of(approved)) == ("TASK_STATE_COMPLETED", "So it is.")
        listed = await client.list_tasks(ListTasksRequest(context_id="mine"))
        assert [found.id for found in listed.tasks] == [tool[0].task.id, task.id]
        assert listed.total_size == 2
        page = await client.list_tasks(ListTasksRequest(page_size=1))
        assert (len(page.tasks), page.page_size, page.total_size) == (1, 1, 4)
        ended = await client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_FAILED))
        assert [found.id for found in ended.tasks] == [failed[0].task.id]
        since = asked[0].task.status.timestamp
        later = await client.list_tasks(ListTasksRequest(status_timestamp_after=since))
        assert {found.id for found in later.tasks} == {asked[0].task.id}
        for state in (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_SUBMITTED):
            assert (await client.list_tasks(ListTasksRequest(status=state))).total_size == 0
        bobs = (await read(client, said("hello", tenant="bob")))[0].task.id
        assert (await client.get_task(GetTaskRequest(id=bobs, tenant="bob"))).id == bobs
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=bobs))
        with pytest.raises(UnsupportedOperationError):
            async for _ in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                pass
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="turn_nope"))


async def test_a_stream_that_was_lost_is_read_again_and_a_task_is_cancelled() -> None:
    async with talking() as (client, served):
        task_id = ""
        with anyio.fail_after(60):
            async for event in client.send_message(said("slow", message_id="m-slow", context_id="lost")):
                task_id = task_id or event.task.id
                if event.HasField("artifact_update"):
                    break
            again = []
            async for event in client.subscribe(SubscribeToTaskRequest(id=task_id)):
                again.append(event)
                if event.HasField("artifact_update"):
                    break
            assert again[0].task.id == task_id
            cancelled = await client.cancel_task(CancelTaskRequest(id=task_id))
        assert TaskState.Name(cancelled.status.state) == "TASK_STATE_CANCELED"
        # The same message is the same task.
        repeated = await read(client, said("slow", message_id="m-slow", context_id="lost"))
        assert (repeated[0].task.id, states(repeated)[-1]) == (task_id, "TASK_STATE_CANCELED")
        assert len(served.model.prompts) == 1


async def test_a_task_behind_another_is_cancelled_at_once_and_the_one_ahead_goes_on() -> None:
    async with talking(streaming=False, polling=True) as (client, served):
        with anyio.fail_after(60):
            (ahead,) = await read(client, said("slow", context_id="queue"))
            (behind,) = await read(client, said("hello", context_id="queue"))
            await client.cancel_task(CancelTaskRequest(id=behind.task.id))
            await read(client, said("go"))
            states = ("TASK_STATE_COMPLETED", "TASK_STATE_CANCELED")
            for task, state in zip((ahead.task, behind.task), states, strict=True):
                while TaskState.Name((await client.get_task(GetTaskRequest(id=task.id))).status.state) != state:
                    pass
        assert not any("hello" in repr(prompt.conversation[-1]) for prompt in served.model.prompts)


async def test_without_a_stream_the_answer_is_awaited_or_not() -> None:
    async with talking(streaming=False) as (client, _):
        (done,) = await read(client, said("hello"))
        assert TaskState.Name(done.task.status.state) == "TASK_STATE_COMPLETED"
        assert done.task.artifacts[0].parts[0].text == "hello"
    async with talking(streaming=False, polling=True) as (client, _):
        (begun,) = await read(client, said("slow"))
        assert TaskState.Name(begun.task.status.state) == "TASK_STATE_SUBMITTED"
        await client.cancel_task(CancelTaskRequest(id=begun.task.id))


async def test_the_official_javascript_client_runs_a_turn_of_each_kind(clients: Clients) -> None:
    async with scene() as served:
        seen = json.loads(await clients.run(PROGRAM, f"{served.http}/a2a/default/"))
        assert len([prompt for prompt in served.model.prompts if "slow" in repr(prompt.conversation[-1])]) == 1
    completed = ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert seen["text"] == {"states": completed, "text": "hello there"}
    assert (seen["tool"]["states"][-1], seen["tool"]["text"].startswith("Let me check.")) == ("TASK_STATE_COMPLETED", True)
    assert seen["failed"]["states"][-1] == "TASK_STATE_FAILED"
    assert seen["asked"]["states"][-1] == "TASK_STATE_INPUT_REQUIRED"
    assert (seen["approved"]["states"][-1], seen["approved"]["text"]) == ("TASK_STATE_COMPLETED", "So it is.")
    assert (seen["resumed"], seen["cancelled"]) == ("same task", "TASK_STATE_CANCELED")
    assert seen["unknown"] == "JsonRpcTaskNotFoundError"


async def test_a_conversation_that_began_elsewhere_goes_on_in_the_context_that_its_tasks_tell() -> None:
    async with talking() as (client, served), httpx2.AsyncClient(base_url=served.http, trust_env=False, timeout=60) as http:
        begun = (await http.post("/v1/messages", json={"content": "hello"})).json()
        task = await client.get_task(GetTaskRequest(id=begun["turnId"]))
        assert task.context_id == begun["sessionId"]
        again = await read(client, said("more", context_id=task.context_id))
        assert again[0].task.context_id == task.context_id
        listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id))
        assert [found.id for found in listed.tasks] == [again[0].task.id, task.id]
        with pytest.raises(InvalidParamsError):
            await read(client, said("more", context_id="sess_nope"))


async def test_wrong_calls_are_refused_with_the_codes_of_a2a() -> None:
    async with scene() as served, httpx2.AsyncClient(base_url=served.http, trust_env=False, timeout=60) as http:

        async def code(method: str, params: object = None, path: str = "default/", **headers: str) -> int:
            body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
            answer = (await http.post(f"/a2a/{path}", json=body, headers=headers)).json()
            assert answer["id"] == 7
            error = answer["error"]
            # What is wrong in parameters has a code of this server.
            assert error["data"][0]["reason"] in (REASONS[error["code"]], "INVALID_INPUT")
            return int(error["code"])

        hello = {"message": {"messageId": "h", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
        url = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"url": "https://a.example/x.png"}]}}
        assert await code("message/send", {}) == -32601
        assert await code("SendMessage", {"message": {}}) == -32602
        assert await code("SendMessage", url) == -32005
        assert await code("CreateTaskPushNotificationConfig", {}) == -32003
        assert await code("GetExtendedAgentCard", {}) == -32007
        assert await code("SendMessage", {**hello, "configuration": {"acceptedOutputModes": ["audio/wav"]}}) == -32005
        assert await code("GetTask", {"id": "nope"}) == -32001
        for size in (-1, 101):
            assert await code("ListTasks", {"pageSize": size}) == -32602
        assert await code("GetTask", {"id": "nope"}, **{"a2a-version": "0.3"}) == -32009
        unknown = await http.post("/a2a/nobody/", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})
        assert (unknown.status_code, unknown.json()["error"]["data"][0]["reason"]) == (404, "DEFINITION_NOT_FOUND")
        for raw, expected in ((b"{", -32700), (b'{"jsonrpc":5,', -32700), (b"[]", -32600), (b"5", -32600)):
            unread = await http.post("/a2a/default/", content=raw)
            assert (unread.status_code, unread.json()["id"], unread.json()["error"]["code"]) == (400, None, expected)
        assert served.model.prompts == []
