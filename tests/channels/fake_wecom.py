"""A fake WeCom: the long connection of AI bots, on the loopback address, frame by frame as the official client expects."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from tests.channels.fixtures import SECONDS, Seen
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

BOT_ID, SECRET = "bot-1", "wecom-secret"


class FakeWeCom:
    """One bot. `streams` are its answers by id as they are shown now."""

    def __init__(self) -> None:
        self.url = ""
        self.frames = Seen()
        self.streams: dict[str, tuple[str, bool]] = {}
        self.sent: list[tuple[str, str]] = []
        """Messages of the bot that are no answers in place: the chat and the text."""
        self.errors: list[tuple[str, int]] = []
        """Codes for the next frames of a command."""
        self.is_mute = False
        self._sockets: list[ServerConnection] = []
        self._in_flight: set[str] = set()
        self._numbers = itertools.count(1)
        self._subscribed = anyio.Event()

    async def say(self, text: str, *, key: str = "", user: str = "ann", chat: str | None = None, **more: Any) -> str:
        """Sends a message to the bot; returns the id of its callback."""
        number = next(self._numbers)
        req_id = f"cb_{number}"
        body = {
            "msgid": key or f"msg_{number}",
            "aibotid": BOT_ID,
            "chattype": "single" if chat is None else "group",
            "from": {"userid": user},
            "msgtype": "text",
            "text": {"content": text},
            **({} if chat is None else {"chatid": chat}),
            **more,
        }
        await self.push({"cmd": "aibot_msg_callback", "headers": {"req_id": req_id}, "body": body})
        return req_id

    async def push(self, frame: object) -> None:
        with anyio.fail_after(SECONDS):
            while not self._sockets:
                await self._subscribed.wait()
        await self._sockets[-1].send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    async def cut(self) -> None:
        """Breaks the connection off."""
        sockets, self._sockets, self._subscribed = self._sockets, [], anyio.Event()
        for socket in sockets:
            socket.transport.abort()

    async def shown(self, text: str) -> None:
        """Waits until an answer is finished with this text."""
        await self.frames.wait(lambda _: (text, True) in self.streams.values())

    async def serve(self, socket: ServerConnection) -> None:
        try:
            async for raw in socket:
                frame = json.loads(raw)
                code = self._code(socket, frame)
                self.frames.add(frame)
                if not self.is_mute:
                    await socket.send(
                        json.dumps({"headers": frame["headers"], "errcode": code, "errmsg": "ok" if code == 0 else "no"})
                    )
                if frame["cmd"] == "aibot_subscribe" and code == 0:
                    self._sockets.append(socket)
                    self._subscribed.set()
        except ConnectionClosed:
            pass
        finally:
            self._sockets = [each for each in self._sockets if each is not socket]

    def _code(self, socket: ServerConnection, frame: dict[str, Any]) -> int:
        cmd, body = frame["cmd"], frame.get("body", {})
        for error in self.errors:
            if error[0] == cmd:
                self.errors.remove(error)
                return error[1]
        match cmd:
            case "aibot_subscribe":
                return 0 if (body["bot_id"], body["secret"]) == (BOT_ID, SECRET) else 853000
            case "aibot_respond_msg":
                stream = body["stream"]
                assert not self.streams.get(stream["id"], ("", False))[1], "a finished stream is changed"
                self.streams[stream["id"]] = (stream["content"], stream["finish"])
            case "aibot_send_msg":
                self.sent.append((body["chatid"], body["markdown"]["content"]))
            case _:
                assert cmd == "ping"
        return 0


@asynccontextmanager
async def wecom() -> AsyncIterator[FakeWeCom]:
    fake = FakeWeCom()
    async with serve(fake.serve, "127.0.0.1", 0) as server:
        fake.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield fake
