import os
import signal
import socket
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.cli.program import Program, environment, run_avm, running
from tests.support import answers
from tests.support.provider import Answer, ScriptedProvider, Wait, open_provider
from tests.support.wire import Client18, client_of
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from agentvm.cli import serve
from agentvm.cli.serve import announce, describe_model, describe_unpriced, show_first_key
from agentvm.config import MEMORY, BillingSettings, LlmSettings, ProviderSettings, ServerConfig, SystemSettings
from agentvm.drivers.anthropic import DEFAULT_MODEL
from agentvm.model.money import ModelRate
from agentvm.model.secret import Secret

OFF = "Authentication is OFF: every program on this machine can read every session. Turn it on with --auth on.\n"


async def url_of(program: Program) -> str:
    return (await program.line_with("listening on")).split()[-1]


def slow_answer(until: anyio.Event) -> Answer:
    begin = [answers.delta({"role": "assistant", "content": "Wait"})]
    return answers.stream([*begin, Wait(until), answers.delta({"content": " for it"}), *answers.openai_end()])


def connected(url: str) -> AbstractAsyncContextManager[Client18]:
    # Not a 1.9 client: its acknowledgements fail once the server has closed, with events still unread.
    return client_of(Client18, f"{url}/ws".replace("http", "ws", 1), proxy=None)


def with_provider(home: Path, provider: ScriptedProvider) -> dict[str, str]:
    return environment(home, LLM_PROVIDER="openai", LLM_MODEL="m", LLM_BASE_URL=f"{provider.base_url}/v1")


async def test_it_says_where_it_listens_and_what_answers(tmp_path: Path) -> None:
    env, errors = environment(tmp_path), tmp_path / "errors"
    async with running("serve", "--port", "0", env=env, errors=errors, fresh=True) as server:
        said = [await server.line() for _ in range(4)]
        url = said[0].split()[-1]
        assert said == [
            f"AgentVM 0.1.0 listening on {url}",
            f"WebSocket: {url.replace('http', 'ws', 1)}/ws",
            "Model: scripted (echoes messages)",
            f"Data: {tmp_path / '.agentvm'}",
        ]
        async with httpx2.AsyncClient(trust_env=False) as web:
            assert (await web.get(f"{url}/health?key=sk-query")).json()["status"] == "ok"
        server.send_signal(signal.SIGINT)
        assert await server.wait() == 0
        assert server.errors == OFF


async def test_a_running_turn_ends_before_the_server_does_and_its_client_hears_of_both(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with open_provider() as provider:
        provider.play(slow_answer(gate))
        env = with_provider(tmp_path, provider)
        async with running("serve", "--port", "0", env=env, errors=tmp_path / "errors") as server:
            async with connected(await url_of(server)) as peer:
                image = await peer.image()
                await peer.request("message_send_request", imageId=image["imageId"], content="hello")
                await peer.wait("text_delta")
                server.send_signal(signal.SIGTERM)
                await server.line_with("Stopping")
                gate.set()
                end = await peer.wait("turn_response")
                assert end["data"]["outcome"] == "completed"
                assert await peer.wait_closed() == 1001
            assert await server.wait() == 0
            # A turn that ends is one line of the log.
            lines = server.errors.splitlines()
            assert len([line for line in lines if "turn_ended" in line]) == 1
            assert [line for line in lines if "turn_ended" not in line] == OFF.splitlines()


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with open_provider() as provider:
        provider.play(slow_answer(anyio.Event()))
        env = with_provider(tmp_path, provider)
        async with running("serve", "--port", "0", env=env, errors=tmp_path / "errors") as server:
            async with connected(await url_of(server)) as peer:
                image = await peer.image()
                await peer.request("message_send_request", imageId=image["imageId"], content="hello")
                await peer.wait("text_delta")
                server.send_signal(signal.SIGINT)
                await server.line_with("Stopping")
                server.send_signal(signal.SIGTERM)
                assert await server.wait() == -signal.SIGTERM
            assert server.errors == OFF


async def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    env = environment(tmp_path)
    async with running("serve", "--port", "0", env=env, errors=tmp_path / "errors") as server:
        await url_of(server)
        async with running("serve", "--port", "0", env=env, errors=tmp_path / "second") as second:
            assert await second.wait() == 1
            assert second.errors.startswith(f"Error: The data directory {tmp_path / '.agentvm'} is in use")
            assert len(second.errors.splitlines()) == 1


def test_a_port_in_use_is_explained(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_avm("serve", "--memory", "--port", str(taken.getsockname()[1]), env=environment(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: Cannot listen on 127.0.0.1:")
    assert "--port" in done.stderr


def test_a_missing_key_is_explained(tmp_path: Path) -> None:
    done = run_avm("serve", "--memory", "--port", "0", "--model", "anthropic", env=environment(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "LLM_API_KEY" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_memory_and_a_data_directory_exclude_each_other(tmp_path: Path) -> None:
    done = run_avm("serve", "--memory", "--data-dir", os.fspath(tmp_path), env=environment(tmp_path))
    assert done.returncode == 2


def test_other_machines_and_missing_weights_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    announce(
        ServerConfig(system=SystemSettings(host="0.0.0.0", data_dir=MEMORY), llm=LlmSettings(model_dir=str(tmp_path))),
        "http://x",
        "ws://x/ws",
    )
    said = capsys.readouterr()
    assert "Model: local/smollm2-135m (embedded, no API key needed)\nData: in memory\n" in said.out
    assert "Authentication: on; clients need an API key\n" in said.out
    assert "OFF" not in said.err
    assert said.err.endswith("Run: avm model pull\n")


def test_a_safe_server_with_its_weights_warns_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "smollm2-135m.gguf").write_bytes(b"GGUF")
    announce(
        ServerConfig(system=SystemSettings(data_dir=MEMORY, auth="on"), llm=LlmSettings(model_dir=str(tmp_path))),
        "http://x",
        "ws://x/ws",
    )
    assert capsys.readouterr().err == ""


def test_a_server_without_authentication_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "smollm2-135m.gguf").write_bytes(b"GGUF")
    announce(
        ServerConfig(system=SystemSettings(data_dir=MEMORY), llm=LlmSettings(model_dir=str(tmp_path))), "http://x", "ws://x/ws"
    )
    assert "Authentication is OFF" in capsys.readouterr().err


def test_a_start_with_the_demo_model_offers_better_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), llm=LlmSettings(model_dir=str(tmp_path)))
    monkeypatch.setattr(serve, "ollama_models", lambda: ["qwen3:8b"])
    assert serve.default_name(config) == "smollm2-135m"
    serve.offer_models(config)
    told = capsys.readouterr().out
    assert "often wrong" in told
    assert "avm model pull qwen2.5-coder-1.5b  (1.1 GB" in told
    assert "LLM_BASE_URL=http://127.0.0.1:11434/v1 avm serve --model openai/qwen3:8b" in told
    (tmp_path / "qwen2.5-coder-1.5b.gguf").write_bytes(b"GGUF")
    serve.offer_models(config)
    assert "avm serve --model local/qwen2.5-coder-1.5b  (installed)" in capsys.readouterr().out


def test_the_first_key_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_first_key(None, None, to_terminal=True)
    assert capsys.readouterr().out == ""
    show_first_key(Secret("avm_key"), None, to_terminal=False)
    assert "shown once: avm_key\n" in capsys.readouterr().out


def test_the_first_key_is_in_a_file_where_its_output_may_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "operator.key").write_text("an earlier one")
    show_first_key(Secret("avm_key"), tmp_path, to_terminal=False)
    said = capsys.readouterr().out
    assert "avm_key" not in said
    assert f"The operator's key is in {tmp_path / 'operator.key'}\n" in said
    assert (tmp_path / "operator.key").read_text() == "avm_key\n"
    assert (tmp_path / "operator.key").stat().st_mode & 0o777 == 0o600
    show_first_key(Secret("avm_key"), tmp_path, to_terminal=True)
    assert "shown once: avm_key\n" in capsys.readouterr().out
    show_first_key(Secret("avm_key"), tmp_path / "absent", to_terminal=False)
    assert "shown once: avm_key\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (ServerConfig(llm=LlmSettings(api_key=Secret("sk-1"))), f"anthropic/{DEFAULT_MODEL} (with an API key)"),
        (
            ServerConfig(llm=LlmSettings(model="openai/q", base_url="http://me:sk-1@host:1/v1?k=sk-1")),
            "openai/q (without an API key at http://host:1/v1)",
        ),
    ],
)
def test_the_model_is_described_without_its_secrets(config: ServerConfig, text: str) -> None:
    assert describe_model(config) == text


def test_the_price_of_a_named_provider_is_known_under_its_name() -> None:
    entry = {"ours": ProviderSettings(driver="openai", base_url="http://h/v1")}
    config = ServerConfig(system=SystemSettings(auth="on"), llm=LlmSettings(model="ours/nobody-knows-it", providers=entry))
    assert "openai/nobody-knows-it" in (describe_unpriced(config) or "")
    rate = ModelRate(input=Decimal(1), output=Decimal(1))
    assert describe_unpriced(replace(config, billing=BillingSettings(prices={"ours": rate}))) is None


def test_every_page_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    announce(
        ServerConfig(llm=LlmSettings(provider="scripted"), system=SystemSettings(data_dir=MEMORY, allow_origins=("*",))),
        "http://x",
        "ws://x/ws",
    )
    assert "every web page" in capsys.readouterr().err


def test_an_invalid_origin_is_refused_as_in_a_file(tmp_path: Path) -> None:
    for origin in ("example.org", "https://example.org/", "https://"):
        done = run_avm("serve", "--allow-origin", origin, env=environment(tmp_path))
        assert (done.returncode, done.stdout) == (1, "")
        assert "--allow-origin: system.allowOrigins:" in done.stderr


async def test_a_page_from_an_allowed_origin_may_connect_and_another_may_not(tmp_path: Path) -> None:
    arguments = ("--allow-origin", "https://a.test", "--allow-origin", "https://b.test")
    env = environment(tmp_path, AVM_ALLOW_ORIGINS="https://c.test")
    async with running("serve", "--port", "0", *arguments, env=env, errors=tmp_path / "errors") as server:
        url = f"{await url_of(server)}/ws".replace("http", "ws", 1)
        for origin in ("https://a.test", "https://b.test"):
            async with connect(url, origin=Origin(origin), proxy=None):
                pass
        with pytest.raises(InvalidStatus):
            await connect(url, origin=Origin("https://c.test"), proxy=None)
