"""Telegram — a bot over long polling, which needs no address of one's own, or over a webhook."""

import hmac
import html
import re
from typing import Annotated, Any, ClassVar

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
from agentvm.channels.calls import CALL_SECONDS, call_json, fetch_file, read_object, text_of
from agentvm.errors.channel import PlatformFailed, PlatformRefused
from agentvm.model.base import Record
from agentvm.model.channel import HookAnswer, PlatformHook

POLL_SECONDS = 50
UPDATES_MAX = 50
SECRET_HEADER = "x-telegram-bot-api-secret-token"
_ALLOWED = {"allowed_updates": ["message"]}

_CODE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)|`([^`\n]+)`", re.DOTALL)
_INLINE = (
    (re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*"), r"<b>\1</b>"),
    (re.compile(r"(?<![*\w])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![*\w])"), r"<i>\1</i>"),
    (re.compile(r"~~(?=\S)(.+?)(?<=\S)~~"), r"<s>\1</s>"),
    (re.compile(r"^#{1,6} +(.+)$", re.MULTILINE), r"<b>\1</b>"),
    (re.compile(r"\[([^\]\n]+)\]\((https?://[^\s()<>]+)\)"), r'<a href="\2">\1</a>'),
)


class TelegramSettings(Record):
    token: Annotated[str, secret("The token that @BotFather gave you.")]
    address: Annotated[str, setting("The address of the Bot API, if you run a server of your own.")] = (
        "https://api.telegram.org"
    )
    webhook_secret: (
        Annotated[str, secret("Makes Telegram call this server instead: any text of letters, digits, _ and -.")] | None
    ) = None


class Telegram(ChannelAdapter):
    """A bot. Messages of groups are heard when they name the bot or reply to it."""

    name: ClassVar[str] = "telegram"
    title: ClassVar[str] = "Telegram"
    description: ClassVar[str] = "A bot of Telegram, over long polling or a webhook."
    settings: ClassVar[type[Record]] = TelegramSettings
    text_max: ClassVar[int] = 4096
    update_seconds = 1.5

    def __init__(self, parts: AdapterParts) -> None:
        self._http, self._token = parts.http, parts.secrets["token"]
        self._address = parts.settings.address.rstrip("/")
        self._address_here, self._hook_secret = parts.hook, parts.secrets.get("webhookSecret")
        self._own_id, self._own_name = 0, ""

    @property
    def hook(self) -> str | None:
        return None if self._hook_secret is None else self._address_here

    @staticmethod
    def measure(text: str) -> int:
        """Telegram counts units of UTF-16."""
        return len(text.encode("utf-16-le", "surrogatepass")) // 2

    async def run(self, host: MessageListener) -> None:
        me = await self._call("getMe")
        self._own_id, self._own_name = int(me.get("id", 0)), str(me.get("username", "")).lower()
        if self._hook_secret is not None:
            if self.hook is not None:
                await self._call("setWebhook", {"url": self.hook, "secret_token": self._hook_secret, **_ALLOWED})
            await self.wait_for_hooks(host)
        # Nothing can be polled while a webhook is set.
        await self._call("deleteWebhook")
        host.connected()
        await self._poll(host)

    async def take_hook(self, hook: PlatformHook, host: MessageListener) -> HookAnswer | None:
        received, expected = hook.headers.get(SECRET_HEADER, ""), self._hook_secret
        if expected is None or not hmac.compare_digest(received.encode("utf-8", "surrogatepass"), expected.encode()):
            return None
        if (message := self._parse(read_object(hook.body) or {})) is not None:
            await host.receive(message)
        return HookAnswer()

    async def _poll(self, host: MessageListener) -> None:
        offset = 0
        while True:
            polled = await self._call(
                "getUpdates",
                {"offset": offset, "timeout": POLL_SECONDS, "limit": UPDATES_MAX, **_ALLOWED},
                timeout_seconds=POLL_SECONDS + CALL_SECONDS,
            )
            for update in polled if isinstance(polled, list) else ():
                if not isinstance(update, dict) or not isinstance(update.get("update_id"), int):
                    continue
                # The next poll confirms it: by then it is stored.
                if (message := self._parse(update)) is not None:
                    await host.receive(message)
                offset = max(offset, update["update_id"] + 1)

    def _parse(self, update: dict[str, Any]) -> InboundMessage | None:
        message = update.get("message")
        if not isinstance(message, dict):
            return None
        sender, chat, message_id = message.get("from"), message.get("chat"), text_of(message, "message_id")
        if not isinstance(sender, dict) or not isinstance(chat, dict) or sender.get("is_bot") or not message_id:
            return None
        chat_id, text = text_of(chat, "id"), text_of(message, "text") or text_of(message, "caption")
        is_group = chat.get("type") != "private"
        if is_group and not self._is_meant(message, text):
            return None
        if self._own_name:
            text = re.sub(rf"@{re.escape(self._own_name)}\b", "", text, flags=re.IGNORECASE).strip()
        name = " ".join(filter(None, (text_of(sender, "first_name"), text_of(sender, "last_name"))))
        return InboundMessage(
            key=f"{chat_id}:{message_id}",
            chat=chat_id,
            sender=ChatSender(id=text_of(sender, "id"), name=name),
            text=text,
            files=_files(message),
            is_group=is_group,
            reply={"chat": chat_id, **({"message": message_id} if is_group else {})},
        )

    def _is_meant(self, message: dict[str, Any], text: str) -> bool:
        answered = message.get("reply_to_message")
        if isinstance(answered, dict) and text_of(answered, "from", "id") == str(self._own_id):
            return True
        return bool(self._own_name) and f"@{self._own_name}" in text.lower()

    async def begin(self, reply: ChatReply) -> None:
        await self._call("sendChatAction", {"chat_id": int(reply.to["chat"]), "action": "typing"})

    async def write(self, reply: ChatReply, piece: Piece) -> None:
        name, body = f"m{piece.index}", {"chat_id": int(reply.to["chat"])}
        sent = reply.kept.get(name)
        if sent is not None:
            await self._send("editMessageText", {**body, "message_id": int(sent)}, piece.text)
            return
        answers = reply.to.get("message")
        if answers is not None and piece.index == 0:
            body["reply_parameters"] = {"message_id": int(answers), "allow_sending_without_reply": True}  # type: ignore[assignment]
        message = await self._send("sendMessage", body, piece.text)
        await reply.keep(**{name: text_of(message, "message_id")})

    async def _send(self, method: str, body: dict[str, Any], text: str) -> Any:
        try:
            return await self._call(method, {**body, "text": to_html(text), "parse_mode": "HTML"})
        except PlatformFailed as error:
            if "not modified" in str(error):
                return {}
            if not error.permanent or ("parse entities" not in str(error) and "too long" not in str(error)):
                raise
            return await self._call(method, {**body, "text": text})

    async def fetch(self, file: InboundFile) -> FetchedFile:
        about = await self._call("getFile", {"file_id": file.place["file"]})
        return await fetch_file(self._http, f"{self._address}/file/bot{self._token}/{text_of(about, 'file_path')}", file)

    async def _call(self, method: str, body: object = None, *, timeout_seconds: float = CALL_SECONDS) -> Any:
        url = f"{self._address}/bot{self._token}/{method}"
        status, reply = await call_json(self._http, "POST", url, body or {}, timeout_seconds=timeout_seconds)
        if reply.get("ok") is True:
            return reply.get("result")
        about = text_of(reply, "description") or f"status {status}"
        if status in (401, 404):
            raise PlatformRefused(
                f"Telegram does not accept the token: {about}", "Ask @BotFather for the token and store it: avm secret set"
            )
        if status == 409:
            raise PlatformFailed(f"Another program reads the messages of this bot: {about}")
        retry = reply.get("parameters", {}).get("retry_after") if isinstance(reply.get("parameters"), dict) else None
        seconds = float(retry) if isinstance(retry, int) else None
        raise PlatformFailed(f"Telegram: {about}", permanent=status in (400, 403), retry_seconds=seconds)


def _files(message: dict[str, Any]) -> tuple[InboundFile, ...]:
    photos, document = message.get("photo"), message.get("document")
    if isinstance(photos, list) and photos and (file_id := text_of(photos[-1], "file_id")):
        return (InboundFile(place={"file": file_id}, media_type="image/jpeg", name="photo.jpg"),)
    if isinstance(document, dict) and (file_id := text_of(document, "file_id")):
        kind = text_of(document, "mime_type") or "application/octet-stream"
        return (InboundFile(place={"file": file_id}, media_type=kind, name=text_of(document, "file_name") or None),)
    return ()


def to_html(text: str) -> str:
    """Returns Markdown as the HTML that Telegram reads. Unknown markup is kept unchanged."""
    shown, at = [], 0
    for code in _CODE.finditer(text):
        shown.append(_inline(text[at : code.start()]))
        block, inline = code.groups()
        shown.append(f"<code>{html.escape(inline)}</code>" if block is None else f"<pre>{html.escape(block)}</pre>")
        at = code.end()
    return "".join([*shown, _inline(text[at:])])


def _inline(text: str) -> str:
    text = html.escape(text)
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return text
