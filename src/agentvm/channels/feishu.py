"""Feishu — a bot of Feishu or Lark (飞书) over its long connection or by requests. Answers are cards that grow (CardKit)."""

import re
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Any, ClassVar
from urllib.parse import parse_qs, quote, urlsplit

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
from agentvm.channels.calls import AccessToken, call_json, fetch_file, open_socket, read_object, text_of
from agentvm.channels.feishu_frame import CONTROL_CODE, DATA_CODE, FeishuFrame, decode_frame, encode_frame
from agentvm.channels.feishu_hook import challenge_of, read_hook
from agentvm.errors.channel import PlatformFailed, PlatformRefused
from agentvm.model.base import Record
from agentvm.model.channel import HookAnswer, PlatformHook
from agentvm.operations.pages import is_number
from agentvm.runtime.tasks import open_tasks
from agentvm.sharing.cache import Cache

PING_SECONDS = 90.0
SEND_SECONDS = 10.0
PARTS_MAX = 64
"""Frames of one event that was too large for one."""
EVENT_MAX_BYTES = 4 * 1024 * 1024
"""Bytes of such an event; a larger one is not taken."""
SPLIT_EVENTS_MAX = 20
SPLIT_EVENTS_MS = 10_000
_BUSY = frozenset({1, 1000040345, 99991400, 230020})
"""Codes of a platform that is busy: to be tried again later."""
_TOKEN_OVER = frozenset({99991661, 99991663, 99991668})
_ELEMENT = "answer"
_AT = re.compile(r"@_user_\d+|@_all")


class FeishuSettings(Record):
    app_id: Annotated[str, setting("The App ID of the app that has the bot.")]
    app_secret: Annotated[str, secret("The App Secret of the app.")]
    address: Annotated[str, setting("https://open.feishu.cn, or https://open.larksuite.com for Lark.")] = (
        "https://open.feishu.cn"
    )
    encrypt_key: (
        Annotated[str, secret("Makes Feishu call this server instead: the Encrypt Key of the app's events.")] | None
    ) = None


class Feishu(ChannelAdapter):
    """A bot. Messages of groups are heard when they name the bot."""

    name: ClassVar[str] = "feishu"
    title: ClassVar[str] = "Feishu · 飞书"
    description: ClassVar[str] = "A bot of Feishu or Lark, over its long connection or requests."
    settings: ClassVar[type[Record]] = FeishuSettings
    text_max: ClassVar[int] = 20_000
    update_seconds = 0.5

    def __init__(self, parts: AdapterParts) -> None:
        self._http, self._clock, self._secret = parts.http, parts.clock, parts.secrets["appSecret"]
        self._app_id, self._address = parts.settings.app_id, parts.settings.address.rstrip("/")
        self._address_here, self._encrypt_key = parts.hook, parts.secrets.get("encryptKey")
        self._token = AccessToken(parts.clock, self._ask_token)
        self._own_id = ""
        self._split: Cache[str, list[bytes | None]] = Cache(SPLIT_EVENTS_MAX, age_ms=SPLIT_EVENTS_MS)
        self._sequences: Cache[str, int] = Cache(1_000)

    @property
    def hook(self) -> str | None:
        return None if self._encrypt_key is None else self._address_here

    async def run(self, host: MessageListener) -> None:
        if self._encrypt_key is not None:
            await self._learn_name()
            await self.wait_for_hooks(host)
        url = await self._endpoint()
        await self._learn_name()
        async with open_socket(self._http, url) as socket:
            host.connected()
            service = text_of({"id": (parse_qs(urlsplit(url).query).get("service_id") or [""])[0]}, "id")
            async with open_tasks() as tasks:
                tasks.start_soon(_ping, socket, int(service) if is_number(service) else 0)
                async for raw in socket:
                    frame = decode_frame(raw) if isinstance(raw, bytes) else None
                    if frame is not None and frame.method == DATA_CODE:
                        await self._receive(socket, frame, host)
                tasks.cancel_scope.cancel()

    async def take_hook(self, hook: PlatformHook, host: MessageListener) -> HookAnswer | None:
        event = None if self._encrypt_key is None else read_hook(hook, self._encrypt_key, self._clock() // 1000)
        if event is None:
            return None
        if challenge := challenge_of(event):
            return HookAnswer(content={"challenge": challenge})
        if (message := self._parse(event)) is not None:
            await host.receive(message)
        return HookAnswer()

    async def _learn_name(self) -> None:
        """Learns by which id people mean the bot."""
        self._own_id = text_of(await self._call("GET", "/open-apis/bot/v3/info"), "bot", "open_id")

    async def _endpoint(self) -> str:
        body = {"AppID": self._app_id, "AppSecret": self._secret}
        _, reply = await call_json(self._http, "POST", f"{self._address}/callback/ws/endpoint", body)
        code, url = reply.get("code"), text_of(reply, "data", "URL")
        if code == 0 and url:
            return url
        about = f"{text_of(reply, 'msg')} ({code})"
        if code in _BUSY:
            raise PlatformFailed(f"Feishu is busy: {about}")
        raise PlatformRefused(
            f"Feishu does not accept the app: {about}",
            "Compare App ID and App Secret with the app's page, choose the long connection for its events, and store the "
            "secret again: avm secret set",
        )

    async def _receive(self, socket: ClientConnection, frame: FeishuFrame, host: MessageListener) -> None:
        payload = self._combine(frame)
        if payload is None:
            return
        if frame.headers.get("type") == "event" and (message := self._parse(read_object(payload) or {})) is not None:
            await host.receive(message)
        await _send(socket, _acknowledged(frame))

    def _combine(self, frame: FeishuFrame) -> bytes | None:
        """Returns the payload of an event once all its frames are there."""
        total, number = frame.headers.get("sum", "1"), frame.headers.get("seq", "0")
        if not (is_number(total) and is_number(number)) or int(total) <= 1:
            return frame.payload
        if int(total) > PARTS_MAX or int(number) >= int(total):
            return None
        key, now = frame.headers.get("message_id", ""), self._clock()
        parts = self._split.get(key, now)
        if parts is None or len(parts) != int(total):
            parts = [None] * int(total)
            self._split.put(key, parts, now)
        parts[int(number)] = frame.payload
        if sum(len(part) for part in parts if part is not None) > EVENT_MAX_BYTES:
            self._split.drop(key)
            return None
        whole = [part for part in parts if part is not None]
        if len(whole) < len(parts):
            return None
        self._split.drop(key)
        return b"".join(whole)

    def _parse(self, event: dict[str, Any]) -> InboundMessage | None:
        if text_of(event, "header", "event_type") != "im.message.receive_v1":
            return None
        body = event.get("event")
        message = body.get("message") if isinstance(body, dict) else None
        sender = text_of(body, "sender", "sender_id", "open_id")
        key, chat = text_of(message, "message_id"), text_of(message, "chat_id")
        if not isinstance(message, dict) or not (key and chat and sender) or text_of(body, "sender", "sender_type") != "user":
            return None
        is_group = text_of(message, "chat_type") != "p2p"
        mentions = message.get("mentions")
        named = {text_of(mention, "id", "open_id") for mention in mentions} if isinstance(mentions, list) else set()
        if is_group and self._own_id not in named:
            return None
        content = read_object(text_of(message, "content")) or {}
        return InboundMessage(
            key=key,
            chat=chat,
            sender=ChatSender(id=sender),
            text=_AT.sub("", _text(content)).strip(),
            files=_files(content, key),
            is_group=is_group,
            reply={"message": key},
        )

    async def write(self, reply: ChatReply, piece: Piece) -> None:
        name = f"c{piece.index}"
        card = reply.kept.get(name)
        if card is None:
            card = await self._create_card(piece.text)
            await reply.keep(**{name: card})
        if reply.kept.get(f"{name}.sent") is None:
            await self._answer(reply, piece, {"type": "card", "data": {"card_id": card}})
            await reply.keep(**{f"{name}.sent": "1"})
        try:
            await self._update_card(card, piece)
        except PlatformFailed as error:
            if not (piece.is_final and error.permanent):
                raise
            # The card can no longer be written, as ten minutes after it was begun.
            await self._answer(reply, piece, _card(piece.text, is_streaming=False), "-late")

    async def _create_card(self, text: str) -> str:
        data = msgspec.json.encode(_card(text, is_streaming=True)).decode()
        reply = await self._call("POST", "/open-apis/cardkit/v1/cards", {"type": "card_json", "data": data})
        return text_of(reply, "data", "card_id")

    async def _answer(self, reply: ChatReply, piece: Piece, content: dict[str, Any], suffix: str = "") -> None:
        path = f"/open-apis/im/v1/messages/{quote(reply.to['message'], safe='')}/reply"
        # The same name again is no second message.
        name = sha256(f"{reply.key} {piece.index}{suffix}".encode()).hexdigest()[:40]
        text = msgspec.json.encode(content).decode()
        await self._call("POST", path, {"msg_type": "interactive", "content": text, "uuid": name})

    async def _update_card(self, card: str, piece: Piece) -> None:
        path = f"/open-apis/cardkit/v1/cards/{quote(card, safe='')}"
        body = {"content": piece.text, "sequence": self._sequence(card)}
        await self._call("PUT", f"{path}/elements/{_ELEMENT}/content", body)
        if piece.is_final:
            off = msgspec.json.encode({"config": {"streaming_mode": False}}).decode()
            await self._call("PATCH", f"{path}/settings", {"settings": off, "sequence": self._sequence(card)})

    def _sequence(self, card: str) -> int:
        """Returns a number that is larger than every one before it, also after a restart, and fits into 31 bits."""
        number = max(self._clock() // 100 % 2**30, (self._sequences.get(card) or 0) + 1)
        self._sequences.put(card, number)
        return number

    async def fetch(self, file: InboundFile) -> FetchedFile:
        place = file.place
        path = f"/open-apis/im/v1/messages/{quote(place['message'], safe='')}/resources/{quote(place['key'], safe='')}"
        headers = {"Authorization": f"Bearer {await self._token.get()}"}
        return await fetch_file(self._http, f"{self._address}{path}?type={place['type']}", file, headers)

    async def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {await self._token.get()}"}
        status, reply = await call_json(self._http, method, f"{self._address}{path}", body, headers=headers)
        code = reply.get("code")
        if code == 0:
            return reply
        if code in _TOKEN_OVER:
            self._token.drop()
        is_later = code in _BUSY or code in _TOKEN_OVER or status >= 500 or status == 429
        raise PlatformFailed(f"Feishu: {text_of(reply, 'msg')} ({code})", permanent=not is_later)

    async def _ask_token(self) -> tuple[str, int]:
        body = {"app_id": self._app_id, "app_secret": self._secret}
        url = f"{self._address}/open-apis/auth/v3/tenant_access_token/internal"
        _, reply = await call_json(self._http, "POST", url, body)
        seconds = reply.get("expire")
        if reply.get("code") != 0 or not isinstance(seconds, int):
            raise PlatformFailed(f"Feishu gives no access token: {text_of(reply, 'msg')}")
        return text_of(reply, "tenant_access_token"), seconds


async def _ping(socket: ClientConnection, service: int) -> None:
    while True:
        await _send(socket, FeishuFrame(service=service, method=CONTROL_CODE, headers={"type": "ping"}))
        await anyio.sleep(PING_SECONDS)


async def _send(socket: ClientConnection, frame: FeishuFrame) -> None:
    try:
        with anyio.fail_after(SEND_SECONDS):
            await socket.send(encode_frame(frame))
    except (TimeoutError, WebSocketException):
        raise PlatformFailed("The connection to Feishu is broken") from None


def _acknowledged(frame: FeishuFrame) -> FeishuFrame:
    return replace(frame, headers={**frame.headers, "biz_rt": "0"}, payload=b'{"code":200}')


def _text(content: dict[str, Any]) -> str:
    """Returns the words of a text or a post."""
    rows = content.get("content")
    words = [
        " ".join(
            text_of(part, "text") for part in row if isinstance(part, dict) and text_of(part, "tag") in ("text", "a", "md")
        )
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, list)
    ]
    return "\n".join(filter(None, (text_of(content, "text"), text_of(content, "title"), *words)))


def _files(content: dict[str, Any], message: str) -> tuple[InboundFile, ...]:
    if key := text_of(content, "image_key"):
        return (InboundFile(place={"message": message, "key": key, "type": "image"}, media_type="image/png", name="image.png"),)
    if key := text_of(content, "file_key"):
        place = {"message": message, "key": key, "type": "file"}
        return (InboundFile(place=place, name=text_of(content, "file_name") or "file"),)
    return ()


def _card(text: str, *, is_streaming: bool) -> dict[str, Any]:
    element = {"tag": "markdown", "element_id": _ELEMENT, "content": text}
    return {"schema": "2.0", "config": {"streaming_mode": is_streaming}, "body": {"elements": [element]}}
