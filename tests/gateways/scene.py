"""A model for the official clients of gateways, and a server that knows when its tool needs an approval."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio
from hypothesis import strategies as st
from tests.gateways.openai.test_chat_chunks import parts as part
from tests.support.serving import Play, Served, serving

from agentvm.drivers.base import Prompt, ThinkingChunk, ThinkingStarted, ThinkingStopped, UserEntry
from agentvm.drivers.scripted import Pause, ScriptStep, last_user_text, reply, tool_calls
from agentvm.gateways.turn_parts import TurnEnded, TurnPart
from agentvm.model.policy import Condition, Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings

DEAR = PolicyRule(do="ask", tool="calculator", when={"/expression": Condition(eq="1+1")})


class Scene(Play):
    """Besides the words of `Play`: `ask` calls a tool that needs an approval, `page` a tool of the client.

    `think` thinks first, `go` lets the turns go on that wait after `slow`, and `stop` waits without end.
    """

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        word = last_user_text(prompt).partition(" ")[0]
        asked = isinstance(prompt.conversation[-1], UserEntry)
        match word:
            case "ask" if asked:
                return tool_calls(("call_ask", "calculator", {"expression": "1+1"}))
            case "page" if asked:
                return tool_calls(("call_page", "weather", {"city": "Oslo"}), text="One moment.")
            case "ask" | "page":
                return reply("So it is.")
            case "think":
                begun, *others = reply("Yes.")
                return [begun, ThinkingStarted(), ThinkingChunk("Hm. "), ThinkingChunk("Well."), ThinkingStopped(), *others]
            case "stop":
                return [*reply("w0 ")[:3], Pause(anyio.Event())]
            case "go":
                gate, self.gate = self.gate, anyio.Event()
                gate.set()
                return reply("gone")
            case _:
                return super().__call__(prompt)


@asynccontextmanager
async def scene() -> AsyncIterator[Served]:
    async with serving(Scene(), tools=ToolSettings(policy=Policy(rules=(DEAR, PolicyRule(do="allow"))))) as served:
        yield served


turns: st.SearchStrategy[list[TurnPart]] = st.builds(
    lambda told, end: [*told, end], st.lists(part, max_size=14), st.just(TurnEnded("completed", "end_turn"))
)
"""The parts of a turn in any order, and its end."""
