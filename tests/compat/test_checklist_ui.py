"""Checklist 56: what `@agentxjs/ui` asks, in its order, read by its rules.

The React package itself is not obtainable here. `Studio` is its documented reading of events and histories: it keys
everything on `context.imageId`, opens the bubble only after `message_send_response`, leaves "loading" only on
`conversation_end` or `error_occurred`, attaches tool calls to the message their `parentId` names, and pairs results by
`toolCallId`.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.runtime.test_parking import Hammer
from tests.support.serving import Play, provide_tools, serving
from tests.support.wire import Client18, Client19, Json, client, client_of

from agentvm.drivers.scripted import in_turn, reply, tool_calls
from agentvm.model.tool_settings import ToolSettings


@dataclass
class Studio:
    """One conversation as the user sees it."""

    client: Client19
    image_id: str
    status: str = "idle"
    bubbles: list[str] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    _read: int = 0

    async def send(self, text: str) -> Json:
        self.status = "queued"
        self._read = len(self.client.events)
        sent = await self.client.request("message_send_request", imageId=self.image_id, content=text)
        # Events before the response would be lost: the bubble does not exist yet.
        self._read = self.client.events.index(await self.client.answer(sent["requestId"])) + 1
        self.bubbles.append("")
        return sent

    async def settled(self) -> None:
        """Reads on until the conversation is not loading any more."""
        while self.status not in ("idle", "error"):
            await self.client.until(lambda: len(self.client.events) > self._read)
            event = self.client.events[self._read]
            self._read += 1
            if event.get("context", {}).get("imageId") == self.image_id:
                self._show(event["type"], event["data"])

    def _show(self, kind: str, data: Json) -> None:
        match kind:
            case "conversation_start":
                self.status = "thinking"
            case "conversation_responding":
                self.status = "responding"
            case "tool_planned" | "tool_executing":
                self.status = "planning_tool"
            case "text_delta":
                self.bubbles[-1] += data["text"]
            case "tool_call_message":
                self.tools[data["toolCall"]["id"]] = "executing"
            case "tool_result_message":
                assert data["toolCallId"] in self.tools, "a result for a card that does not exist"
                failed = data["toolResult"]["output"]["type"] == "error-text"
                self.tools[data["toolCallId"]] = "error" if failed else "success"
            case "error_message":
                self.error = data["content"]
            case "conversation_end":
                self.status = "idle"
            case "error_occurred":
                self.status = "error"
            case _:
                pass


def shown(messages: list[Json]) -> tuple[list[str], dict[str, str]]:
    """The bubbles and tool cards that a reload shows: consecutive assistant messages are one bubble."""
    bubbles: list[str] = []
    tools: dict[str, str] = {}
    parents = {message["id"] for message in messages if message["subtype"] == "assistant"}
    before = "user"
    for message in messages:
        match message["subtype"]:
            case "assistant":
                text = "".join(part["text"] for part in message["content"] if part["type"] == "text")
                if before == "assistant":
                    bubbles[-1] += text
                else:
                    bubbles.append(text)
                before = "assistant"
            case "tool-call" if message["parentId"] in parents:
                tools[message["toolCall"]["id"]] = "executing"
            case "tool-result":
                tools[message["toolCallId"]] = "success"
            case "user" | "error":
                before = message["subtype"]
            case _:
                pass
    return bubbles, tools


async def checked(alice: Client19, kind: str, **data: Any) -> Json:
    answer = await alice.request(kind, **data)
    assert not answer.get("error"), answer
    return answer


async def test_item_56_the_studio_lists_creates_renames_runs_sends_interrupts_reloads_and_deletes() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        for _ in range(2):
            assert (await checked(alice, "image_list_request", containerId="default"))["records"] == []
        record = (await checked(alice, "image_create_request", containerId="default", config={"name": "New"}))["record"]
        image_id = record["imageId"]
        renamed = await checked(alice, "image_update_request", imageId=image_id, updates={"name": "Renamed"})
        assert renamed["record"]["name"] == "Renamed"
        assert (await checked(alice, "image_run_request", imageId=image_id))["agentId"]
        assert (await checked(alice, "image_messages_request", imageId=image_id))["messages"] == []

        studio = Studio(alice, image_id)
        await studio.send("hello you")
        await studio.settled()
        await studio.send("tool please")
        await studio.settled()
        assert studio.bubbles == ["hello you", "Let me check.It is done."]
        assert studio.tools == {"call_1": "success"}

        await studio.send("slow answer")
        await alice.wait(lambda event: event["type"] == "text_delta" and event["data"]["text"] == "w1 ")
        await checked(alice, "agent_interrupt_request", imageId=image_id)  # ESC
        await studio.settled()
        assert studio.status == "idle"
        assert studio.bubbles[-1] == "w0 w1 "

        await studio.send("fail")
        await studio.settled()
        assert (studio.status, studio.error) == ("error", "the model is overloaded")

        async with client(server.url) as reloaded:
            listed = (await checked(reloaded, "image_list_request", containerId="default"))["records"]
            assert [(one["imageId"], one["name"], one["online"]) for one in listed] == [(image_id, "Renamed", True)]
            messages = (await checked(reloaded, "image_messages_request", imageId=image_id))["messages"]
            bubbles, tools = shown(messages)
            assert bubbles == studio.bubbles[:-1]  # the failed one never said anything
            assert tools == studio.tools

        await checked(alice, "image_stop_request", imageId=image_id)
        await checked(alice, "image_delete_request", imageId=image_id)
        assert (await checked(alice, "image_list_request", containerId="default"))["records"] == []


async def test_item_56_a_turn_that_is_stopped_takes_the_studio_out_of_loading() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image("default"))["imageId"]
        studio = Studio(alice, image_id)
        await studio.send("slow answer")
        await alice.wait("text_delta", 2)
        await checked(alice, "image_delete_request", imageId=image_id)
        await studio.settled()
        assert studio.status == "idle"


@pytest.mark.parametrize("kind", [Client19, Client18])
@pytest.mark.parametrize("words", ["/approve", None])
async def test_an_interface_of_1x_is_unlocked_while_a_call_waits_and_shows_what_follows_the_answer(
    kind: type[Client19], words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user approves by a message, as in any interface of 1.x, or by the command that a newer one sends."""
    hammer = Hammer()
    provide_tools(monkeypatch, hammer.tool)
    script = in_turn(tool_calls(("c1", "hammer", {"n": 1}), text="May I?"), reply("Done."))
    settings = ToolSettings(answer_by_text="on")
    async with serving(script, tools=settings) as server, client_of(kind, server.url) as alice:
        image_id = (await checked(alice, "image_create_request", containerId="default", config={"name": "New"}))["record"][
            "imageId"
        ]
        studio = Studio(alice, image_id)
        await studio.send("go")
        await studio.settled()
        assert (studio.status, studio.tools, studio.error) == ("idle", {"c1": "executing"}, None)
        assert hammer.calls == []
        waiting = await alice.wait("tool_waiting")
        if words is None:
            about = {name: waiting["data"][name] for name in ("waitId", "fingerprint")}
            await checked(alice, "tool_answer_request", **about, decision="approve")
        else:
            await checked(alice, "message_send_request", imageId=image_id, content=words)
        studio.status = "queued"
        await studio.settled()
        assert (studio.status, studio.tools, studio.bubbles) == ("idle", {"c1": "success"}, ["May I?Done."])
        assert hammer.calls == [{"n": 1}]
        messages = (await checked(alice, "image_messages_request", imageId=image_id))["messages"]
        assert shown(messages) == (["May I?Done."], {"c1": "success"})
