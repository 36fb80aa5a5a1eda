"""Open WebUI — its export of chats: a tree of messages for each chat, and the message that was looked at last.

Each item has `title`, `created_at`, `updated_at` (seconds) and `chat`; that has `history.messages` (id to `{id, parentId, role,
content, timestamp, files}`) and `history.currentId`. Older ones only have the list `chat.messages`. Images are `data:` URIs.
"""

from collections.abc import Iterator

from agentvm.model.message import ImagePart, TextPart, UserPart
from agentvm.sessions.foreign import (
    Conversation,
    Json,
    branch,
    conversations,
    data_uri,
    dict_of,
    leaf,
    list_of,
    seconds,
    text_of,
    texts,
)
from agentvm.sessions.line import Unfit


def parse(raw: object) -> Iterator[Conversation]:
    for entry in conversations(raw):
        chat = entry.get("chat")
        if not isinstance(chat, dict):
            raise Unfit("there is no `chat`: is it from Open WebUI?", "chat")
        title = text_of(entry.get("title")) or text_of(chat.get("title"))
        about = (
            seconds(entry.get("created_at")),
            seconds(entry.get("updated_at")),
            text_of(entry.get("id")),
        )
        conversation = Conversation(title, *about)
        history = dict_of(chat.get("history"))
        nodes, listed = dict_of(history.get("messages")), [dict_of(message) for message in list_of(chat.get("messages"))]
        shown = branch(nodes, history.get("currentId"), "parentId")
        for message in shown or listed or branch(nodes, leaf(nodes, "parentId"), "parentId"):
            at = seconds(message.get("timestamp"))
            match message.get("role"):
                case "user":
                    conversation.user(_parts(message), at)
                case "assistant":
                    conversation.assistant(texts(text_of(message.get("content"))), at)
                case _:
                    pass
        yield conversation


def _parts(message: Json) -> Iterator[UserPart]:
    yield from texts(text_of(message.get("content")))
    for file in map(dict_of, list_of(message.get("files"))):
        name = text_of(file.get("name")) or None
        if (picture := data_uri(text_of(file.get("url")))) is not None and picture[0].startswith("image/"):
            yield ImagePart(data=picture[1], media_type=picture[0], name=name)
        else:
            yield TextPart(text=f"[{name or text_of(file.get('type')) or 'file'}]")
