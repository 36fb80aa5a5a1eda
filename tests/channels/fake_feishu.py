"""A fake Feishu: the interface that opens the long connection, its protobuf frames, messages and growing cards."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
from tests.channels.fixtures import SECONDS, Seen
from tests.support.web import Asked, Replied, web
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from agentvm.channels.feishu_frame import FeishuFrame, decode_frame, encode_frame

APP_ID, SECRET, BOT = "cli_1", "feishu-secret", "ou_bot"
CLIENT_CONFIG = {"ReconnectCount": -1, "ReconnectInterval": 2, "ReconnectNonce": 1, "PingInterval": 120}
PICTURE = b"\x89PNG picture"


class FakeFeishu:
    """One bot. `cards` are its answers as they are shown now: the text, and whether it still grows."""

    def __init__(self) -> None:
        self.url = self.socket_url = ""
        self.cards: dict[str, tuple[str, bool]] = {}
        self.replies: dict[str, tuple[str, Any]] = {}
        """The bot's messages by the name that the sender gave them: the message that is answered, and the content."""
        self.seen, self.frames = Seen(), Seen()
        self.errors: list[tuple[str, int]] = []
        """Codes for the next requests of a method and the end of its path, as `PUT content`."""
        self._sequences: dict[str, int] = {}
        self._sockets: list[ServerConnection] = []
        self._numbers = itertools.count(1)
        self._opened = anyio.Event()

    async def say(
        self, text: str, *, key: str = "", sender: str = "ou_ann", kind: str = "user", parts: int = 1, **more: Any
    ) -> None:
        number = next(self._numbers)
        message = {
            "message_id": key or f"om_{number}",
            "chat_id": "oc_1",
            "chat_type": "p2p",
            "message_type": "text",
            "content": json.dumps({"text": text}),
            **more,
        }
        event = {
            "schema": "2.0",
            "header": {"event_id": f"e{number}", "event_type": "im.message.receive_v1", "create_time": "1", "app_id": APP_ID},
            "event": {"sender": {"sender_id": {"open_id": sender}, "sender_type": kind}, "message": message},
        }
        await self.push(json.dumps(event).encode(), f"frame{number}", parts)

    async def push(self, payload: bytes, message_id: str, parts: int = 1) -> None:
        size = -(-len(payload) // parts)
        for seq in range(parts):
            headers = {"type": "event", "message_id": message_id, "sum": str(parts), "seq": str(seq), "trace_id": "t"}
            frame = FeishuFrame(
                seq_id=7, log_id=2**40, service=3, method=1, headers=headers, payload=payload[seq * size :][:size]
            )
            await self.send(encode_frame(frame))

    async def send(self, data: bytes | str) -> None:
        with anyio.fail_after(SECONDS):
            while not self._sockets:
                await self._opened.wait()
        await self._sockets[-1].send(data)

    async def cut(self) -> None:
        for socket in tuple(self._sockets):
            socket.transport.abort()
        self._sockets, self._opened = [], anyio.Event()

    async def shown(self, text: str) -> None:
        """Waits until a card that was sent is finished with this text."""

        def is_shown(_: object) -> bool:
            sent = {content["data"]["card_id"] for _, content in self.replies.values() if content.get("type") == "card"}
            return any(self.cards[card] == (text, False) for card in sent)

        await self.seen.wait(is_shown)

    async def connect(self, socket: ServerConnection) -> None:
        self._sockets.append(socket)
        self._opened.set()
        try:
            async for raw in socket:
                assert isinstance(raw, bytes)
                self.frames.add(decode_frame(raw))
        except ConnectionClosed:
            pass
        finally:
            self._sockets = [each for each in self._sockets if each is not socket]

    def answer(self, asked: Asked) -> Replied:
        path, body = urlsplit(asked.target).path, json.loads(asked.body or b"{}")
        for error in self.errors:
            method, _, end = error[0].partition(" ")
            if method == asked.method and path.endswith(end):
                self.errors.remove(error)
                return _json({"code": error[1], "msg": "no"})
        if path == "/callback/ws/endpoint":
            if (body["AppID"], body["AppSecret"]) != (APP_ID, SECRET):
                return _json({"code": 1000040351, "msg": "app secret is wrong"})
            url = f"{self.socket_url}?device_id=d&service_id=33"
            return _json({"code": 0, "data": {"URL": url, "ClientConfig": CLIENT_CONFIG}})
        if path.endswith("/tenant_access_token/internal"):
            return _json({"code": 0, "tenant_access_token": "token", "expire": 7200})
        assert asked.headers["authorization"] == "Bearer token"
        if "/resources/" in path:
            return Replied(200, PICTURE, {"content-type": "image/png"})
        data = self._act(path, body)
        self.seen.add((asked.method, path, body))
        return _json({"code": 0, "msg": "ok", "bot": {"open_id": BOT}, "data": data})

    def _act(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        parts = path.split("/")
        if path == "/open-apis/cardkit/v1/cards":
            card = json.loads(body["data"])
            name = f"card{next(self._numbers)}"
            self.cards[name] = (card["body"]["elements"][0]["content"], card["config"]["streaming_mode"])
            return {"card_id": name}
        if "/cards/" in path:
            name = parts[parts.index("cards") + 1]
            assert body["sequence"] > self._sequences.get(name, 0), "numbers have to grow"
            self._sequences[name] = body["sequence"]
            text, grows = self.cards[name]
            if path.endswith("/content"):
                assert grows, "a finished card is changed"
                self.cards[name] = (body["content"], grows)
            else:
                self.cards[name] = (text, json.loads(body["settings"])["config"]["streaming_mode"])
        elif path.endswith("/reply"):
            self.replies.setdefault(body["uuid"], (parts[-2], json.loads(body["content"])))
        return {}


def _json(body: object) -> Replied:
    return Replied(200, json.dumps(body).encode(), {"content-type": "application/json"})


@asynccontextmanager
async def feishu() -> AsyncIterator[FakeFeishu]:
    fake = FakeFeishu()
    async with web(fake.answer) as served, serve(fake.connect, "127.0.0.1", 0) as sockets:
        fake.url = served.url("")
        fake.socket_url = f"ws://127.0.0.1:{sockets.sockets[0].getsockname()[1]}/ws"
        yield fake
