"""A fake DingTalk: the interface that opens a stream, the stream itself, and the webhooks of conversations."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from tests.channels.fixtures import SECONDS, Seen
from tests.support.web import Asked, Replied, web
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

CLIENT_ID, SECRET, TOPIC = "ding-1", "ding-secret", "/v1.0/im/bot/messages/get"
TEMPLATE = "382e4302-551d-4880-bf29-a30acfab2e71.schema"
PICTURE = b"\x89PNG picture"


class FakeDingTalk:
    """One bot. `texts` are its answers, in their order."""

    def __init__(self) -> None:
        self.url = self.socket_url = ""
        self.texts: list[str] = []
        self.late: list[tuple[str, str]] = []
        """Messages that did not go to a webhook: the path and the text."""
        self.acks = Seen()
        self.seen = Seen()
        self.refusals: list[Replied] = []
        """Answers to the next requests to a webhook."""
        self.topics: list[str] = []
        self.cards: dict[str, tuple[str, str, str]] = {}
        """The AI cards: where each is shown, its text, and its state."""
        self.card_refusal: Replied | None = None
        """The answer to every request for a card."""
        self._tickets: set[str] = set()
        self._sockets: list[ServerConnection] = []
        self._numbers = itertools.count(1)
        self._opened = anyio.Event()

    async def say(self, text: str, *, key: str = "", sender: str = "ann", group: bool = False, **more: Any) -> None:
        number = next(self._numbers)
        message = {
            "msgId": key or f"msg{number}",
            "conversationId": "cid-group" if group else f"cid-{sender}",
            "conversationType": "2" if group else "1",
            "senderId": f"$:LWCP_v1:${sender}",
            "senderStaffId": sender,
            "senderNick": sender.title(),
            "chatbotUserId": "$:LWCP_v1:$bot",
            "robotCode": CLIENT_ID,
            "isInAtList": True,
            "sessionWebhook": f"{self.url}/robot/sendBySession?session=x",
            "sessionWebhookExpiredTime": 2**50,
            "createAt": 1,
            "msgtype": "text",
            "text": {"content": f" {text} "},
            **more,
        }
        await self.push("CALLBACK", TOPIC, message)

    async def push(self, kind: str, topic: str, data: object) -> None:
        headers = {"topic": topic, "messageId": f"frame{next(self._numbers)}", "contentType": "application/json", "time": "1"}
        await self.send({"specVersion": "1.0", "type": kind, "headers": headers, "data": json.dumps(data)})

    async def send(self, frame: object) -> None:
        with anyio.fail_after(SECONDS):
            while not self._sockets:
                await self._opened.wait()
        await self._sockets[-1].send(frame if isinstance(frame, str) else json.dumps(frame))

    async def shown(self, text: str) -> None:
        await self.seen.wait(lambda _: text in self.texts)

    async def connect(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        (ticket,) = parse_qs(urlsplit(socket.request.path).query)["ticket"]
        self._tickets.remove(ticket)
        self._sockets.append(socket)
        self._opened.set()
        try:
            async for raw in socket:
                self.acks.add(json.loads(raw))
        except ConnectionClosed:
            pass
        finally:
            self._sockets.remove(socket)
            self._opened = anyio.Event()

    def answer(self, asked: Asked) -> Replied:
        path, body = urlsplit(asked.target).path, json.loads(asked.body or b"{}")
        match path:
            case "/v1.0/gateway/connections/open":
                if (body["clientId"], body["clientSecret"]) != (CLIENT_ID, SECRET):
                    return _json(401, {"code": "authFailed", "message": "鉴权失败"})
                self.topics = [each["topic"] for each in body["subscriptions"]]
                ticket = f"ticket {next(self._numbers)}"
                self._tickets.add(ticket)
                return _json(200, {"endpoint": self.socket_url, "ticket": ticket})
            case "/robot/sendBySession":
                if self.refusals:
                    return self.refusals.pop(0)
                self.texts.append(body["markdown"]["text"])
                self.seen.add(body)
                return _json(200, {"errcode": 0, "errmsg": "ok"})
            case "/v1.0/oauth2/accessToken":
                return _json(200, {"accessToken": "token", "expireIn": 7200})
            case "/file":
                return Replied(200, PICTURE, {"content-type": "image/png"})
            case _:
                return self._authorized(asked, path, body)

    def _authorized(self, asked: Asked, path: str, body: dict[str, Any]) -> Replied:
        assert asked.headers["x-acs-dingtalk-access-token"] == "token"
        if path.startswith("/v1.0/card/"):
            return self._card(asked.method, path, body)
        if path == "/v1.0/robot/messageFiles/download":
            return _json(200, {"downloadUrl": f"{self.url}/file"})
        self.late.append((path, json.loads(body["msgParam"])["text"]))
        self.seen.add(body)
        return _json(200, {"processQueryKey": "x"})

    def _card(self, method: str, path: str, body: dict[str, Any]) -> Replied:
        if self.card_refusal is not None:
            return self.card_refusal
        card = body["outTrackId"]
        place, text, state = self.cards.get(card, ("", "", ""))
        match method, path:
            case "POST", "/v1.0/card/instances/createAndDeliver":
                assert card not in self.cards
                assert (body["cardTemplateId"], body["callbackType"]) == (TEMPLATE, "STREAM")
                place = body["openSpaceId"]
                group = body.get("imGroupOpenDeliverModel") == {"robotCode": CLIENT_ID}
                alone = body.get("imRobotOpenDeliverModel") == {"spaceType": "IM_ROBOT"}
                assert (group, alone) == (place == "dtv1.card//IM_GROUP.cid-group", place.startswith("dtv1.card//IM_ROBOT."))
                state = body["cardData"]["cardParamMap"]["flowStatus"]
            case "PUT", "/v1.0/card/instances":
                values = body["cardData"]["cardParamMap"]
                state, text = values["flowStatus"], values.get("msgContent", text)
            case "PUT", "/v1.0/card/streaming":
                assert (state, body["key"], body["isFull"], body["isError"]) == ("2", "msgContent", True, False)
                assert body["guid"]
                text = body["content"]
            case _:
                return _json(404, {"code": "notFound", "message": "no such path"})
        self.cards[card] = (place, text.strip(), state)
        self.seen.add(body)
        return _json(200, {"success": True, "result": True})


def _json(status: int, body: object) -> Replied:
    return Replied(status, json.dumps(body).encode(), {"content-type": "application/json"})


@asynccontextmanager
async def dingtalk() -> AsyncIterator[FakeDingTalk]:
    fake = FakeDingTalk()
    async with web(fake.answer) as served, serve(fake.connect, "127.0.0.1", 0) as sockets:
        fake.url = served.url("")
        fake.socket_url = f"ws://127.0.0.1:{sockets.sockets[0].getsockname()[1]}/connect"
        yield fake
