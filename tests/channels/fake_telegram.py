"""A fake Bot API of Telegram: long polls, messages and edits, on the loopback address."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from tests.channels.fixtures import Seen
from tests.support.web import Asked, Replied, web

TOKEN = "123:secret"
BOT = {"id": 99, "is_bot": True, "first_name": "Bot", "username": "AvmBot"}
PHOTO = b"\x89PNG photo"


class FakeTelegram:
    """Messages of the chats, and the bot's answers in each."""

    def __init__(self) -> None:
        self.url = ""
        self.messages: dict[int, str] = {}
        """The bot's messages as they are shown now."""
        self.calls = Seen()
        self.refusals: list[tuple[str, int, dict[str, Any]]] = []
        """Answers to the next calls of a method."""
        self.hangs = False
        self._updates: list[dict[str, Any]] = []
        self._more = anyio.Event()
        self._ids = itertools.count(1)
        self.webhook: dict[str, Any] | None = None

    def say(
        self, text: str, *, chat: int = 7, kind: str = "private", sender: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        number = next(self._ids)
        message = {
            "message_id": number,
            "from": sender or {"id": 7, "is_bot": False, "first_name": "Ann"},
            "chat": {"id": chat, "type": kind},
            "date": 1,
            "text": text,
            **more,
        }
        update = {"update_id": 1000 + number, "message": message}
        self.push(update)
        return update

    def push(self, update: dict[str, Any]) -> None:
        self._updates.append(update)
        self._more.set()
        self._more = anyio.Event()

    async def shown(self, text: str) -> None:
        """Waits until a message of the bot is shown so."""
        await self.calls.wait(lambda _: text in self.messages.values())

    async def counted(self, text: str, times: int) -> None:
        """Waits until so many messages of the bot have these words."""
        await self.calls.wait(lambda _: sum(text in shown for shown in self.messages.values()) == times)

    async def answer(self, asked: Asked) -> Replied:
        if asked.target.startswith(f"/file/bot{TOKEN}/"):
            return Replied(body=PHOTO, headers={"content-type": "application/octet-stream"})
        token, _, method = asked.target.removeprefix("/bot").partition("/")
        if token != TOKEN:
            return _json(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
        body = json.loads(asked.body or b"{}")
        for refusal in self.refusals:
            if refusal[0] == method:
                self.refusals.remove(refusal)
                return _json(refusal[1], {"ok": False, "error_code": refusal[1], **refusal[2]})
        result = await self._result(method, body)
        self.calls.add((method, body))
        return _json(200, {"ok": True, "result": result})

    async def _result(self, method: str, body: dict[str, Any]) -> Any:
        match method:
            case "getMe":
                return BOT
            case "setWebhook":
                self.webhook = body
                return True
            case "deleteWebhook":
                self.webhook = None
                return True
            case "getUpdates":
                assert self.webhook is None
                return await self._poll(body["offset"])
            case "sendMessage":
                number = next(self._ids)
                self.messages[number] = body["text"]
                return {"message_id": number}
            case "editMessageText":
                self.messages[body["message_id"]] = body["text"]
                return {"message_id": body["message_id"]}
            case "getFile":
                return {"file_id": body["file_id"], "file_path": "photos/1.png"}
            case _:
                return True

    async def _poll(self, offset: int) -> list[dict[str, Any]]:
        if self.hangs:
            await anyio.sleep_forever()
        self._updates = [update for update in self._updates if update["update_id"] >= offset]
        while not self._updates:
            await self._more.wait()
        return list(self._updates)


def _json(status: int, body: object) -> Replied:
    return Replied(status, json.dumps(body).encode(), {"content-type": "application/json"})


@asynccontextmanager
async def telegram() -> AsyncIterator[FakeTelegram]:
    fake = FakeTelegram()
    async with web(fake.answer) as served:
        fake.url = served.url("")
        yield fake
