"""A model that may say anything its grammar allows, and a runtime with one image, for the tests of this folder."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
from hypothesis import strategies as st

from agentvm.blueprint.image import Frozen, build
from agentvm.config import ServerConfig
from agentvm.drivers.base import (
    Driver,
    MessageStarted,
    MessageStopped,
    ModelOutput,
    StopReason,
    TextChunk,
    TextStarted,
    TextStopped,
    ThinkingChunk,
    ThinkingStarted,
    ThinkingStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    ToolSpec,
    UsageReported,
)
from agentvm.drivers.models import Models
from agentvm.ecosystem import Effector
from agentvm.errors import StoreFailed
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, TurnId, id_factory
from agentvm.model.image import Image, ImageConfig
from agentvm.model.limits import Limits
from agentvm.model.message import Message, ToolCall
from agentvm.model.principal import Principal
from agentvm.model.turn import Turn
from agentvm.model.usage import Usage
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime.agent import Agent
from agentvm.runtime.billing import Meter
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.channel import Channel
from agentvm.runtime.ports import Cost
from agentvm.runtime.runtime import Runtime, open_runtime
from agentvm.runtime.single_call import run_once
from agentvm.runtime.tools import Run, ServerTools, Tool, ToolSet
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.nodes import Claim
from agentvm.storage.sql.store import Store
from agentvm.tools.base import CallContext, Caller

# --- what a model may say

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_objects = st.dictionaries(texts, texts | st.integers(-(2**70), 2**70) | st.booleans(), max_size=2)
counts = st.integers(0, 1_000)
usage_reports = st.builds(UsageReported, st.builds(Usage, input_tokens=counts, output_tokens=counts))
reasons: st.SearchStrategy[StopReason] = st.sampled_from(["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"])


def _cut(text: str, at: int) -> list[ModelOutput]:
    return [ToolInputChunk(text[:at]), ToolInputChunk(text[at:])]


text_blocks: st.SearchStrategy[list[ModelOutput]] = st.lists(texts, max_size=4).map(
    lambda deltas: [TextStarted(), *map(TextChunk, deltas), TextStopped()]
)
thinking_blocks: st.SearchStrategy[list[ModelOutput]] = st.builds(
    lambda deltas, signature: [ThinkingStarted(), *map(ThinkingChunk, deltas), ThinkingStopped(signature)],
    st.lists(texts, max_size=3),
    st.none() | texts,
)
tool_blocks: st.SearchStrategy[list[ModelOutput]] = st.builds(
    lambda name, inputs: [ToolCallStarted("", name), *inputs, ToolCallStopped()],
    st.sampled_from(["calculator", "nobody"]),
    st.builds(_cut, json_objects.map(lambda value: msgspec.json.encode(value).decode()), st.integers(0, 20))
    | st.just([])
    | st.just([ToolInputChunk("not json")]),
)


@st.composite
def model_calls(draw: st.DrawFn) -> list[ModelOutput]:
    """The outputs of one call, as the rules of drivers/base.py allow them."""
    blocks = draw(st.lists(text_blocks | thinking_blocks | tool_blocks | usage_reports.map(lambda one: [one]), max_size=5))
    number = iter(range(100))
    outputs: list[ModelOutput] = [MessageStarted("msg_provider", "fake-model-1")]
    for output in (output for block in blocks for output in block):
        outputs.append(ToolCallStarted(f"call_{next(number)}", output.name) if isinstance(output, ToolCallStarted) else output)
    return [*outputs, *draw(st.lists(usage_reports, max_size=1)), MessageStopped(draw(reasons))]


# --- a runtime with one image


class Ticking:
    """A clock that moves by one at each look, so that every moment has its own number."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


def tool(name: str, run: Run, timeout_seconds: float = 5.0, *, repeatable: bool = False) -> Tool:
    spec = ToolSpec(name=name, description=name, input_schema={"type": "object"})
    return Tool(spec=spec, run=run, timeout_seconds=timeout_seconds, repeatable=repeatable)


async def run_tool(tools: ToolSet, name: str = "given", output_max: int = 1_000, **arguments: object) -> ToolOutcome:
    """Runs one call outside of a turn."""
    with anyio.fail_after(60):
        context = CallContext(key="turn_1/c", caller=Caller("acme", "ann"), deadline=anyio.current_time() + 5)
        call = ToolCall(id="c", name=name, input=arguments)
        ended = await run_once(tools, call, context, Limits(tool_output=output_max))
    assert isinstance(ended, ToolOutcome)
    return ended


@dataclass(slots=True, kw_only=True)
class World:
    """A runtime, one image in it, and a channel that hears everything."""

    runtime: Runtime
    store: Store
    image: Image
    channel: Channel
    heard: list[dict[str, Any]] = field(default_factory=list)

    def start(self) -> Agent:
        return self.runtime.start_agent(DEFAULT_TENANT, self.image, self.image.session_id)[0]

    async def say(self, agent: Agent, text: str) -> str:
        """Sends and releases; returns the turn's id."""
        # As those do who have found it: it may not leave memory meanwhile.
        with agent.in_use():
            accepted = await agent.receive(text)
        agent.release(accepted)
        return accepted.state.turn_id

    async def hear(self, kind: str, *, turn_id: str | None = None, times: int = 1) -> list[dict[str, Any]]:
        """Everything heard so far, once that event was heard that many times."""
        with anyio.fail_after(60):
            while sum(self._fits(event, kind, turn_id) for event in self.heard) < times:
                frames = await self.channel.take()
                assert frames, f"the channel was closed before {kind}"
                self.heard += [msgspec.json.decode(frame.bare) for frame in frames]
        return self.heard

    def hear_nowait(self) -> list[dict[str, Any]]:
        self.heard += [msgspec.json.decode(frame.bare) for frame in self.channel.take_nowait()]
        return self.heard

    @staticmethod
    def _fits(event: dict[str, Any], kind: str, turn_id: str | None) -> bool:
        return event["type"] == kind and turn_id in (None, event["context"].get("turnId"))

    async def messages(self) -> tuple[Message, ...]:
        return await self.store.tenant(DEFAULT_TENANT).container(self.image.container_id).list_messages(self.image.session_id)

    async def turns(self) -> tuple[Turn, ...]:
        return (
            await self.store.tenant(DEFAULT_TENANT).container(self.image.container_id).log(self.image.session_id).list_turns()
        )


def types(events: Sequence[dict[str, Any]], turn_id: str | None = None) -> list[str]:
    return [event["type"] for event in events if turn_id in (None, event["context"].get("turnId"))]


class FlakyStore:
    """A store whose commits fail while `fails` says so of their number; the first one is number 1."""

    def __init__(self, store: Store, fails: Callable[[int], bool]) -> None:
        self._store = store
        self.fails = fails
        self.commits = 0

    async def commit(
        self,
        writes: Sequence[SessionWrite],
        *,
        entry: bytes | None = None,
        forget: int = 0,
        claims: Sequence[Claim] = (),
    ) -> Committed:
        self.commits += 1
        if self.fails(self.commits):
            raise StoreFailed("the disk is full")
        return await self._store.commit(writes, entry=entry, forget=forget, claims=claims)

    async def probe(self) -> None:
        self.commits += 1
        if self.fails(self.commits):
            raise StoreFailed("the disk is full")
        await self._store.probe()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@asynccontextmanager
async def open_world(
    driver: Driver,
    *,
    tools: Sequence[Tool] = (),
    limits: Limits | None = None,
    fails: Callable[[int], bool] = lambda number: False,
    definition: Definition | None = None,
    path: Path | None = None,
    suspends: bool = False,
    recovers_later: bool = False,
    meter: Meter | None = None,
    models: Models | None = None,
    cost: Cost = lambda driver, model, usage, at, provider="": None,
    effectors: Sequence[Effector] = (),
    watch: Callable[[Store], Any] = lambda store: store,
    clock: Ticking | None = None,
    settings: ServerConfig | None = None,
    ids_from: int = 1,
) -> AsyncIterator[World]:
    """`watch` makes of the store what the runtime is given. `models` are asked instead of the driver alone.

    `fails` says which commits the store refuses. A `path` that was used before has its image already; its
    turns have other ids than later ones with another `ids_from`."""
    clock = clock or Ticking()
    numbers = iter(range(ids_from, 1_000_000))
    new_id = id_factory(lambda: 0, lambda bits: next(numbers))
    async with open_store(path) as own_store:
        container = own_store.tenant(DEFAULT_TENANT).container(ContainerId("c1"))
        await container.create(1)
        template = definition or Definition(name="default")
        # One whose references are resolved is the snapshot itself.
        frozen = None if template.rendered is None else Frozen(definition=template, source=template)
        config = ImageConfig(name="Chat")
        image, session = build(template, config, ContainerId("c1"), name="", clock=clock, new_id=new_id, frozen=frozen)
        before = await container.list_images()
        if before:
            image = before[0]
        else:
            await container.add_image(image, session)
        async with open_runtime(
            store=watch(FlakyStore(own_store, fails)),  # type: ignore[arg-type]  # a double
            models=models or Models({driver.name: driver}, driver.name),
            cost=cost,
            tools=ServerTools(tools, default=[tool.spec.name for tool in tools]),
            clock=clock,
            new_id=new_id,
            settings=settings or ServerConfig(limits=limits or Limits()),
            suspends=suspends,
            recovers_later=recovers_later,
            meter=meter,
            effectors=effectors,
        ) as runtime:
            channel = Channel(Principal(tenant_id=DEFAULT_TENANT), encode_event)
            runtime.broadcaster.attach(channel)
            runtime.broadcaster.join(channel, image.container_id, follow=True)
            runtime.broadcaster.subscribe(channel, image.container_id, image.session_id)
            yield World(runtime=runtime, store=own_store, image=image, channel=channel)


def left(world: World, *, attempts: int = 0) -> Turn:
    """A turn that another process has begun."""
    image = world.image
    return Turn(
        turn_id=TurnId("turn_before"),
        container_id=image.container_id,
        image_id=image.image_id,
        session_id=image.session_id,
        message_id=MessageId("m"),
        accepted_at=1,
        attempts=attempts,
    )
