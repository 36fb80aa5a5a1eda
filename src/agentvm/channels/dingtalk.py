"""DingTalk — a bot of DingTalk (钉钉) in stream mode: a WebSocket that a ticket opens, JSON frames, each acknowledged.

Answers go to the webhook of the conversation that comes with a message, or to the bot's own interface when that has expired.
With a template they are AI cards instead, which are written while they grow.
"""

from hashlib import sha256
from typing import Annotated, Any, ClassVar
from urllib.parse import quote_plus

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import WebSocketException

from agentvm.channels.base import (
    AdapterParts,
    ChannelAdapter,
    ChatReply,
    ChatSender,
    FetchedFile,
    InboundFile,
    InboundMessage,
    MessageListener,
    Piece,
    secret,
    setting,
)
from agentvm.channels.calls import EXPIRY_MS, AccessToken, call_json, fetch_file, open_socket, read_object, text_of
from agentvm.errors.channel import PlatformFailed, PlatformRefused
from agentvm.model.base import Record
from agentvm.runtime.tasks import open_tasks
from agentvm.version import VERSION

PING_SECONDS = 60.0
PONG_SECONDS = 30.0
CARD_SECONDS = 0.8
TOPIC = "/v1.0/im/bot/messages/get"
TITLE_MAX = 40
_GROUP = "2"
_TOO_FAST = frozenset({130101, 410100})
_WRITING, _FINISHED = "2", "3"
"""States of an AI card; it begins with the state 1."""


class DingTalkSettings(Record):
    client_id: Annotated[str, setting("The Client ID of the app that has the bot.")]
    client_secret: Annotated[str, secret("The Client Secret of the app.")]
    address: Annotated[str, setting("The address of the open interface.")] = "https://api.dingtalk.com"
    card_template: Annotated[str, setting("Shows answers while they grow: the ID of an AI card template.")] | None = None
    card_key: Annotated[str, setting("The variable of the template that has the text.")] = "msgContent"


class DingTalk(ChannelAdapter):
    """A bot. DingTalk passes on messages of groups only when they name the bot."""

    name: ClassVar[str] = "dingtalk"
    title: ClassVar[str] = "DingTalk · 钉钉"
    description: ClassVar[str] = "A bot of DingTalk in stream mode."
    settings: ClassVar[type[Record]] = DingTalkSettings
    text_max: ClassVar[int] = 15_000

    def __init__(self, parts: AdapterParts) -> None:
        self._http, self._clock, self._secret = parts.http, parts.clock, parts.secrets["clientSecret"]
        self._client_id, self._address = parts.settings.client_id, parts.settings.address.rstrip("/")
        self._template, self._card_key = parts.settings.card_template, parts.settings.card_key
        self._token = AccessToken(parts.clock, self._ask_token)

    @property
    def update_seconds(self) -> float | None:
        return None if self._template is None else CARD_SECONDS

    async def run(self, host: MessageListener) -> None:
        endpoint, ticket = await self._open()
        async with open_socket(self._http, f"{endpoint}?ticket={quote_plus(ticket)}") as socket:
            host.connected()
            async with open_tasks() as tasks:
                tasks.start_soon(_stay_alive, socket)
                await self._read(socket, host)
                tasks.cancel_scope.cancel()

    async def _open(self) -> tuple[str, str]:
        body = {
            "clientId": self._client_id,
            "clientSecret": self._secret,
            "subscriptions": [{"type": "CALLBACK", "topic": TOPIC}],
            "ua": f"agentvm/{VERSION}",
        }
        status, reply = await call_json(self._http, "POST", f"{self._address}/v1.0/gateway/connections/open", body)
        if status in (400, 401, 403):
            raise PlatformRefused(
                f"DingTalk does not accept the app: {text_of(reply, 'message') or status}",
                "Compare Client ID and Client Secret with the app's page, choose the stream mode for its bot, and store the "
                "secret again: avm secret set",
            )
        endpoint, ticket = text_of(reply, "endpoint"), text_of(reply, "ticket")
        if not (endpoint and ticket):
            raise PlatformFailed(f"DingTalk names no connection: {text_of(reply, 'message') or status}")
        return endpoint, ticket

    async def _read(self, socket: ClientConnection, host: MessageListener) -> None:
        """Reads frames until DingTalk asks to connect elsewhere."""
        async for raw in socket:
            frame = read_object(raw)
            if frame is None:
                continue
            topic = text_of(frame, "headers", "topic")
            match frame.get("type"):
                case "SYSTEM" if topic == "disconnect":
                    return
                case "SYSTEM":
                    await _acknowledge(socket, frame, text_of(frame, "data"))
                case "CALLBACK" if topic == TOPIC:
                    if (message := _parse(read_object(text_of(frame, "data")) or {})) is not None:
                        await host.receive(message)
                    await _acknowledge(socket, frame, '{"response":null}')
                case _:
                    pass  # A frame that was not subscribed to.

    async def write(self, reply: ChatReply, piece: Piece) -> None:
        if self._template is not None and "markdown" not in reply.kept:
            try:
                return await self._write_card(self._template, reply, piece)
            except PlatformFailed as error:
                if not error.permanent:
                    raise
                # The app may not write cards, or the template is another: the answer is Markdown from here on.
                await reply.keep(markdown=str(error))
        if piece.is_final:
            await self._write_markdown(reply, piece)

    async def _write_card(self, template: str, reply: ChatReply, piece: Piece) -> None:
        name = f"c{piece.index}"
        card = sha256(f"{reply.key} {piece.index}".encode()).hexdigest()
        if name not in reply.kept:
            await self._deliver_card(template, reply, card)
            await reply.keep(**{name: card})
            await self._update_card(card, {"flowStatus": _WRITING})
        body = {
            "outTrackId": card,
            "guid": sha256(f"{card} {piece.is_final} {piece.text}".encode()).hexdigest()[:40],
            "key": self._card_key,
            "content": piece.text,
            "isFull": True,
            "isFinalize": piece.is_final,
            "isError": False,
        }
        await self._call("/v1.0/card/streaming", body, method="PUT")
        if piece.is_final:
            await self._update_card(card, {"flowStatus": _FINISHED, self._card_key: piece.text})

    async def _deliver_card(self, template: str, reply: ChatReply, card: str) -> None:
        group = reply.to.get("group")
        place = f"IM_GROUP.{group}" if group else f"IM_ROBOT.{reply.to['user']}"
        model: dict[str, Any] = (
            {"imGroupOpenDeliverModel": {"robotCode": reply.to["robot"]}}
            if group
            else {"imRobotOpenDeliverModel": {"spaceType": "IM_ROBOT"}}
        )
        body = {
            "cardTemplateId": template,
            "outTrackId": card,
            "cardData": {"cardParamMap": {"flowStatus": "1"}},
            "callbackType": "STREAM",
            "imGroupOpenSpaceModel": {"supportForward": True},
            "imRobotOpenSpaceModel": {"supportForward": True},
            "openSpaceId": f"dtv1.card//{place}",
            **model,
        }
        await self._call("/v1.0/card/instances/createAndDeliver", body)

    async def _update_card(self, card: str, values: dict[str, str]) -> None:
        await self._call("/v1.0/card/instances", {"outTrackId": card, "cardData": {"cardParamMap": values}}, method="PUT")

    async def _write_markdown(self, reply: ChatReply, piece: Piece) -> None:
        title = " ".join(piece.text.split())[:TITLE_MAX]
        if int(reply.to.get("until", "0")) > self._clock() + EXPIRY_MS:
            markdown = {"msgtype": "markdown", "markdown": {"title": title, "text": piece.text}}
            _, answered = await call_json(self._http, "POST", reply.to["webhook"], markdown)
            code = answered.get("errcode")
            if code != 0:
                is_later = code in _TOO_FAST or not isinstance(code, int) or code == -1
                raise PlatformFailed(f"DingTalk did not take the answer: {text_of(answered, 'errmsg')}", permanent=not is_later)
            return
        message = {
            "robotCode": reply.to["robot"],
            "msgKey": "sampleMarkdown",
            "msgParam": msgspec.json.encode({"title": title, "text": piece.text}).decode(),
        }
        if group := reply.to.get("group"):
            await self._call("/v1.0/robot/groupMessages/send", {**message, "openConversationId": group})
        else:
            await self._call("/v1.0/robot/oToMessages/batchSend", {**message, "userIds": [reply.to["user"]]})

    async def fetch(self, file: InboundFile) -> FetchedFile:
        place = {"downloadCode": file.place["code"], "robotCode": file.place["robot"]}
        about = await self._call("/v1.0/robot/messageFiles/download", place)
        return await fetch_file(self._http, text_of(about, "downloadUrl"), file)

    async def _call(self, path: str, body: dict[str, Any], *, method: str = "POST") -> dict[str, Any]:
        headers = {"x-acs-dingtalk-access-token": await self._token.get()}
        status, reply = await call_json(self._http, method, f"{self._address}{path}", body, headers=headers)
        if status == 401:
            self._token.drop()
        if status != 200:
            about = text_of(reply, "message") or str(status)
            raise PlatformFailed(f"DingTalk: {about}", permanent=status in (400, 403, 404))
        return reply

    async def _ask_token(self) -> tuple[str, int]:
        body = {"appKey": self._client_id, "appSecret": self._secret}
        status, reply = await call_json(self._http, "POST", f"{self._address}/v1.0/oauth2/accessToken", body)
        seconds = reply.get("expireIn")
        if status != 200 or not isinstance(seconds, int):
            raise PlatformFailed(f"DingTalk gives no access token: {text_of(reply, 'message') or status}")
        return text_of(reply, "accessToken"), seconds


async def _stay_alive(socket: ClientConnection) -> None:
    while True:
        await anyio.sleep(PING_SECONDS)
        try:
            with anyio.fail_after(PONG_SECONDS):
                await (await socket.ping())
        except (TimeoutError, WebSocketException):
            raise PlatformFailed("DingTalk does not answer pings any more") from None


async def _acknowledge(socket: ClientConnection, frame: dict[str, Any], data: str) -> None:
    headers = {"messageId": text_of(frame, "headers", "messageId"), "contentType": "application/json"}
    with anyio.fail_after(PONG_SECONDS):
        await socket.send(msgspec.json.encode({"code": 200, "headers": headers, "message": "OK", "data": data}).decode())


def _parse(message: dict[str, Any]) -> InboundMessage | None:
    key, chat = text_of(message, "msgId"), text_of(message, "conversationId")
    sender = text_of(message, "senderStaffId") or text_of(message, "senderId")
    if not (key and chat and sender) or text_of(message, "senderId") == text_of(message, "chatbotUserId"):
        return None
    is_group = text_of(message, "conversationType") == _GROUP
    if is_group and message.get("isInAtList") is False:
        return None
    robot, content = text_of(message, "robotCode"), message.get("content")
    items = content.get("richText") if isinstance(content, dict) else None
    parts = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else [content]
    texts = [text_of(message, "text", "content"), *(text_of(part, "text") for part in parts), text_of(content, "recognition")]
    codes = [(text_of(part, "downloadCode"), text_of(part, "fileName")) for part in parts]
    files = [_file(code, name, robot) for code, name in codes if code]
    reply = {
        "webhook": text_of(message, "sessionWebhook"),
        "until": text_of(message, "sessionWebhookExpiredTime") or "0",
        "robot": robot,
        "user": sender,
        **({"group": chat} if is_group else {}),
    }
    return InboundMessage(
        key=key,
        chat=chat,
        sender=ChatSender(id=sender, name=text_of(message, "senderNick")),
        text="\n".join(text.strip() for text in texts if text.strip()),
        files=tuple(files),
        is_group=is_group,
        reply=reply,
    )


def _file(code: str, name: str, robot: str) -> InboundFile:
    media_type = "application/octet-stream" if name else "image/png"
    return InboundFile(place={"code": code, "robot": robot}, media_type=media_type, name=name or "image.png")
