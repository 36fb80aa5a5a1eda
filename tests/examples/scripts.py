"""Scripts — what the model says in the tests of the examples."""

import os
from collections.abc import Iterable
from pathlib import Path

import anyio

from agentvm import ServerConfig
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.base import MessageStarted, Prompt, TextChunk, TextStarted, UserEntry
from agentvm.drivers.scripted import Pause, ScriptStep, echo, last_user_text, tool_calls
from agentvm.errors import ProviderOverloaded

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
CLIENT = ROOT / "clients" / "typescript" / "dist" / "index.js"
IN_MEMORY = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY))
NOBODY = "ws://127.0.0.1:1/ws"
"""Where no server listens."""


def talk(prompt: Prompt) -> Iterable[ScriptStep]:
    """Echoes; but "tool …" calls two tools first, "fail …" fails, and "Count …" never comes to an end."""
    text = last_user_text(prompt)
    if text.startswith("tool") and isinstance(prompt.conversation[-1], UserEntry):
        calls: tuple[tuple[str, str, dict[str, object]], ...] = (
            ("call_1", "calculator", {"expression": "(2 + 3) * 4"}),
            ("call_2", "calculator", {"expression": "1 / 0"}),
        )
        return tool_calls(*calls, text="Let me see.")
    if text.startswith("fail"):
        return [MessageStarted("", "scripted"), ProviderOverloaded("The model is overloaded; try again later")]
    if text.startswith("Count"):
        return [MessageStarted("", "scripted"), TextStarted(), TextChunk("one, two"), Pause(anyio.Event())]
    return echo(prompt)


def environment(**more: str) -> dict[str, str]:
    """For an example's process: ours, without settings of AgentVM except those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "AVM_"))}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), **more}
