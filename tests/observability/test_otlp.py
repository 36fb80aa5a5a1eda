"""What a collector gets is what happened: parents, attributes, and the ledger's numbers; and nothing that was said."""

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from tests.observability.collector import Collector, about, collecting
from tests.observability.test_tracing import span as a_span
from tests.runtime.fixtures import Ticking, open_world, tool
from tests.runtime.test_answering_fallback import Named, down, ok, pair
from tests.runtime.test_billing import Till, entries

from agentvm import log
from agentvm.app import open_agentvm
from agentvm.config import MEMORY, LlmSettings, OtelSettings, ServerConfig, SessionSettings, SystemSettings
from agentvm.drivers.base import MessageStarted, Prompt, TextChunk, TextStarted, UsageReported, UserEntry
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, last_user_text, reply, tool_calls
from agentvm.errors import ProviderOverloaded, ProviderProtocolError
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.secret import Secret
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.observability.otlp import Otlp
from agentvm.observability.spans import span_of, trace_of
from agentvm.observability.telemetry import Snapshot, Telemetry, open_telemetry
from agentvm.operations.dispatch import answer
from agentvm.operations.image_build import ImageCreate
from agentvm.operations.message import MessageSend

SAID, RESULT, HEADER = "xyzzy-what-was-said", "plugh-what-a-tool-gave", "Bearer planted-collector-token"
USED = Usage(input_tokens=11, output_tokens=7, cache_read_tokens=5, cache_write_tokens=3, thinking_tokens=2)


@asynccontextmanager
async def sending(collector: Collector, **about: Any) -> AsyncIterator[Telemetry]:
    to = OtelSettings(endpoint=collector.url, export_seconds=3_600, **about)
    async with open_telemetry(
        to, clock=Ticking(), is_known=lambda provider, model: True, tools=lambda: ("ok",), driver_of=str
    ) as telemetry:
        telemetry.samples = tuple
        yield telemetry


def play(prompt: Prompt) -> Sequence[ScriptStep]:
    said = last_user_text(prompt)
    if said.startswith("cut"):
        begun = (MessageStarted("", "scripted-2026"), TextStarted(), TextChunk(SAID))
        return [*begun, UsageReported(USED), ProviderProtocolError(f"broken off {SAID}")]
    if said.startswith("tool") and isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("call_1", "ok", {"secret": SAID}), (f"{SAID} as an id", f"made-up-{SAID}", {"x": 1}), text=SAID)
    return reply(SAID, " then", usage=USED)


async def test_a_turn_is_a_trace_with_its_calls_and_tools_and_the_tokens_of_the_ledger() -> None:
    with collecting() as collector:
        async with sending(collector) as telemetry:
            effectors = [telemetry.tracing]
            async with open_world(ScriptedDriver(play), tools=[tool("ok", ok)], meter=Till(), effectors=effectors) as world:
                telemetry.tracing.name_of = lambda tenant_id, agent_id: "Chat"
                agent = world.start()
                turn_id = await world.say(agent, f"tool {SAID}")
                await world.hear("turn_response", turn_id=turn_id)
                failed = await world.say(agent, f"cut {SAID}")
                await world.hear("turn_response", turn_id=failed)
                ledger = await entries(world)
                session_id = world.image.session_id
    whole, broken = collector.named("invoke_agent Chat")
    chats = [span for span in collector.spans if span.name.startswith("chat ")]
    tools = [span for span in collector.spans if span.name.startswith("execute_tool ")]
    assert whole.trace_id == trace_of(turn_id).to_bytes(16)
    assert whole.span_id == span_of(turn_id).to_bytes(8)
    assert not whole.parent_span_id
    assert {(one.trace_id, one.parent_span_id) for one in (*chats[:2], *tools)} == {(whole.trace_id, whole.span_id)}
    assert (chats[2].trace_id, chats[2].parent_span_id) == (broken.trace_id, broken.span_id)
    assert len({span.span_id for span in collector.spans}) == len(collector.spans) == 7
    assert {span.kind for span in chats} == {3}
    assert {span.kind for span in (*tools, whole)} == {1}
    for span in (*chats[:2], *tools):
        assert whole.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= whole.end_time_unix_nano
    turn = about(whole)
    assert turn["gen_ai.operation.name"] == "invoke_agent"
    assert turn["gen_ai.conversation.id"] == session_id
    assert (turn["agentvm.turn.id"], turn["agentvm.outcome"]) == (turn_id, "completed")
    assert "error.type" not in turn
    first, second, cut = (about(span) for span in chats)
    assert (first["gen_ai.provider.name"], first["gen_ai.request.model"]) == ("scripted", "scripted")
    assert first["gen_ai.response.finish_reasons"] == ["tool_use"]
    assert second["gen_ai.response.finish_reasons"] == ["end_turn"]
    assert second["gen_ai.usage.cache_read.input_tokens"] == 5
    assert cut["gen_ai.response.model"] == "scripted-2026"
    assert cut["error.type"] == about(broken)["error.type"] == "provider_protocol_error"
    assert (chats[2].status.code, broken.status.code, whole.status.code) == (2, 2, 0)
    # A tool that nobody has answers at once.
    assert [about(span)["gen_ai.tool.name"] for span in tools] == ["other", "ok"]
    assert about(tools[1])["gen_ai.tool.call.id"] == "call_1"
    assert about(tools[0])["error.type"] == "tool_failed"
    assert "gen_ai.tool.call.id" not in about(tools[0])
    used = sum((entry.usage for entry in ledger), NO_USAGE)
    assert len(ledger) == len(chats) == 3
    sent = [about(span) for span in chats]
    read = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
    assert sum(one["gen_ai.usage.input_tokens"] for one in sent) == read
    assert sum(one["gen_ai.usage.output_tokens"] for one in sent) == used.output_tokens
    counted = collector.metric("gen_ai.client.token.usage").histogram.data_points
    sums = {about(point)["gen_ai.token.type"]: point.sum for point in counted}
    assert sums == {"input": read, "output": used.output_tokens}
    durations = collector.metric("gen_ai.client.operation.duration").histogram.data_points
    assert {about(point).get("error.type"): point.count for point in durations} == {None: 2, "provider_protocol_error": 1}
    firsts = collector.metric("gen_ai.client.operation.time_to_first_chunk").histogram.data_points
    assert sum(point.count for point in firsts) == 3
    assert list(durations[0].explicit_bounds)[:3] == [0.01, 0.02, 0.04]
    assert list(counted[0].explicit_bounds)[-1] == 67_108_864


async def test_a_fallback_is_seen_in_the_trace() -> None:
    a, b = Named("a", down(ProviderOverloaded("busy"))), Named("b")
    with collecting() as collector:
        async with sending(collector) as telemetry:
            async with open_world(a, models=pair(a, b), effectors=[telemetry.tracing]) as world:
                await world.say(world.start(), "hello")
                await world.hear("turn_response")
    (whole,), (chat,) = collector.named("invoke_agent"), collector.named("chat b-1")
    (moment,) = whole.events
    assert moment.name == "agentvm.provider_fallback"
    assert about(moment) == {"agentvm.from": "a/a-1", "agentvm.to": "b/b-1", "error.type": "provider_overloaded"}
    assert (about(chat)["gen_ai.provider.name"], about(chat)["agentvm.attempt"]) == ("b", 2)


async def test_a_server_sends_its_numbers_and_nothing_that_was_said_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-foreign=for-somebody-else")
    # A proxy is for the world; nobody listens there.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with collecting() as collector:
        otel = OtelSettings(
            endpoint=f"{collector.url}/", headers=Secret("authorization=Bearer%20planted-collector-token"), service_name="ours"
        )
        config = ServerConfig(
            system=SystemSettings(port=0, data_dir=MEMORY),
            llm=LlmSettings(api_key=Secret("sk-planted-provider-key")),
            sessions=SessionSettings(titles="off"),
            otel=otel,
        )
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver(play)}) as vm:
            peer = vm.attach()
            await peer.store.container(ContainerId("alices-own")).create(1)
            await answer(peer, ImageCreate(container_id="alices-own"), "r")
            (image,) = await peer.store.container(ContainerId("alices-own")).list_images()
            for word in ("tool", "cut", "plain"):
                await answer(peer, MessageSend(image_id=image.image_id, content=f"{word} {SAID}"), "r")
            agent = vm.runtime.agent_of(DEFAULT_TENANT, image)
            with anyio.fail_after(60):
                while sum(vm.monitor.metrics.turns.values()) < 3:
                    await anyio.lowlevel.checkpoint()
            assert agent is not None
            known = vm.monitor.metrics.turns["completed"]
    resource = collector.traces[0].resource_spans[0].resource
    assert about(resource)["service.name"] == "ours"
    assert len([span for span in collector.spans if span.name.startswith("invoke_agent ")]) == 3
    turns = {about(point)["outcome"]: point.as_double for point in collector.metric("agentvm_turns").sum.data_points}
    assert turns == {"completed": known, "interrupted": 0, "failed": 3 - known}
    assert collector.metric("agentvm_turns").sum.is_monotonic
    (took,) = collector.metric("agentvm_turn_seconds").histogram.data_points
    assert took.count == sum(took.bucket_counts) == 3
    assert collector.metric("agentvm_store_writable").gauge.data_points[0].as_double == 1
    assert {headers["authorization"] for headers in collector.headers} == {HEADER}
    assert HEADER in log.concealed
    assert all(not headers.get("x-foreign") for headers in collector.headers)
    for body in collector.bodies:
        for hidden in (SAID, RESULT, "planted", "alices-own", "calculator-made-up"):
            assert hidden.encode() not in body
    for request in collector.metrics:
        assert DEFAULT_TENANT.encode() not in request.SerializeToString().replace(b"agentvm_", b"")


async def test_families_of_every_type_are_translated() -> None:
    histogram = HistogramMetricFamily("agentvm_h", "h", buckets=[("0.1", 1), ("1.0", 3), ("+Inf", 4)], sum_value=9.5)
    counter = CounterMetricFamily("agentvm_c", "c", labels=("a",))
    counter.add_metric(("b",), 3)
    samples = (histogram, counter, GaugeMetricFamily("agentvm_g", "g", value=2), SummaryMetricFamily("odd", "odd"))
    with collecting() as collector:
        otlp = Otlp(OtelSettings(endpoint=collector.url))
        assert await anyio.to_thread.run_sync(otlp.send_metrics, Snapshot(1, 2, samples, ()))
        otlp.stop()
    (point,) = collector.metric("agentvm_h").histogram.data_points
    assert (list(point.bucket_counts), list(point.explicit_bounds), point.sum) == ([1, 2, 1], [0.1, 1.0], 9.5)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (1_000_000, 2_000_000)
    (number,) = collector.metric("agentvm_c").sum.data_points
    assert (about(number), number.as_double) == ({"a": "b"}, 3)
    assert len(collector.metrics[0].resource_metrics[0].scope_metrics[0].metrics) == 3


async def test_an_answer_without_an_end_holds_nobody_up() -> None:
    with collecting() as collector:
        collector.endless = threading.Event()
        otlp = Otlp(OtelSettings(endpoint=collector.url))
        with anyio.fail_after(60):
            assert await anyio.to_thread.run_sync(otlp.send_spans, [a_span(1)], abandon_on_cancel=True)
            assert await anyio.to_thread.run_sync(otlp.send_metrics, Snapshot(0, 1, (), ()), abandon_on_cancel=True)


async def test_why_something_was_not_taken_is_known() -> None:
    with collecting() as collector:
        otlp = Otlp(OtelSettings(endpoint=collector.url))
        collector.status = 401
        assert not await anyio.to_thread.run_sync(otlp.send_spans, [a_span(1)])
        assert otlp.problem == "HTTP 401"
    otlp = Otlp(OtelSettings(endpoint=collector.url))
    assert not await anyio.to_thread.run_sync(otlp.send_spans, [a_span(1)])
    assert otlp.problem == "ConnectionError"
