"""The recorded conversations of an unmodified 2.9 client, played against the edge."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.compat.test_replay_2x import NAMES, differing
from tests.support.edge_answers import played
from tests.support.provider import ScriptedProvider
from tests.support.replay_2x import Playing, load, recorded_calls, unlike_recorded
from tests.support.rpc_client import RpcClient
from websockets.asyncio.client import ClientConnection, connect

# Which answers differ from the recorded ones at the edge, beside those of a server: reason, then the requests.
SAME = "as it was recorded"
NO_FILES = "files of agents are on servers"
_EDGE: dict[str, dict[str, str]] = {
    "05": {"the image says which model answers": "message.send 5"},
    "12": {"a message that waits is stored when its turn begins": "image.messages 10"},
    "14": {"there are as many providers as PROVIDERS names": "llm.list 5"},
    "17": {NO_FILES: "os.write 11, os.read 12"},
    "19": {NO_FILES: "os.write 3, os.write 5, os.list 6, os.list 7, os.read 8, os.write 16, os.list 18"},
    "24": {SAME: "container.create 1, container.get 2, container.list 3, prototype.list 10, image.create 18"},
}


class Socket:
    """A socket as the client of 2.x uses it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.from_server = self

    async def send(self, frame: Any) -> None:
        await self._socket.send(frame if isinstance(frame, str) else json.dumps(frame))

    async def receive(self) -> dict[str, Any]:
        return {"type": "websocket.send", "text": await self._socket.recv()}


@asynccontextmanager
async def playing(url: str, records: list[dict[str, Any]], differs: dict[str, str]) -> AsyncIterator[Playing]:
    """A client for each recorded connection."""
    clients, sockets = {}, []
    try:
        for conn in dict.fromkeys(record["conn"] for record in records):
            # Without a bound: what nobody reads would keep the socket from hearing that it is closed, for twenty seconds.
            sockets.append(await connect(url, max_size=None, max_queue=None, compression=None, ping_interval=None))
            clients[conn] = RpcClient(Socket(sockets[-1]))  # type: ignore[arg-type]  # what is used of a socket
        yield Playing(differs, clients)
    finally:
        for socket in sockets:
            await socket.close()


def differing_here(name: str) -> dict[str, str]:
    here = {request: why for why, requests in _EDGE.get(name[:2], {}).items() for request in requests.split(", ")}
    return {request: why for request, why in {**differing(name), **here}.items() if why != SAME}


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_client_is_answered(name: str, url: str, provider: ScriptedProvider) -> None:
    records, differs = load(name), differing_here(name)
    provider.play(*played(recorded_calls(records)))
    async with playing(url, records, differs) as played_now:
        await played_now.play(records)
    assert played_now.problems == [], "\n".join(played_now.problems)
    assert played_now.used == set(differs)
    events = [event for client in played_now.clients.values() for event in client.events]
    assert list(unlike_recorded(records, events)) == []
