"""Message delivery — one message of a chat, from its row to the agent, and the answer back to the chat.

Every step is stored before the next: a delivery that is cut off, by a lost connection or a killed server, begins again from its
row. The turn is found again by the key of the message, and pieces of the answer that were sent are not sent again.
"""

import io
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from agentvm.channels.answer import Answer, split
from agentvm.channels.base import ChannelAdapter, ChatReply, InboundFile, InboundMessage, Piece
from agentvm.errors import AgentNotFound, AgentVMError, NotFound, ShuttingDown, StoreFailed
from agentvm.errors.channel import PlatformFailed
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.turn_parts import PartReader
from agentvm.gateways.words import Words, answer_word, error_text, words_for
from agentvm.log import get_logger
from agentvm.model.channel import ChannelMessage, ChatChannel
from agentvm.model.message import FilePart, ImagePart, TextPart, UserContent, UserPart
from agentvm.model.session import EXTERNAL_MAX, Alias, Session
from agentvm.operations.agent import AgentInterrupt
from agentvm.operations.attachment import AttachmentUpload
from agentvm.operations.attachment import operation as attachments
from agentvm.operations.context import HttpDetails
from agentvm.operations.gate import execute
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.text_answer import answer_open_question, answer_open_waits, parse_answer
from agentvm.protocol.records import AttachmentRecord
from agentvm.runtime.tasks import open_tasks
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.storage.sql.accounts.channels import ChannelStore

logger = get_logger(__name__)

GATEWAY = "channel"
"""The gateway of the aliases that lead from chats to sessions."""
_UPLOAD = next(row for row in attachments.rows if row.request is AttachmentUpload)
_BASE = "base"
_decode = msgspec.json.Decoder(InboundMessage).decode


class MessageDelivery:
    """The way of one message. `parked` is called with whether the turn waits for an answer, which takes as long as it takes."""

    def __init__(
        self,
        *,
        channel: ChatChannel,
        message: ChannelMessage,
        adapter: ChannelAdapter,
        store: ChannelStore,
        talk: Talk,
        chats: KeyedLock[str],
        parked: Callable[[bool], None] = lambda waits: None,
    ) -> None:
        self.message = message
        self._channel, self._adapter, self._store, self._talk = channel, adapter, store, talk
        self._chats, self._parked = chats, parked
        self._message = _decode(message.body or b"{}")
        self._words: Words = words_for(self._message.text)
        self._kept = dict(message.kept)
        self._reply = ChatReply(message.message_key, self._message.reply, self._kept, self._save_kept)
        self._changed = anyio.Event()
        self._answer = Answer(self._words)
        self._cursor = message.cursor

    async def run(self) -> None:
        """Returns when the answer has been delivered; `PlatformFailed` when the platform did not take it."""
        if self.message.answer is None and self.message.turn_id is None:
            async with self._chats.hold(self._message.chat):
                await self._begin()
        if self.message.answer is not None:
            await self._write_all(self.message.answer, is_over=True)
        elif self.message.turn_id is not None:
            await self._follow()

    async def save(self, **changes: Any) -> None:
        self.message = msgspec.structs.replace(self.message, **changes)
        await self._store.save(self.message)

    async def _save_kept(self) -> None:
        await self.save(kept=dict(self._kept))

    # From the chat to the agent

    async def _begin(self) -> None:
        try:
            await self._execute()
        except (PlatformFailed, ShuttingDown, StoreFailed):
            raise
        except AgentVMError as error:
            # The sender learns why: nobody else would.
            logger.info("channel_message_refused", channel=self._channel.name, code=error.code)
            await self.save(answer=error_text(self._words, error))

    async def _execute(self) -> None:
        container_id, alias = self.message.container_id, self._alias()
        match self._message.text.strip().lower():
            case "/help" | "/start":
                await self.save(answer=self._words.help)
            case "/new":
                await self._talk.aliases(container_id).take(alias)
                await self.save(answer=self._words.begun)
            case "/stop":
                await self._stop(alias)
            case _:
                image = await self._talk.agent(self._channel.agent, container_id)
                await self._send(await self._talk.open(image.image_id, alias))

    def _alias(self) -> Alias:
        # With another agent a chat begins anew.
        return Alias(GATEWAY, f"{self._message.chat} {self._channel.agent}"[:EXTERNAL_MAX])

    async def _stop(self, alias: Alias) -> None:
        session_id = await self._talk.aliases(self.message.container_id).find(alias)
        if session_id is not None:
            try:
                await self._talk.ask(AgentInterrupt(session_id=session_id))
            except AgentNotFound:
                pass  # Nothing runs.
        await self.save(answer=self._words.stopped)

    async def _send(self, session: Session) -> None:
        key = f"channel:{self._channel.channel_id}:{self.message.message_key}"[:200]
        if not self._message.files and await self._answer_wait(session, key):
            # The turn continues, and so does the delivery of the message that began it.
            return
        content = await self._content()
        await self._adapter.begin(self._reply)
        sent = await self._talk.send(session.session_id, content, key=key)
        await self.save(session_id=sent.session_id, turn_id=sent.turn_id, cursor=sent.cursor)

    async def _answer_wait(self, session: Session, key: str) -> bool:
        """Answers the oldest waiting call of the chat, once even if the message is repeated; False if there is none."""
        text, place = self._message.text, (session.container_id, session.session_id)
        words, turn_id = parse_answer(answer_word(text) or ""), None
        with self._talk.context() as context:
            if words is not None:
                turn_id = await answer_open_waits(context, *place, words, key)
            if turn_id is None:
                turn_id = await answer_open_question(context, *place, text, key)
            context.finish()
        return turn_id is not None

    async def _content(self) -> UserContent:
        message = self._message
        text = f"{message.sender.name or message.sender.id}: {message.text}" if message.is_group else message.text
        if not message.files:
            return text
        parts: list[UserPart] = [TextPart(text=text)] if text.strip() else []
        for file in message.files:
            parts.append(await self._attach(file))
        return tuple(parts)

    async def _attach(self, file: InboundFile) -> UserPart:
        try:
            fetched = await self._adapter.fetch(file)
        except PlatformFailed as error:
            return TextPart(text=self._words.no_file.format(error=error))
        with self._talk.context() as context:
            context.http = HttpDetails(file=io.BytesIO(fetched.content), content_type=fetched.media_type)
            upload = AttachmentUpload(container_id=self.message.container_id, name=fetched.name)
            reply = await execute(_UPLOAD, context, upload)
            record = reply.content if isinstance(reply, HttpReply) else reply
        assert isinstance(record, AttachmentRecord)
        reference = record.attachment
        if fetched.media_type.startswith("image/"):
            return ImagePart(data=reference, media_type=fetched.media_type, name=fetched.name)
        return FilePart(data=reference, media_type=fetched.media_type, filename=fetched.name)

    # From the agent to the chat

    async def _follow(self) -> None:
        turn = await self._talk.turn(self.message.turn_id or "")
        sent = SentTurn(turn, self.message.cursor or 0)
        async with open_tasks() as tasks:
            tasks.start_soon(self._read, sent)
            while True:
                await self._stream()
                await self._write_all(self._answer.text, is_over=True)
                if self._answer.state == "ended":
                    break
                await self._park()
            tasks.cancel_scope.cancel()

    async def _read(self, sent: SentTurn) -> None:
        """Reads the events of the turn into the present answer."""
        reader = PartReader()
        try:
            with self._talk.follow(sent) as follower:
                while events := await follower.take():
                    for event in events:
                        for part in reader.read(event):
                            while self._answer.state == "waits":
                                await self._wait()
                            self._answer.add(part)
                            self._cursor = event.seq
                            self._change()
        except NotFound:
            self._answer.text += self._words.lost
        self._answer.finish()
        self._change()

    async def _stream(self) -> None:
        """Shows the answer as it grows, until it is over or waits for an answer."""
        seconds, shown = self._adapter.update_seconds, ""
        while self._answer.is_open():
            if seconds is None or self._answer.text.strip() == shown:
                await self._wait()
                continue
            shown = self._answer.text.strip()
            try:
                await self._write_all(self._answer.text, is_over=False)
            except PlatformFailed as error:
                # Only a glimpse was lost; the finished piece counts.
                logger.debug("channel_glimpse_lost", channel=self._channel.name, error=str(error))
            with anyio.move_on_after(seconds):
                while self._answer.is_open():
                    await self._wait()

    async def _park(self) -> None:
        """The next words are another message of the chat, from this place of the turn on."""
        self._kept.clear()
        self._kept[_BASE] = str(self.message.sent_pieces)
        await self.save(cursor=self._cursor, kept=dict(self._kept))
        self._answer = Answer(self._words)
        self._change()
        self._parked(True)
        while self._answer.is_open() and not self._answer.text:
            await self._wait()
        self._parked(False)

    async def _write_all(self, text: str, *, is_over: bool) -> None:
        if not text.strip():
            return
        base = int(self._kept.get(_BASE, "0"))
        pieces = split(text, self._adapter.text_max, self._adapter.measure)
        for number, piece in enumerate(pieces):
            index = base + number
            is_final = is_over or number < len(pieces) - 1
            if index < self.message.sent_pieces or not (is_final or self._adapter.update_seconds is not None):
                continue
            await self._adapter.write(self._reply, Piece(index, piece, is_final))
            if is_final:
                await self.save(sent_pieces=index + 1, kept=dict(self._kept))

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _wait(self) -> None:
        await self._changed.wait()
