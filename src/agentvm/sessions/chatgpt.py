"""ChatGPT — `conversations.json` of its data export: a tree of messages, and the node that was looked at last.

Each conversation has `title`, `create_time`, `update_time` (seconds), `mapping` (id to `{id, parent, children, message}`) and
`current_node`. A message has `author.role`, `create_time`, `recipient`, and a `content` whose `content_type` is `text`, `code`,
`multimodal_text`, `execution_output`, `thoughts` or a newer type. Files are not in it: only that there was one is known.
"""

from collections.abc import Iterator

from agentvm.sessions.foreign import (
    Conversation,
    Json,
    as_json,
    branch,
    conversations,
    dict_of,
    leaf,
    list_of,
    seconds,
    text_of,
    texts,
    thoughts,
)
from agentvm.sessions.line import Unfit


def parse(raw: object) -> Iterator[Conversation]:
    for entry in conversations(raw):
        mapping = entry.get("mapping")
        if not isinstance(mapping, dict):
            raise Unfit("there is no `mapping`: is it from ChatGPT?", "mapping")
        about = seconds(entry.get("create_time")), seconds(entry.get("update_time"))
        conversation = Conversation(
            text_of(entry.get("title")),
            *about,
            text_of(entry.get("conversation_id")) or text_of(entry.get("id")),
        )
        last = entry.get("current_node")
        for node in branch(mapping, last if isinstance(last, str) and last in mapping else leaf(mapping, "parent"), "parent"):
            if message := dict_of(node.get("message")):
                _add(conversation, message)
        yield conversation


def _add(conversation: Conversation, message: Json) -> None:
    if dict_of(message.get("metadata")).get("is_visually_hidden_from_conversation") is True:
        return
    content, at = dict_of(message.get("content")), seconds(message.get("create_time"))
    text = _text(content)
    match text_of(dict_of(message.get("author")).get("role")):
        case "user":
            conversation.user(texts(text), at)
        case "assistant" if (to := text_of(message.get("recipient"))) not in ("", "all"):
            conversation.call(to, as_json(text), at)
        case "assistant" if content.get("content_type") == "thoughts":
            thought_texts = (text_of(dict_of(thought).get("content")) for thought in list_of(content.get("thoughts")))
            conversation.assistant(thoughts("\n\n".join(thought_texts)), at)
        case "assistant":
            conversation.assistant(texts(text), at)
        case "tool":
            conversation.result(text, at)
        case _:
            # What the program tells its model is no part of what was said.
            return


def _text(content: Json) -> str:
    if "parts" not in content:
        return text_of(content.get("text")) or text_of(content.get("result"))
    parts = (part if isinstance(part, str) else _pointed(dict_of(part)) for part in list_of(content["parts"]))
    return "\n\n".join(part for part in parts if part)


def _pointed(part: Json) -> str:
    kind = text_of(part.get("content_type"))
    return text_of(part.get("text")) or (f"[{kind.removesuffix('_asset_pointer') or 'file'}]")
