import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import structs
from tests.drivers.fixtures import WEATHER, answered, called, prompt
from tests.drivers.weight_files import gguf
from tests.support.processes import wait_ended
from tests.support.web import Asked, Replied, web

from agentvm.drivers import local
from agentvm.drivers.base import DriverSettings, TextChunk, UserEntry
from agentvm.drivers.local import SILENCE_SECONDS, LocalDriver, local_body, open_driver, open_pool, silence_of, tool_use
from agentvm.drivers.model_catalog import DEFAULT_MODEL
from agentvm.drivers.sidecar_host import Endpoint, Shape
from agentvm.drivers.weights import default_model_dir, weights_path
from agentvm.errors import ModelUnavailable, ProviderBadRequest, ProviderTimeout, ProviderUnreachable
from agentvm.testing.conformance import driver as conformance

installed = pytest.mark.skipif(
    weights_path(default_model_dir(), DEFAULT_MODEL) is None,
    reason="the embedded model is not installed; run: avm model pull",
)


@pytest.fixture
async def driver() -> AsyncIterator[LocalDriver]:
    async with open_driver(DriverSettings()) as driver:
        yield driver


async def test_a_temperature_that_somebody_chose_goes_before_the_recommended_one() -> None:
    embedded = structs.replace(prompt(), model=DEFAULT_MODEL)
    assert local_body(embedded, "none")["temperature"] == 0.2
    assert local_body(structs.replace(embedded, temperature=0.0), "none")["temperature"] == 0.0
    assert "temperature" not in local_body(prompt(), "none")


def test_the_model_may_be_silent_while_it_reads_the_prompts_of_others() -> None:
    said = structs.replace(prompt(), silence=30.0)
    assert (silence_of(said, None), silence_of(structs.replace(said, silence=300.0), None)) == (SILENCE_SECONDS, 300.0)
    assert (silence_of(said, 5.0), silence_of(structs.replace(said, silence=None), None)) == (5.0, None)


async def test_without_weights_it_opens_and_says_how_to_get_them(tmp_path: Path) -> None:
    async with open_driver(DriverSettings(model_dir=tmp_path)) as driver:
        error = await conformance.check_failure(driver, conformance.hello(driver), ModelUnavailable)
        assert "avm model pull" in str(error)
        other = prompt(UserEntry(content="hi"))
        await conformance.check_failure(driver, other, ModelUnavailable)
        assert driver.process_ids == []


async def test_a_file_that_is_not_a_model_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"<html>")
    async with open_driver(DriverSettings(model_dir=tmp_path)) as driver:
        await conformance.check_failure(driver, prompt(), ModelUnavailable)
        assert driver.process_ids == []


async def test_a_broken_model_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    async with open_driver(DriverSettings(model_dir=tmp_path)) as driver:
        await conformance.check_failure(driver, prompt(), ModelUnavailable)


async def test_a_peers_path_is_not_even_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    is_file = Path.is_file

    def look(path: Path) -> bool:
        looked.append(path)
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", look)
    for name in ("operators.gguf", "secret.gguf"):
        (tmp_path / name).write_bytes(b"GGUF" + b"\0" * 100)
    settings = DriverSettings(model=str(tmp_path / "operators.gguf"), model_dir=tmp_path / "models")
    async with open_driver(settings) as driver:
        for path in (str(tmp_path / "secret.gguf"), f"{tmp_path}/./operators.gguf", "../secret.gguf", "~/secret.gguf"):
            asked = structs.replace(prompt(), model=path)
            error = await conformance.check_failure(driver, asked, ModelUnavailable)
            assert "no weights" in str(error)
        assert looked == []
        await conformance.check_failure(driver, conformance.hello(driver), ModelUnavailable)
        assert looked == [tmp_path / "operators.gguf"]


class Leases:
    """Stands for the host of the model's process: every model is served at one address."""

    def __init__(self, url: str) -> None:
        self.endpoint = Endpoint(url, "key")

    @asynccontextmanager
    async def lease(self, model: Path, shape: Shape) -> AsyncIterator[Endpoint]:
        yield self.endpoint


@pytest.mark.parametrize(
    ("model", "template", "told"),
    [("m", "{{ tools }}", True), ("m", "{{ messages }}", False), (DEFAULT_MODEL, "{{ tools }}", False)],
)
async def test_a_model_is_told_of_tools_if_its_template_knows_them(
    tmp_path: Path, model: str, template: str, told: bool
) -> None:
    (tmp_path / f"{model}.gguf").write_bytes(gguf(template))
    bodies: list[dict[str, object]] = []

    def serve(asked: Asked) -> Replied:
        bodies.append(json.loads(asked.body))
        said = '{"tool": "none", "answer": "ok"}' if told else "ok"
        chunk = {"choices": [{"index": 0, "delta": {"content": said}, "finish_reason": "stop"}]}
        return Replied(
            body=f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode(), headers={"Content-Type": "text/event-stream"}
        )

    asked = prompt(UserEntry(content="Hi?"), called(("c", "weather")), answered("c", "sunny"), tools=(WEATHER,))
    async with web(serve) as server, open_pool() as pool:
        host: Any = Leases(server.url("").rstrip("/"))
        driver = LocalDriver(host, pool, DriverSettings(model_dir=tmp_path))
        assert conformance.text_of(await conformance.collect(driver, structs.replace(asked, model=model))) == "ok"
    (body,) = bodies
    # The file is small: its answer is bound to JSON, and the notation of its template is not used.
    assert ("response_format" in body) is told
    assert "tools" not in body


def test_only_a_large_model_is_trusted_with_its_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf("{{ tools }}"))
    asked = prompt(UserEntry(content="Hi?"), tools=(WEATHER,))
    assert tool_use(asked, path) == "enforced"
    assert tool_use(prompt(UserEntry(content="Hi?")), path) == "none"
    monkeypatch.setattr(local, "SMALL_BYTES_MAX", 10)
    assert tool_use(asked, path) == "template"


async def test_a_connection_that_llama_cpp_is_about_to_close_is_not_used_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5, max=100\r\n\r\n2\r\nhi\r\n0\r\n\r\n"

    async def serve(stream: anyio.abc.SocketStream) -> None:
        # It closes after each answer, but a busy machine may let it do so only when the next request is on its way.
        async with stream:
            await stream.receive()
            await stream.send(answer)
            with suppress(anyio.EndOfStream):
                await stream.receive()

    with anyio.fail_after(60):
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            async with open_pool() as pool:
                for _ in range(2):
                    assert (await pool.post(f"http://127.0.0.1:{port}/")).text == "hi"
            tasks.cancel_scope.cancel()


@installed
async def test_the_embedded_model_conforms(driver: LocalDriver) -> None:
    await conformance.check_text(driver)
    await conformance.check_parallel_calls(driver)
    outputs = await conformance.collect(driver, conformance.hello(driver, max_tokens=4))
    assert conformance.stop_reason_of(outputs) == "max_tokens"
    assert conformance.usage_of(outputs).output_tokens == 4
    assert not conformance.usage_of(outputs).estimated
    assert len(driver.process_ids) == 1


@installed
async def test_a_conversation_with_tools_reaches_it_as_text(driver: LocalDriver) -> None:
    said = prompt(
        UserEntry(content="Weather?"), called(("c", "weather"), text="Wait."), answered("c", "sunny"), tools=(WEATHER,)
    )
    asked = conformance.hello(driver)
    asked = type(asked)(model=asked.model, conversation=said.conversation, max_tokens=8, tools=said.tools)
    assert conformance.text_of(await conformance.collect(driver, asked))


@installed
async def test_a_prompt_beyond_the_window_is_refused_and_the_window_is_as_told(driver: LocalDriver) -> None:
    long = conformance.hello(driver, "word " * (driver.context_window(DEFAULT_MODEL) + 100))
    error = await conformance.check_failure(driver, long, ProviderBadRequest)
    assert f"({driver.context_window(DEFAULT_MODEL)} tokens)" in str(error)


@installed
async def test_closing_a_call_frees_its_slot(driver: LocalDriver) -> None:
    """Four slots: were they still taken, a fifth call would wait for the thousands of tokens the others asked for."""
    for _ in range(8):
        with anyio.fail_after(60):
            async with aclosing(driver.run(conformance.hello(driver, "Tell a long story.", max_tokens=4000))) as run:
                async for output in run:
                    if isinstance(output, TextChunk):
                        break
    await conformance.check_text(driver, conformance.hello(driver, max_tokens=4))


@installed
async def test_a_crash_fails_the_call_and_the_next_call_starts_anew(driver: LocalDriver) -> None:
    story = conformance.hello(driver, "Tell a long story.", max_tokens=4000)
    with anyio.fail_after(60):
        async with aclosing(driver.run(story)) as run:
            await anext(run)
            [first] = driver.process_ids
            os.kill(first, signal.SIGKILL)
            with pytest.raises(ProviderUnreachable, match="embedded model"):
                async for _ in run:
                    pass
    await conformance.check_text(driver, conformance.hello(driver, max_tokens=4))
    [second] = driver.process_ids
    assert second != first


@installed
async def test_the_deadline_covers_the_start_of_the_process() -> None:
    async with open_driver(DriverSettings(timeout=0.05)) as driver:
        await conformance.check_failure(driver, conformance.hello(driver), ProviderTimeout)


@installed
async def test_leaving_ends_the_process() -> None:
    async with open_driver(DriverSettings()) as driver:
        await conformance.check_text(driver, conformance.hello(driver, max_tokens=4))
        [pid] = driver.process_ids
    await wait_ended(pid)


@installed
async def test_an_idle_process_ends_and_comes_back_on_demand() -> None:
    async with open_driver(DriverSettings(), idle_seconds=0.01) as driver:
        await conformance.check_text(driver, conformance.hello(driver, max_tokens=4))
        with anyio.fail_after(60):
            while driver.process_ids:
                await anyio.lowlevel.checkpoint()
        await conformance.check_text(driver, conformance.hello(driver, max_tokens=4))


PARENT = """
import sys, anyio
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.local import open_driver
from agentvm.testing.conformance.driver import hello

async def main():
    async with open_driver(DriverSettings()) as driver:
        async for _ in driver.run(hello(driver, "Tell a long story.", max_tokens=4000)):
            print(driver.process_ids[0], flush=True)

anyio.run(main)
"""


@installed
@pytest.mark.timeout(300)
async def test_the_process_dies_with_its_parent_even_if_that_is_killed() -> None:
    # Two interpreters start and a model is loaded: on a busy machine that takes minutes.
    with anyio.fail_after(280):
        async with await anyio.open_process([sys.executable, "-c", PARENT], stderr=None) as parent:
            assert parent.stdout is not None
            pid = int(await BufferedByteReceiveStream(parent.stdout).receive_until(b"\n", 100))
            parent.kill()
            await parent.wait()
        await wait_ended(pid)


async def test_a_chinese_message_to_the_demo_model_is_answered_at_once_without_a_model(tmp_path: Path) -> None:
    async with open_driver(DriverSettings(model_dir=tmp_path)) as driver:
        asked = structs.replace(prompt(UserEntry(content="你好，请介绍一下你自己")), model=DEFAULT_MODEL)
        async with aclosing(driver.run(asked)) as outputs:
            text = "".join([output.text async for output in outputs if isinstance(output, TextChunk)])
        assert "演示模型" in text
        assert driver.process_ids == []
