"""Rules about tool calls hold at the edge as on a server; what the edge does not have, it refuses with the file."""

from typing import Any

import msgspec
import pytest
from tests.edge.test_tools import calling, image_file, tool
from tests.support.answers import anthropic_tools
from tests.support.edge import EdgeServer
from tests.support.provider import Answer, ScriptedProvider
from tests.support.wire import Client19, Json, client

from agentvm.model.definition import Rendered
from agentvm.model.policy import PolicyRule
from agentvm.model.turn import OutputFormat
from agentvm.runtime.policy import CallFacts, Verdict, decide, layers_of

INPUT: Json = {"city": "Ulm"}
ASK, DENY, ALLOW = {"do": "ask"}, {"do": "deny"}, {"do": "allow"}
CASES: tuple[tuple[Json, list[Json]], ...] = (
    ({}, []),
    ({"effect": "read"}, []),
    ({"effect": "write", "world": "closed"}, []),
    ({"effect": "destructive", "world": "closed"}, []),
    ({"effect": "read", "ask": True}, []),
    ({"effect": "read"}, [{**DENY, "tool": "weat*"}]),
    ({"effect": "read"}, [{**DENY, "tool": "[!a-v]?ather"}]),
    ({"effect": "read"}, [{**DENY, "tool": "[!a-v]?ath"}]),
    ({"effect": "read"}, [{**DENY, "tool": "weather["}]),
    ({"effect": "read"}, [ALLOW, DENY]),
    ({"effect": "write"}, [ALLOW]),
    ({"effect": "read"}, [{**ASK, "runtime": "http", "world": "open", "effect": "read", "tainted": False}]),
    ({"effect": "read"}, [{**DENY, "unattended": True}, {**ASK, "unattended": False}]),
    ({"effect": "read"}, [{**DENY, "when": {"/city": {"eq": "Ulm"}}}]),
    ({"effect": "read"}, [{**DENY, "when": {"/city": {"ne": "Ulm"}}}]),
    ({"effect": "read"}, [{**ASK, "when": {"/city": {"in": ["Bonn", "Ulm"]}, "/country": {"exists": False}}}]),
    ({"effect": "read"}, [{**ASK, "when": {"/city": {"gt": 1}}}]),
    ({"effect": "read"}, [{**ASK, "when": {"": {"exists": True}, "/city": {"glob": "U*m"}}}]),
    ({"effect": "read"}, [{**ASK, "when": {"/city/0": {"exists": True}}}]),
)


def verdict(more: Json, rules: tuple[PolicyRule, ...]) -> Verdict:
    """What a server decides."""
    effect, world = more.get("effect", "write"), more.get("world", "open")
    asks = more.get("ask", False)
    facts = CallFacts(tool="weather", runtime="http", effect=effect, world=world, asks=asks, input=INPUT)
    return decide(facts, layers_of(None, None, rules))


async def decided(one: Client19, sent: Json) -> tuple[str, str]:
    """What was done about the call of a turn, and why it waited or was denied."""

    def of_turn(event: Json) -> bool:
        return event["type"] in ("tool_waiting", "tool_result_message") and event["data"]["turnId"] == sent["turnId"]

    first = (await one.wait(of_turn))["data"]
    if "waitId" in first:
        await one.wait(lambda event: event["type"] == "turn_parked" and event["data"]["turnId"] == sent["turnId"])
        wait = {"waitId": first["waitId"], "fingerprint": first["fingerprint"]}
        await one.request("tool_answer_request", **wait, decision="deny")
        await one.end_of(sent["turnId"])
        return "ask", first["why"]
    await one.end_of(sent["turnId"])
    output = first["toolResult"]["output"]
    return ("deny", output["value"]) if output["type"] == "execution-denied" else ("allow", "")


async def test_a_call_is_decided_about_as_by_a_server(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    differing = []
    async with client(url) as alice:
        for number, (more, raw) in enumerate(CASES):
            rules = msgspec.convert(tuple(raw), tuple[PolicyRule, ...])
            wanted = verdict(more, rules)
            why = {"allow": "", "ask": wanted.why, "deny": f"The call was denied: {wanted.why}"}[wanted.do]
            spec = tool("weather", "http", entry=f"GET http://127.0.0.1:{edge.provider_port}/weather", **more)
            answers = [Answer(content_type="text/plain", steps=(b"rain",))] if wanted.do == "allow" else []
            sent = await calling(alice, edge, provider, f"decided-{number}", spec, *answers, policy=rules)
            if (found := await decided(alice, sent)) != (wanted.do, why):
                differing.append((more, raw, found, (wanted.do, why)))
    assert not differing, "\n".join(map(str, differing))


async def test_text_of_strangers_is_known_to_the_rules(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    rules = (PolicyRule(do="deny", tainted=True),)
    spec = tool("weather", "http", entry=f"GET http://127.0.0.1:{edge.provider_port}/weather", effect="read")
    rain = Answer(content_type="text/plain", steps=(b"rain",))
    again = anthropic_tools(("call_2", "weather", ['{"city":"Bonn"}']))
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, "tainted", spec, rain, again, policy=rules)
        await alice.end_of(sent["turnId"])
        messages = (await alice.request("image_messages_request", imageId=sent["imageId"]))["messages"]
    outputs = [message["toolResult"]["output"] for message in messages if message["subtype"] == "tool-result"]
    assert [output["type"] for output in outputs] == ["text", "execution-denied"]
    assert outputs[1]["value"] == "The call was denied: image rule 1: tainted"


@pytest.mark.parametrize("ask", [{"audience": "owner"}, {"notSender": True}])
async def test_a_call_that_only_certain_people_may_approve_is_denied(
    url: str, edge: EdgeServer, provider: ScriptedProvider, ask: Json
) -> None:
    rules = msgspec.convert(({"do": "ask", "ask": ask},), tuple[PolicyRule, ...])
    spec = tool("weather", "http", entry="GET https://example.invalid/", effect="read")
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, f"people-{len(str(ask))}", spec, policy=rules)
        done, why = await decided(alice, sent)
    assert (done, why) == ("deny", "The call was denied: image rule 1: any call; who may approve it is not known at the edge")


async def test_a_rule_says_how_long_a_call_waits(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    rules = msgspec.convert(({"do": "ask", "ask": {"expires": "2h"}},), tuple[PolicyRule, ...])
    spec = tool("weather", "http", entry="GET https://example.invalid/", effect="read")
    async with client(url) as alice:
        sent = await calling(alice, edge, provider, "two-hours", spec, policy=rules)
        waiting = await alice.wait("tool_waiting")
        assert waiting["data"]["expiresAt"] - waiting["timestamp"] == pytest.approx(7_200_000, abs=5_000)
        assert (await decided(alice, sent))[0] == "ask"


@pytest.mark.parametrize(
    ("member", "more"),
    [
        ("output", {"output": OutputFormat(name="answer", schema={"type": "object"})}),
        ("skills", {"rendered": Rendered(skills=({"name": "writing"},))}),
        ("handoffs", {"rendered": Rendered(handoffs=("resource://agents/acme/other@1",))}),
    ],
)
async def test_a_file_with_what_the_edge_does_not_have_is_refused(
    url: str, edge: EdgeServer, member: str, more: dict[str, Any]
) -> None:
    edge.add_file(f"with-{member}.avmimage", image_file(**more))
    async with client(url) as alice:
        answer = await alice.request("image_create_request", containerId="c1", config={"definition": f"with-{member}"})
    assert answer["errorCode"] == "not_available"
    assert f"has {member}," in answer["error"]
