"""Claude — `conversations.json` of its data export: a list of messages for each conversation.

Each conversation has `name`, `created_at`, `updated_at` (ISO) and `chat_messages`: `sender` (`human` or not), `created_at`,
`text`, and in newer exports `content`, a list of parts of type `text`, `thinking`, `tool_use` and `tool_result`. `attachments`
have their text as `extracted_content`; of `files` only the name is there.
"""

from collections.abc import Iterator

from agentvm.model.message import TextPart, UserPart
from agentvm.sessions.foreign import Conversation, Json, conversations, dict_of, iso, list_of, text_of, texts, thoughts
from agentvm.sessions.line import Unfit


def parse(raw: object) -> Iterator[Conversation]:
    for entry in conversations(raw):
        if not isinstance(entry.get("chat_messages"), list):
            raise Unfit("there are no `chat_messages`: is it from Claude?", "chat_messages")
        about = iso(entry.get("created_at")), iso(entry.get("updated_at")), text_of(entry.get("uuid"))
        conversation = Conversation(text_of(entry.get("name")), *about)
        for message in map(dict_of, entry["chat_messages"]):
            at = iso(message.get("created_at"))
            match message.get("sender"):
                case "human":
                    conversation.user(_human(message), at)
                case "assistant":
                    _assistant(conversation, message, at)
                case _:
                    pass
        yield conversation


def _human(message: Json) -> Iterator[UserPart]:
    parts = [text_of(part.get("text")) for part in map(dict_of, list_of(message.get("content"))) if part.get("type") == "text"]
    yield from texts(*(parts or [text_of(message.get("text"))]))
    for attached in map(dict_of, list_of(message.get("attachments"))):
        name = text_of(attached.get("file_name")) or "attachment"
        yield TextPart(text=f"[{name}]\n{text_of(attached.get('extracted_content'))}".strip())
    for file in map(dict_of, list_of(message.get("files"))):
        yield TextPart(text=f"[{text_of(file.get('file_name')) or 'file'}]")


def _assistant(conversation: Conversation, message: Json, at: int) -> None:
    parts = [dict_of(part) for part in list_of(message.get("content"))]
    if not parts:
        conversation.assistant(texts(text_of(message.get("text"))), at)
    for part in parts:
        match part.get("type"):
            case "text":
                conversation.assistant(texts(text_of(part.get("text"))), at)
            case "thinking":
                conversation.assistant(thoughts(text_of(part.get("thinking"))), at)
            case "tool_use":
                conversation.call(text_of(part.get("name")) or "tool", dict_of(part.get("input")), at)
            case "tool_result":
                conversation.result(_result(part.get("content")), at, failed=part.get("is_error") is True)
            case _:
                pass


def _result(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text_of(part.get("text")) for part in map(dict_of, list_of(content)))
