"""WeCom — an AI bot of WeCom (企业微信) over its long connection: JSON frames on one WebSocket.

An answer is a stream of the platform: each frame has the whole text so far, and is acknowledged before the next. When its time
is over, or the connection is another, the answer is sent as a message of its own.
"""

import base64
import hashlib
import itertools
from typing import Annotated, Any, ClassVar

import anyio
import msgspec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import WebSocketException

from agentvm.channels.base import (
    UNKNOWN_TYPE,
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
from agentvm.channels.calls import download, open_socket, read_object, text_of
from agentvm.errors.channel import PlatformFailed, PlatformRefused
from agentvm.model.base import Record
from agentvm.runtime.tasks import open_tasks

PING_SECONDS = 30.0
SILENCE_SECONDS = 75.0
"""A connection on which nothing was received for this long is dead: pings are answered."""
ACK_SECONDS = 10.0
SUBSCRIBE, PING, RESPOND, SEND = "aibot_subscribe", "ping", "aibot_respond_msg", "aibot_send_msg"
_STREAM_OVER = frozenset({846605, 846608})
"""The message can no longer be answered in place: unknown on this connection, or its stream has expired."""
_BUSY = frozenset({846607, -1})
"""Too many frames, or a failure of the platform: to be sent again later."""


class WeComSettings(Record):
    bot_id: Annotated[str, setting("The bot's ID, from its page in the admin console of WeCom.")]
    secret: Annotated[str, secret("The bot's secret for the long connection.")]
    address: Annotated[str, setting("The address of the long connection.")] = "wss://openws.work.weixin.qq.com"


class WeCom(ChannelAdapter):
    """An AI bot. WeCom passes on messages of groups only when they name the bot."""

    name: ClassVar[str] = "wecom"
    title: ClassVar[str] = "WeCom · 企业微信"
    description: ClassVar[str] = "An AI bot of WeCom, over its long connection."
    settings: ClassVar[type[Record]] = WeComSettings
    text_max: ClassVar[int] = 20_000
    update_seconds = 0.5

    def __init__(self, parts: AdapterParts) -> None:
        self._http, self._settings, self._secret = parts.http, parts.settings, parts.secrets["secret"]
        self._socket: ClientConnection | None = None
        self._acks: dict[str, anyio.Event] = {}
        self._replies: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(parts.clock())

    async def run(self, host: MessageListener) -> None:
        async with open_socket(self._http, self._settings.address) as socket:
            self._socket = socket
            try:
                await self._subscribe(socket)
                host.connected()
                async with open_tasks() as tasks:
                    tasks.start_soon(self._ping, socket)
                    await self._read(socket, host)
            finally:
                self._socket = None

    async def _subscribe(self, socket: ClientConnection) -> None:
        body = {"bot_id": self._settings.bot_id, "secret": self._secret}
        req_id = await self._post(socket, SUBSCRIBE, self._req_id(SUBSCRIBE), body)
        with anyio.move_on_after(ACK_SECONDS):
            while True:
                frame = read_object(await socket.recv())
                if frame is not None and text_of(frame, "headers", "req_id") == req_id:
                    if frame.get("errcode") == 0:
                        return
                    raise PlatformRefused(
                        f"WeCom does not accept the bot: {text_of(frame, 'errmsg')} ({text_of(frame, 'errcode')})",
                        "Compare bot ID and secret with the bot's page in the admin console, and store the secret again: "
                        "avm secret set",
                    )
        raise PlatformFailed("WeCom did not answer the subscription")

    async def _read(self, socket: ClientConnection, host: MessageListener) -> None:
        while True:
            try:
                with anyio.fail_after(SILENCE_SECONDS):
                    frame = read_object(await socket.recv())
            except TimeoutError:
                raise PlatformFailed("WeCom has been silent for too long") from None
            if frame is None:
                continue
            match frame:
                case {"cmd": "aibot_msg_callback"}:
                    if (message := _parse(frame)) is not None:
                        await host.receive(message)
                case {"cmd": "aibot_event_callback"} if text_of(frame, "body", "event", "eventtype") == "disconnected_event":
                    raise PlatformRefused(
                        "Another program has connected as this bot",
                        "Stop the other program, then disable and enable the channel",
                    )
                case {"headers": {"req_id": str(req_id)}} if req_id in self._acks:
                    self._replies[req_id] = frame
                    self._acks[req_id].set()
                case _:
                    pass  # A pong, or a frame that this adapter does not know.

    async def _ping(self, socket: ClientConnection) -> None:
        while True:
            await anyio.sleep(PING_SECONDS)
            await self._post(socket, PING, self._req_id(PING))

    async def begin(self, reply: ChatReply) -> None:
        # Shown as "thinking" until the first words are there.
        await self.write(reply, Piece(0, "…", is_final=False))

    async def write(self, reply: ChatReply, piece: Piece) -> None:
        if piece.index == 0 and not reply.kept.get("over"):
            stream = {"id": _stream_id(reply.key), "finish": piece.is_final, "content": piece.text}
            error = await self._exchange(RESPOND, reply.to["req_id"], {"msgtype": "stream", "stream": stream})
            if error == 0:
                return
            if error not in _STREAM_OVER:
                raise PlatformFailed(f"WeCom did not take the answer: error {error}", permanent=error not in _BUSY)
            await reply.keep(over="1")
        if piece.is_final:
            markdown = {"chatid": reply.to["chat"], "msgtype": "markdown", "markdown": {"content": piece.text}}
            error = await self._exchange(SEND, self._req_id(SEND), markdown)
            if error != 0:
                raise PlatformFailed(f"WeCom did not take the message: error {error}", permanent=error not in _BUSY)

    async def _exchange(self, cmd: str, req_id: str, body: dict[str, Any]) -> int:
        """Sends a frame and waits until it is acknowledged; returns the code of the error, 0 for none."""
        socket = self._socket
        if socket is None:
            raise PlatformFailed("WeCom is not connected")
        self._acks[req_id] = acknowledged = anyio.Event()
        try:
            await self._post(socket, cmd, req_id, body)
            with anyio.move_on_after(ACK_SECONDS):
                await acknowledged.wait()
            frame = self._replies.pop(req_id, None)
        finally:
            self._acks.pop(req_id, None)
        if frame is None:
            raise PlatformFailed("WeCom did not acknowledge the answer")
        code = frame.get("errcode")
        return code if isinstance(code, int) else -1

    async def _post(self, socket: ClientConnection, cmd: str, req_id: str, body: dict[str, Any] | None = None) -> str:
        frame = {"cmd": cmd, "headers": {"req_id": req_id}, **({} if body is None else {"body": body})}
        try:
            with anyio.fail_after(ACK_SECONDS):
                await socket.send(json_text(frame))
        except (TimeoutError, WebSocketException):
            raise PlatformFailed("The connection to WeCom is broken") from None
        return req_id

    def _req_id(self, cmd: str) -> str:
        return f"{cmd}_{next(self._numbers)}"

    async def fetch(self, file: InboundFile) -> FetchedFile:
        content, media_type = await download(self._http, file.place["url"])
        if key := file.place.get("key"):
            content = decrypt(content, key)
        kind = sniffed(content) or (media_type if media_type != UNKNOWN_TYPE else file.media_type)
        return FetchedFile(content=content, media_type=kind, name=file.name)


def json_text(frame: dict[str, Any]) -> str:
    return msgspec.json.encode(frame).decode()


def _stream_id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _parse(frame: dict[str, Any]) -> InboundMessage | None:
    body, req_id = frame.get("body"), text_of(frame, "headers", "req_id")
    key, sender = text_of(body, "msgid"), text_of(body, "from", "userid")
    if not isinstance(body, dict) or not (key and sender and req_id):
        return None
    is_group = text_of(body, "chattype") == "group"
    chat = text_of(body, "chatid") if is_group else sender
    if not chat or sender == text_of(body, "aibotid"):
        return None
    kind, parts = text_of(body, "msgtype"), [body]
    if kind == "mixed":
        items = body.get("mixed", {}).get("msg_item") if isinstance(body.get("mixed"), dict) else None
        parts = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    texts = [text for part in parts if (text := text_of(part, "text", "content") or text_of(part, "voice", "content"))]
    files = [file for part in parts for name in ("image", "file") if (file := _file(part.get(name), name)) is not None]
    text = "\n".join(texts).strip()
    if is_group and text.startswith("@"):
        # The name of the bot, as it was typed.
        text = text.partition(" ")[2].strip()
    reply = {"req_id": req_id, "chat": chat}
    return InboundMessage(
        key=key, chat=chat, sender=ChatSender(id=sender), text=text, files=tuple(files), is_group=is_group, reply=reply
    )


def _file(about: object, kind: str) -> InboundFile | None:
    url = text_of(about, "url")
    if not url:
        return None
    media_type = "image/jpeg" if kind == "image" else "application/octet-stream"
    name = text_of(about, "filename") or ("image.jpg" if kind == "image" else "file")
    return InboundFile(place={"url": url, "key": text_of(about, "aeskey")}, media_type=media_type, name=name)


def decrypt(content: bytes, key_text: str) -> bytes:
    """Opens a file of a message: AES-256-CBC, the key's beginning is the nonce, padded to 32 bytes."""
    try:
        key = base64.b64decode(key_text + "=" * (-len(key_text) % 4))
        opened = Cipher(algorithms.AES(key), modes.CBC(key[:16])).decryptor()
        plain = opened.update(content) + opened.finalize()
    except ValueError:
        raise PlatformFailed("A file of WeCom cannot be decrypted", permanent=True) from None
    padding = plain[-1] if plain else 0
    if not 1 <= padding <= 32 or plain[-padding:] != bytes([padding]) * padding:
        raise PlatformFailed("A file of WeCom cannot be decrypted", permanent=True)
    return plain[:-padding]


_SIGNATURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"%PDF": "application/pdf"}


def sniffed(content: bytes) -> str | None:
    """Returns the media type that the first bytes show; platforms often name none."""
    return next((kind for mark, kind in _SIGNATURES.items() if content.startswith(mark)), None)
