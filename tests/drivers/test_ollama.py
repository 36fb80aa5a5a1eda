import anyio.to_thread
import pytest
from tests.support.web import Asked, Replied, web

from agentvm.drivers.ollama import ollama_models


@pytest.mark.parametrize(
    ("status", "body", "names"),
    [
        (200, b'{"models": [{"name": "qwen3:8b", "size": 1}, {"name": "llama4"}]}', ["qwen3:8b", "llama4"]),
        (200, b'{"models": []}', []),
        (200, b"<html>", []),
        (404, b"{}", []),
    ],
)
async def test_the_models_of_ollama_are_found(status: int, body: bytes, names: list[str]) -> None:
    def serve(asked: Asked) -> Replied:
        assert asked.target == "/api/tags"
        return Replied(status=status, body=body)

    async with web(serve) as server:
        assert await anyio.to_thread.run_sync(ollama_models, server.url("").rstrip("/")) == names


def test_without_ollama_there_is_nothing_to_offer() -> None:
    assert ollama_models("http://127.0.0.1:9") == []
