"""LangGraph — assistants, threads, runs and the store, as the official clients ask for them."""

from agentvm.gateways.langgraph.assistants import ASSISTANT_ROUTES
from agentvm.gateways.langgraph.commands import COMMAND_ROUTES
from agentvm.gateways.langgraph.errors import REFUSED_ROUTES, shape
from agentvm.gateways.langgraph.event_stream import EVENT_ROUTES
from agentvm.gateways.langgraph.runs import RUN_ROUTES
from agentvm.gateways.langgraph.state import STATE_ROUTES
from agentvm.gateways.langgraph.store import STORE_ROUTES
from agentvm.gateways.langgraph.thread_socket import THREAD_SOCKET
from agentvm.gateways.langgraph.threads import THREAD_ROUTES
from agentvm.gateways.routes import Gateway

LANGGRAPH = Gateway(
    name="langgraph",
    prefixes=("/langgraph",),
    routes=(
        *ASSISTANT_ROUTES,
        *THREAD_ROUTES,
        *STATE_ROUTES,
        *RUN_ROUTES,
        *COMMAND_ROUTES,
        *EVENT_ROUTES,
        *STORE_ROUTES,
        *REFUSED_ROUTES,
    ),
    shape=shape,
    sockets=(THREAD_SOCKET,),
    key_headers=("x-api-key",),
)
