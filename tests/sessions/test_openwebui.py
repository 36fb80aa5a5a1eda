"""The shape of Open WebUI's export, as its documentation and users have it: written here, of nobody's account."""

import pytest

from agentvm.model.message import AssistantMessage, ImagePart, TextPart, UserMessage
from agentvm.sessions.line import Unfit
from agentvm.sessions.openwebui import parse

MESSAGES = {
    "1": {
        "id": "1", "parentId": None, "childrenIds": ["2", "3"], "role": "user", "content": "看", "timestamp": 1_700_000_001,
        "files": [{"type": "image", "url": "data:image/png;base64,aGk="}, {"type": "file", "name": "a.pdf", "id": "f"}],
    },
    "2": {"id": "2", "parentId": "1", "childrenIds": [], "role": "assistant", "content": "first try", "timestamp": 2},
    "3": {"id": "3", "parentId": "1", "childrenIds": [], "role": "assistant", "content": "second try", "model": "m"},
}  # fmt: skip
CHAT = {
    "id": "c1",
    "user_id": "u",
    "title": "Look",
    "chat": {"title": "Look", "models": ["m"], "history": {"messages": MESSAGES, "currentId": "3"}, "messages": []},
    "created_at": 1_700_000_000,
    "updated_at": 1_700_000_009,
}


def test_the_branch_that_is_shown_comes_in_with_its_images() -> None:
    (made,) = parse([CHAT])
    assert (made.title, made.created_at, made.updated_at) == ("Look", 1_700_000_000_000, 1_700_000_009_000)
    asked, said = made.messages
    assert isinstance(asked, UserMessage)
    image = ImagePart(data="aGk=", media_type="image/png")
    assert asked.content == (TextPart(text="看"), image, TextPart(text="[a.pdf]"))
    assert isinstance(said, AssistantMessage)
    assert (said.text, said.timestamp) == ("second try", made.created_at)


def test_an_older_export_has_a_list() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "system", "content": "c"}]
    (made,) = parse({"chat": {"title": "Old", "messages": messages}})
    assert (made.title, len(made.messages)) == ("Old", 2)


def test_what_is_not_from_open_webui_is_refused() -> None:
    with pytest.raises(Unfit, match="is it from Open WebUI"):
        list(parse([{"mapping": {}}]))


def test_a_chat_that_does_not_say_what_is_shown_comes_in_all_the_same() -> None:
    (made,) = parse([{**CHAT, "chat": {"history": {"messages": MESSAGES, "currentId": None}}}])
    (whole,) = parse([CHAT])
    assert made.messages == whole.messages
