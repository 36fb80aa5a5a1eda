"""The traps of AgentX 2.9: defects of its server that ours must not have, T1 to T45 of the study of its protocol.

Each is tested here, in the words of a 2.x client, or elsewhere, where the table says.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.server.test_authentication import bearer, open_site
from tests.support.rpc_client import RpcClient, open_rpc_client
from websockets.asyncio.client import ClientConnection, connect

from agentvm.drivers.base import (
    AssistantEntry,
    Prompt,
    ThinkingChunk,
    ThinkingStarted,
    ThinkingStopped,
    ToolResultsEntry,
    UserEntry,
)
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, in_turn, last_user_text, reply, tool_calls
from agentvm.errors import ProviderOverloaded

ROOT = Path(__file__).resolve().parents[2]
METHODS, DISPATCH = "operations/test_rpc_methods.py", "operations/test_rpc_dispatch.py"
TYPESCRIPT = "clients/typescript/test_client.py"

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "T3": ("operations/test_rpc_providers.py::test_providers_are_shown_without_keys_and_are_changed_elsewhere",),
    "T4": ("operations/test_rpc_methods.py::test_an_update_changes_no_id_and_needs_its_updates",),
    "T6": (
        "operations/test_rpc_files.py::test_a_path_that_leaves_the_folder_is_refused_and_names_no_place_of_the_server",
        "tiers/test_job_files.py::test_a_file_that_becomes_a_link_is_gone_and_not_followed",
    ),
    "T7": (
        "tiers/test_roles.py::test_the_environment_is_what_the_job_says_and_a_few_variables",
        "tiers/test_process.py::test_a_path_that_climbs_is_refused_before_anything_runs",
        "tiers/test_jailed_job.py::test_a_job_that_is_done_takes_its_background_with_it",
        "tiers/test_jailed_job.py::test_memory_beyond_the_limit_is_refused",
    ),
    "T8": (f"{METHODS}::test_a_stopped_image_answers_again_and_a_cold_one_is_not_started_to_be_interrupted",),
    "T10": (f"{DISPATCH}::test_a_second_send_waits_for_the_first_and_both_are_answered",),
    "T13": (f"{METHODS}::test_a_stopped_image_answers_again_and_a_cold_one_is_not_started_to_be_interrupted",),
    "T15": (f"{DISPATCH}::test_every_refused_send_is_also_told_by_an_event_of_its_image",),
    "T16": (
        "drivers/test_health.py::test_a_provider_is_left_alone_until_the_moment_it_named_or_for_half_a_minute",
        "drivers/test_health.py::test_an_answer_that_breaks_off_is_a_failure_and_no_outage",
    ),
    "T18": (f"{METHODS}::test_a_history_has_calls_in_their_message_and_a_rewind_keeps_them",),
    "T33": ("model/test_ids.py::test_ids_of_one_millisecond_differ",),
    "T39": ("runtime/test_stopped_calls.py::test_a_call_that_is_stopped_while_it_runs_has_a_result_that_says_so",),
    "T42": (
        "drivers/test_anthropic_body.py::test_a_part_that_was_refused_becomes_a_note_once_it_is_history",
        "drivers/test_chat_body.py::test_a_part_that_was_refused_becomes_a_note_once_it_is_history",
    ),
    "T43": (f"{DISPATCH}::test_every_refused_send_is_also_told_by_an_event_of_its_image",),
    "T44": (f"{METHODS}::test_an_update_changes_no_id_and_needs_its_updates",),
}
OF_CLIENTS: dict[str, tuple[str, ...]] = {
    # The steps of a turn look the same while it runs and when they are read again.
    "T22": ("console/test_journeys.py::test_an_answer_survives_cuts_and_a_reload_and_equals_what_is_stored",),
    # Who listens twice, closes a connection, or loses one while a call waits.
    "T24": (f"{TYPESCRIPT}::test_turns_tools_files_errors_and_a_lost_connection",),
    "T25": (f"{TYPESCRIPT}::test_a_client_that_was_closed_stays_away_and_a_call_fails_with_its_connection",),
    "T26": (
        f"{TYPESCRIPT}::test_a_client_that_was_closed_stays_away_and_a_call_fails_with_its_connection",
        "client/test_remote.py::test_a_dropped_link_fails_what_waits_comes_back_and_subscribes_again",
    ),
    # Two clients of one address have their own credentials.
    "T27": (f"{TYPESCRIPT}::test_keys_and_a_server_that_is_killed",),
    # The driver that began a process of its own: nothing does so here but tools, behind walls.
    "T34": (
        "tools/mcp/test_launch.py::test_servers_run_in_jails_and_nothing_of_them_is_left",
        "tiers/test_roles.py::test_the_environment_is_what_the_job_says_and_a_few_variables",
    ),
    "T36": (
        "test_packaging.py::test_every_package_that_is_imported_is_declared",
        "clients/typescript/test_package.py::test_the_package_has_the_version_of_the_server_and_no_dependencies",
    ),
}
"""Defects of the client, which no server can have: our own clients must not have them either."""


def own_tests() -> set[str]:
    """The traps in the names of the tests of this module."""
    names = (name for name in vars(sys.modules[__name__]) if name.startswith("test_t"))
    return {f"T{number}" for name in names for number in re.findall(r"_t(\d+)(?=_)", name)}


def test_every_trap_has_its_test() -> None:
    traps = {f"T{number}" for number in range(1, 46)}
    assert own_tests() | ELSEWHERE.keys() | OF_CLIENTS.keys() == traps
    assert not own_tests() & ELSEWHERE.keys()
    assert not OF_CLIENTS.keys() & (own_tests() | ELSEWHERE.keys())


@pytest.mark.parametrize(
    ("trap", "place"), [(trap, place) for trap, places in (ELSEWHERE | OF_CLIENTS).items() for place in places]
)
def test_every_test_elsewhere_is_there(trap: str, place: str) -> None:
    path, _, name = place.partition("::")
    source = (ROOT / "tests" / path).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), trap


async def created(client: RpcClient) -> str:
    return str((await client.ask("image.create"))["record"]["imageId"])


def of_turn(client: RpcClient, turn_id: str) -> list[Any]:
    """The events of a turn, by the id that `turn_request` and `turn_response` have."""
    known = [number for number, event in enumerate(client.events) if event["data"].get("turnId") == turn_id]
    return client.events[known[0] : known[-1] + 1]


async def asked(socket: ClientConnection, method: str, **params: object) -> Any:
    """The answer to a request, and the events before it."""
    await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    events: list[Any] = []
    with anyio.fail_after(60):
        while True:
            frame = json.loads(await socket.recv())
            if frame.get("id") == 1:
                return frame, events
            events.append(frame)


async def authenticate(socket: ClientConnection, key: str) -> None:
    await socket.send(json.dumps({"jsonrpc": "2.0", "method": "auth", "params": {"headers": bearer(key)}}))


async def test_t1_t2_t5_nobody_is_asked_for_nothing_and_nobody_hears_or_lists_what_is_of_others() -> None:
    async with open_site() as site:
        keys = [(await site.key(user_id=await site.user(name)))[1] for name in ("ann", "ben")]
        url = site.server.ws_url
        async with connect(url) as nobody:
            await authenticate(nobody, "avm_wrong_key")
            with anyio.fail_after(60):
                await nobody.wait_closed()
            assert nobody.close_code in (4401, 1008)
        async with connect(url) as ann, connect(url) as ben:
            await authenticate(ann, keys[0])
            await authenticate(ben, keys[1])
            assert (await asked(ben, "image.list"))[0]["result"]["records"] == []
            record = (await asked(ann, "image.create"))[0]["result"]["record"]
            assert (await asked(ann, "message.send", imageId=record["imageId"], content="Hi"))[0]["result"][
                "status"
            ] == "completed"
            answer, heard = await asked(ben, "image.list", containerId=record["containerId"])
            assert answer["result"]["records"] == []
            assert not [frame for frame in heard if frame["params"]["event"]["context"].get("imageId") == record["imageId"]]
            for method in ("image.messages", "image.run", "os.list"):
                assert (await asked(ben, method, imageId=record["imageId"]))[0]["error"]["code"] == 404


async def test_t9_an_image_that_is_deleted_leaves_no_instance_and_no_files() -> None:
    async with open_rpc_client() as (vm, client):
        image_id = await created(client)
        run = await client.ask("image.run", imageId=image_id)
        await client.ask("os.write", imageId=image_id, path="a.txt", content="x")
        await client.ask("image.delete", imageId=image_id)
        assert (await client.ask("instance.get", instanceId=run["instanceId"]))["exists"] is False
        assert (await client.refused("os.read", imageId=image_id, path="a.txt"))[0] == 404
        assert len(vm.runtime.roster) == 0


async def test_t11_two_messages_at_once_are_two_turns_one_after_the_other() -> None:
    async with open_rpc_client() as (_, client):
        image_id = await created(client)
        sent = [await client.send("message.send", imageId=image_id, content=text) for text in ("one two", "three four")]
        for number in sent:
            await client.answer(number)
        messages = (await client.ask("image.messages", imageId=image_id))["messages"]
        texts = [message["content"][0]["text"] for message in messages if message["role"] == "assistant"]
        assert texts == ["one two", "three four"]


async def test_t12_an_update_does_not_end_a_running_turn() -> None:
    gate = anyio.Event()
    async with open_rpc_client(ScriptedDriver(lambda _: [*reply("one ")[:3], Pause(gate), *reply("two")[2:]])) as (_, client):
        image_id = await created(client)
        sent = await client.send("message.send", imageId=image_id, content="Hi")
        await client.hear("text_delta")
        await client.ask("image.update", imageId=image_id, updates={"systemPrompt": "be brief"})
        gate.set()
        assert (await client.answer(sent))["result"]["status"] == "completed"
        (_, answer) = (await client.ask("image.messages", imageId=image_id))["messages"]
        assert answer["content"][0]["text"] == "one two"


async def test_t14_t45_a_turn_that_was_stopped_is_told_to_its_end_and_the_next_one_is_its_own() -> None:
    scripts = in_turn([*reply("partial ")[:3], Pause(anyio.Event())], reply("whole"))
    async with open_rpc_client(ScriptedDriver(scripts)) as (_, client):
        image_id = await created(client)
        sent = await client.send("message.send", imageId=image_id, content="Hi")
        await client.hear("text_delta")
        await client.ask("instance.interrupt", imageId=image_id)
        first = (await client.answer(sent))["result"]["turnId"]
        second = (await client.ask("message.send", imageId=image_id, content="Again"))["turnId"]
        stopped = [event["type"] for event in of_turn(client, first)]
        assert stopped[-1] == "turn_response"
        assert {"turn_request", "interrupted", "message_stop", "assistant_message"} <= set(stopped)
        assert "turn_request" in [event["type"] for event in of_turn(client, second)]
        assert first != second
        messages = (await client.ask("image.messages", imageId=image_id))["messages"]
        assert messages[1]["content"][0]["text"] == "partial "


async def test_t17_t41_a_failure_has_a_text_for_people_and_no_class_or_path() -> None:
    async with open_rpc_client(ScriptedDriver(lambda _: [ProviderOverloaded("The model is busy")])) as (_, client):
        image_id = await created(client)
        await client.ask("message.send", imageId=image_id, content="Hi")
        told = [event for event in client.events if event["type"] in ("error", "error_received", "error_message")]
        assert {event["type"] for event in told} == {"error", "error_received", "error_message"}
        texts = [event["data"].get("message") or event["data"].get("content") for event in told]
        assert all("The model is busy" in text for text in texts)
        assert not any(re.search(r"object Object|Error:|/src/|Traceback", text) for text in texts)


async def test_t19_the_model_is_told_a_question_once() -> None:
    async with open_rpc_client(driver := ScriptedDriver()) as (_, client):
        await client.ask("message.send", imageId=await created(client), content="Only once")
        (prompt,) = driver.prompts
        assert sum(isinstance(entry, UserEntry) for entry in prompt.conversation) == 1


def _stopped_in_a_tool(gate: anyio.Event) -> Any:
    def script(prompt: Prompt) -> Sequence[ScriptStep]:
        if last_user_text(prompt) == "Again":
            return reply("fine")
        return [*tool_calls(("t1", "calculator", {"expression": "1+1"}))[:-1], Pause(gate)]

    return script


async def test_t20_t40_a_call_that_was_cut_off_does_not_spoil_the_turns_after_it() -> None:
    async with open_rpc_client(driver := ScriptedDriver(_stopped_in_a_tool(anyio.Event()))) as (_, client):
        image_id = await created(client)
        sent = await client.send("message.send", imageId=image_id, content="Hi")
        await client.hear("tool_use_stop")
        await client.ask("instance.interrupt", imageId=image_id)
        await client.answer(sent)
        assert (await client.ask("message.send", imageId=image_id, content="Again"))["status"] == "completed"
        told = driver.prompts[-1].conversation
        called = {call.id for entry in told if isinstance(entry, AssistantEntry) for call in entry.tool_calls}
        assert called == {result.id for entry in told if isinstance(entry, ToolResultsEntry) for result in entry.results}
        assert (await client.ask("image.messages", imageId=image_id))["messages"][-1]["content"][0]["text"] == "fine"


async def test_t21_thinking_is_kept_with_its_message() -> None:
    begun, *others = reply("Yes")
    steps = [begun, ThinkingStarted(), ThinkingChunk("Hm."), ThinkingStopped(), *others]
    async with open_rpc_client(ScriptedDriver(lambda _: steps)) as (_, client):
        image_id = await created(client)
        await client.ask("message.send", imageId=image_id, content="Hi")
        answer = (await client.ask("image.messages", imageId=image_id))["messages"][-1]
        assert [part["type"] for part in answer["content"]] == ["thinking", "text"]


async def test_t23_t38_calls_of_one_answer_do_not_mix_and_none_is_lost() -> None:
    calls: list[tuple[str, str, dict[str, object]]] = [
        ("t1", "calculator", {"expression": "1+1"}),
        ("t2", "calculator", {"expression": "2+2"}),
    ]
    async with open_rpc_client(ScriptedDriver(in_turn(tool_calls(*calls), reply("Two and four")))) as (_, client):
        image_id = await created(client)
        await client.ask("message.send", imageId=image_id, content="Hi")
        pieces: dict[str, str] = {}
        current = ""
        for event in client.events:
            if event["type"] == "tool_use_start":
                current = event["data"]["toolCallId"]
            elif event["type"] == "input_json_delta":
                pieces[current] = pieces.get(current, "") + event["data"]["partialJson"]
        assert {name: json.loads(text) for name, text in pieces.items()} == {name: given for name, _, given in calls}
        told = next(event["data"] for event in client.events if event["type"] == "assistant_message")
        assert [part["id"] for part in told["content"]] == ["t1", "t2"]
        _, asking, *results, _ = (await client.ask("image.messages", imageId=image_id))["messages"]
        assert [part["id"] for part in asking["content"]] == ["t1", "t2"]
        assert [result["toolResult"]["name"] for result in results] == ["calculator", "calculator"]


async def test_t28_every_image_has_a_list_of_files_also_by_its_instance() -> None:
    async with open_rpc_client() as (_, client):
        run = await client.ask("image.run", imageId=await created(client))
        for name in (run["imageId"], run["instanceId"]):
            assert await client.ask("os.list", imageId=name) == {"files": []}


@pytest.mark.parametrize(
    ("frame", "request_id"),
    [
        ("no json", None),
        ('{"jsonrpc":"2.0","id":7,"method":"image.list","params":"text"}', 7),
        ('{"jsonrpc":"2.0","id":8,"method":""}', 8),
        ('{"jsonrpc":"2.0","id":1.5,"method":"image.list"}', None),
        ('{"jsonrpc":"2.0","id":null,"method":"image.list"}', None),
    ],
)
async def test_t29_a_bad_frame_is_answered(frame: str, request_id: object) -> None:
    async with open_rpc_client() as (_, client):
        await client.ask("image.list")
        await client.socket.send(frame)
        assert isinstance((await client.answer(request_id))["error"]["code"], int)


async def test_t30_what_is_not_there_is_404_everywhere() -> None:
    async with open_rpc_client() as (_, client):
        for method in ("image.run", "image.messages", "os.list", "instance.interrupt"):
            code, text = await client.refused(method, imageId="img_none")
            assert (code, str(ROOT) in text) == (404, False)
        assert (await client.refused("message.send", imageId="img_none", content="x"))[0] == 404


async def test_t31_every_event_of_a_session_has_its_place_in_the_log() -> None:
    async with open_rpc_client() as (_, client):
        record = (await client.ask("image.create"))["record"]
        numbers: list[int] = []
        sent = await client.send("message.send", imageId=record["imageId"], content="one two three")
        while sent not in client.answers:
            frame = await client.read()
            is_event = frame and frame.get("method") == "stream.event" and frame["params"]["topic"] == record["sessionId"]
            # That its agent has started is told, and not stored.
            if is_event and frame["params"]["event"]["type"] != "agent_created":
                numbers.append(frame["params"]["seq"])
        assert len(numbers) > 10
        assert numbers == sorted(numbers)


async def test_t32_an_image_that_is_renamed_has_one_name() -> None:
    async with open_rpc_client() as (_, client):
        image_id = str((await client.ask("image.create", name="before"))["record"]["imageId"])
        await client.ask("image.update", imageId=image_id, updates={"name": "after"})
        assert [record["name"] for record in (await client.ask("image.list"))["records"]] == ["after"]
        assert (await client.ask("image.get", imageId=image_id))["record"]["name"] == "after"


async def test_t35_an_answer_is_said_to_begin_once() -> None:
    async with open_rpc_client() as (_, client):
        await client.ask("message.send", imageId=await created(client), content="one two three four five")
        assert client.types.count("text_delta") == 5
        assert client.types.count("conversation_responding") <= 1


async def test_t37_a_turn_that_calls_tools_without_end_is_ended_and_told() -> None:
    def script(prompt: Prompt) -> Sequence[ScriptStep]:
        number = len(prompt.conversation)
        return tool_calls((f"t{number}", "calculator", {"expression": f"{number}+1"}))

    async with open_rpc_client(ScriptedDriver(script)) as (_, client):
        result = await client.ask("message.send", imageId=await created(client), content="Hi")
        assert result["status"] == "completed"
        assert client.types[-1] == "turn_response"
        assert "error" in client.types
