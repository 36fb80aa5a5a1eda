"""Tools at the edge: images out of files, requests over HTTP, waits for people and clients, and what is refused."""

import gzip
import json
from typing import Any

import msgspec
import pytest
from tests.support.answers import anthropic_text, anthropic_tools
from tests.support.edge import WEATHER_KEY, EdgeServer
from tests.support.provider import Answer, ScriptedProvider
from tests.support.wire import Client19, Json, client

from agentvm.blueprint.image import Frozen, build
from agentvm.blueprint.image_file import manifest_of, write_image_file
from agentvm.model.definition import Definition, Rendered
from agentvm.model.ids import ContainerId
from agentvm.model.image import ImageConfig

SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}


def tool(name: str, runtime: str, **more: Any) -> Json:
    return {"name": name, "description": f"The tool {name}", "inputSchema": SCHEMA, "runtime": runtime, **more}


def image_file(*tools: Json, prompt: str = "be brief", rendered: Rendered | None = None, **more: Any) -> bytes:
    """The bytes that `avm image save` writes for an image with these tools, and with `more` in its definition."""
    names = tuple(str(one["name"]) for one in tools)
    source = Definition(name="seller", system_prompt=prompt, tools=names, **more)
    built = msgspec.structs.replace(source, rendered=rendered or Rendered(tools=tools))
    image, _ = build(
        source,
        ImageConfig(),
        ContainerId("c1"),
        name="Seller",
        clock=lambda: 1,
        new_id=lambda kind: f"{kind}_1",
        frozen=Frozen(definition=built, source=source, refers=True),
    )
    return write_image_file(manifest_of(image), None)


async def calling(
    one: Client19, edge: EdgeServer, provider: ScriptedProvider, name: str, spec: Json, *answers: Answer, **more: Any
) -> Json:
    """Builds an image of a file with one tool, and sends a message that makes the model call it."""
    edge.add_file(f"{name}.avmimage", image_file(spec, **more))
    called = anthropic_tools(("call_1", spec["name"], ['{"city":', '"Ulm"}']), text="Let me see.")
    provider.play(called, *answers, anthropic_text("Done"))
    record = await one.image("c1", definition=name)
    reply: Json = await one.request("message_send_request", imageId=record["imageId"], content="go")
    return {**record, "turnId": reply["turnId"]}


async def test_an_image_out_of_a_file_has_its_prompt_and_its_http_tool(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    entry = f"POST http://127.0.0.1:{edge.provider_port}/weather/{{city}}"
    spec = tool("weather", "http", entry=entry, http={"query": {"units": "metric"}, "pick": "/now/degrees"}, effect="read")
    weather = Answer(content_type="application/json", steps=(b'{"now": {"degrees": 21}}',))
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, "weather", spec, weather)
        await alice.end_of(sent["turnId"])
        result = await alice.wait("tool_result")
        messages = (await alice.request("image_messages_request", imageId=sent["imageId"]))["messages"]
    asked, called, told = provider.requests
    assert asked.json()["system"] == "be brief"
    assert (called.method, called.path) == ("POST", "/weather/Ulm?units=metric")
    assert (result["data"]["result"], result["data"]["isError"]) == (21, False)
    assert [message["subtype"] for message in messages] == ["user", "tool-call", "assistant", "tool-result", "assistant"]
    assert json.dumps(told.json()["messages"]).count("tool_result") == 1


async def test_a_response_without_end_fails_its_call_only(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    spec = tool("flood", "http", entry=f"GET http://127.0.0.1:{edge.provider_port}/flood", effect="read")
    flood = Answer(content_type="text/plain", steps=(b"x" * 1_000_000,) * 5)
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, "flood", spec, flood)
        await alice.end_of(sent["turnId"])
        result = await alice.wait("tool_result")
    assert result["data"]["isError"] is True
    assert "more than 4,194,304 bytes" in str(result["data"]["result"])


async def test_a_tool_that_needs_a_machine_is_refused_to_the_model(
    url: str, edge: EdgeServer, provider: ScriptedProvider
) -> None:
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, "machine", tool("run", "python", entry="print(1)"))
        end = await alice.end_of(sent["turnId"])
        failed = await alice.wait("tool_failed")
    assert end["data"]["outcome"] == "completed"
    assert failed["data"]["error"].startswith("tier_unavailable: ")


@pytest.mark.parametrize(
    ("spec", "answer", "told"),
    [
        (tool("screen", "client"), {"decision": "answer", "result": "42"}, "42"),
        (tool("wipe", "http", entry="POST https://example.invalid/x", ask=True), {"decision": "deny", "reason": "No."}, "No."),
    ],
)
async def test_a_call_waits_for_somebody_and_costs_nothing_meanwhile(
    url: str, edge: EdgeServer, provider: ScriptedProvider, spec: Json, answer: Json, told: str
) -> None:
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, spec["name"], spec)
        waiting = (await alice.wait("tool_waiting"))["data"]
        await alice.wait("turn_parked")
    # Somebody else answers, later and elsewhere; the turn goes on there.
    async with client(url) as bob:
        (listed,) = (await bob.request("tool_waits_request", containerId="c1"))["waits"]
        assert listed["waitId"] == waiting["waitId"]
        fingerprint = waiting["fingerprint"]
        wrong = await bob.request("tool_answer_request", waitId=waiting["waitId"], fingerprint="another", **answer)
        assert wrong["errorCode"] == "invalid_input"
        given = await bob.request("tool_answer_request", waitId=waiting["waitId"], fingerprint=fingerprint, **answer)
        assert given["turnId"] == sent["turnId"]
        end = await bob.end_of(sent["turnId"])
        messages = (await bob.request("image_messages_request", imageId=sent["imageId"]))["messages"]
        again = await bob.request("tool_answer_request", waitId=waiting["waitId"], fingerprint=fingerprint, **answer)
    assert end["data"]["outcome"] == "completed"
    assert again["errorCode"] == "wait_not_found"
    (result,) = (message["toolResult"]["output"] for message in messages if message["subtype"] == "tool-result")
    assert result["value"] == told
    assert messages[-1]["content"] == [{"type": "text", "text": "Done"}]


async def test_the_user_who_goes_on_ends_what_waits(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, "superseded", tool("screen", "client"))
        await alice.wait("turn_parked")
        following = await alice.request("message_send_request", imageId=sent["imageId"], content="never mind")
        first, second = await alice.end_of(sent["turnId"]), await alice.end_of(following["turnId"])
    assert (first["data"]["outcome"], second["data"]["outcome"]) == ("interrupted", "completed")


async def test_who_stops_an_agent_ends_what_waits(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    async with client(url) as alice, client(url) as bob:
        sent = await calling(alice, edge, provider, "stopped", tool("screen", "client"))
        await alice.wait("turn_parked")
        assert "error" not in await bob.request("agent_interrupt_request", imageId=sent["imageId"])
        end = await alice.end_of(sent["turnId"])
        waits = (await bob.request("tool_waits_request", containerId="c1"))["waits"]
        following = await alice.say(sent["imageId"], "and now?")
    assert (end["data"]["outcome"], waits, following["data"]["outcome"]) == ("interrupted", [], "completed")


async def test_the_file_of_a_tenant_is_for_no_other_and_goes_before_the_one_for_all(edge: EdgeServer) -> None:
    for tenant in ("owner", "stranger"):
        edge.add_key(f"files-of-{tenant}", tenant=tenant)
    for name, prompt in (("owner/own", "mine"), ("owner/both", "my own"), ("both", "for all")):
        edge.add_file(f"{name}.avmimage", image_file(prompt=prompt))
    async with client(edge.url_of("files-of-owner")) as owner, client(edge.url_of("files-of-stranger")) as stranger:
        assert [(await owner.image("c1", definition=name))["systemPrompt"] for name in ("own", "both")] == ["mine", "my own"]
        assert (await stranger.image("c1", definition="both"))["systemPrompt"] == "for all"
        for name in ("own", "owner/own"):
            answer = await stranger.request("image_create_request", containerId="c1", config={"definition": name})
            assert answer["errorCode"] in ("definition_not_found", "invalid_input")


async def test_a_file_that_was_altered_is_refused(url: str, edge: EdgeServer) -> None:
    whole = image_file(prompt="be honest")
    tar = gzip.decompress(whole)
    for name, body in {
        "other-prompt": gzip.compress(tar.replace(b"be honest", b"be greedy")),
        "cut-off": whole[: len(whole) // 2],
        "no-archive": b"not an archive",
        "strange-entry": gzip.compress(tar.replace(b"image.json", b"evil..json", 1)),
    }.items():
        edge.add_file(f"{name}.avmimage", body)
        async with client(url) as alice:
            answer = await alice.request("image_create_request", containerId="c1", config={"definition": name})
        assert answer["errorCode"] == "invalid_input", name
    edge.add_file("whole.avmimage", whole)
    async with client(url) as alice:
        assert (await alice.image("c1", definition="whole"))["systemPrompt"] == "be honest"
        answer = await alice.request("image_create_request", containerId="c1", config={"definition": "nowhere"})
    assert answer["errorCode"] == "definition_not_found"


async def test_a_secret_reaches_its_host_and_neither_the_model_nor_another_tenant(
    edge: EdgeServer, provider: ScriptedProvider
) -> None:
    edge.add_key("has-secret", tenant="with-secret")
    edge.add_key("has-none", tenant="without-secret")
    entry = f"GET http://127.0.0.1:{edge.provider_port}/weather/{{city}}"
    parts = {"headers": {"x-api-key": "Bearer ${secret:WEATHER}"}}
    spec = tool("weather", "http", entry=entry, http=parts, effect="read", secrets=["WEATHER"])
    said = Answer(content_type="application/json", steps=(json.dumps({"you said": f"Bearer {WEATHER_KEY}"}).encode(),))
    async with client(edge.url_of("has-secret")) as alice:
        sent = await calling(alice, edge, provider, "with-secret", spec, said)
        await alice.end_of(sent["turnId"])
        assert (await alice.wait("tool_result"))["data"]["result"] == {"you said": "Bearer [secret]"}
        _, called, told = provider.requests
        assert called.headers["x-api-key"] == f"Bearer {WEATHER_KEY}"
        assert WEATHER_KEY not in json.dumps(told.json())
        assert WEATHER_KEY not in json.dumps(alice.events)
    for key, name in (("has-none", "WEATHER"), ("has-secret", "ELSEWHERE"), ("has-secret", "UNKNOWN")):
        refused = {**spec, "http": {"headers": {"x-api-key": f"${{secret:{name}}}"}}}
        async with client(edge.url_of(key)) as mallory:
            sent = await calling(mallory, edge, provider, f"refused-{name.lower()}", refused)
            await mallory.end_of(sent["turnId"])
            assert "secret_not_granted" in str((await mallory.wait("tool_result"))["data"]["result"])
