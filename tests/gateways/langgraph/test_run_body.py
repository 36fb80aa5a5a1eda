from typing import Any

import pytest

from agentvm.errors import InvalidInput, Unprocessable
from agentvm.gateways.langgraph.run_body import RunBody, RunConfig, read_content, read_input, read_modes, read_options
from agentvm.model.message import FilePart, ImagePart, TextPart


def test_only_what_the_thread_does_not_have_is_said() -> None:
    messages: list[Any] = [
        {"type": "system", "content": "Be kind"},
        {"type": "human", "content": "a", "id": "1"},
        {"type": "ai", "content": "b", "id": "2"},
        {"type": "human", "content": "c", "id": "3"},
        "d",
    ]
    said = read_input({"messages": messages}, {"1", "2"})
    assert (said.seeds, said.content, said.key, said.instructions) == ((), "c\n\nd", None, "Be kind")
    fresh = read_input({"messages": messages[:4]}, ())
    assert ([seed.role for seed in fresh.seeds], fresh.content, fresh.key) == (["user", "assistant"], "c", "3")


def test_pictures_and_files_are_read_in_every_spelling() -> None:
    blocks: list[Any] = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,AAAA"}},
        {"type": "image_url", "image_url": "https://x.example/a.png"},
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "file", "source_type": "base64", "mime_type": "a/b", "data": "AAAA", "metadata": {"filename": "f"}},
    ]
    assert read_content(blocks) == (
        TextPart(text="see"),
        ImagePart(data="AAAA", media_type="image/gif"),
        ImagePart(data="https://x.example/a.png", media_type="image/*"),
        ImagePart(data="AAAA", media_type="image/png"),
        FilePart(data="AAAA", media_type="a/b", filename="f"),
    )
    for wrong in ({"type": "image", "data": "é"}, {"type": "image", "data": "A"}):
        with pytest.raises(InvalidInput):
            read_content([wrong])
    with pytest.raises(Unprocessable):
        read_content([5])


def test_options_are_those_of_the_configuration() -> None:
    body = RunBody(
        assistant_id="a", config=RunConfig(configurable={"temperature": 1, "thread_id": "t"}), context={"max_tokens": 5}
    )
    options = read_options(body, None)
    assert options is not None
    assert (options.temperature, options.max_tokens) == (1, 5)
    assert read_options(RunBody(assistant_id="a"), None) is None
    assert read_modes(("values", "debug")) == {"values"}
    assert read_modes(None) == {"values"}
    for wrong in ("message", ("values", "zzz")):
        with pytest.raises(InvalidInput, match="stream_mode"):
            read_modes(wrong)
