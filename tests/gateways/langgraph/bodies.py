"""A body of each route of LangGraph, which aims at what the names name."""

from collections.abc import Callable

from agentvm.gateways.langgraph.assistants import AssistantSearchBody
from agentvm.gateways.langgraph.commands import CommandBody
from agentvm.gateways.langgraph.event_stream import EventStreamBody
from agentvm.gateways.langgraph.run_body import RunBody
from agentvm.gateways.langgraph.runs import CancelBody
from agentvm.gateways.langgraph.state import CheckpointBody, HistoryBody, StateBody
from agentvm.gateways.langgraph.store import ItemDeleteBody, ItemPutBody, ItemSearchBody, NamespaceListBody
from agentvm.gateways.langgraph.threads import ThreadCreateBody, ThreadPatchBody, ThreadSearchBody
from agentvm.gateways.routes import Lenient


def run_of(names: dict[str, str]) -> dict[str, object]:
    return {"assistant_id": names["image_id"], "input": {"messages": "x"}}


LANGGRAPH_BODIES: dict[type[Lenient], Callable[[dict[str, str]], dict[str, object]]] = {
    AssistantSearchBody: lambda names: {},
    CancelBody: lambda names: {"thread_id": names["session_id"], "run_ids": [names["turn_id"]]},
    CheckpointBody: lambda names: {"checkpoint": {"checkpoint_id": "x"}},
    CommandBody: lambda names: {"id": 1, "method": "run.start", "params": run_of(names)},
    EventStreamBody: lambda names: {"channels": ["values"]},
    HistoryBody: lambda names: {},
    ItemDeleteBody: lambda names: {"namespace": ["a"], "key": "k"},
    ItemPutBody: lambda names: {"namespace": ["a"], "key": "k", "value": {}},
    ItemSearchBody: lambda names: {},
    NamespaceListBody: lambda names: {},
    RunBody: run_of,
    StateBody: lambda names: {"values": {"messages": ["x"]}},
    ThreadCreateBody: lambda names: {"metadata": {"assistant_id": names["image_id"]}},
    ThreadPatchBody: lambda names: {"metadata": {"x": "y"}},
    ThreadSearchBody: lambda names: {},
}
