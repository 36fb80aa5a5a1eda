import base64
from typing import Any

import msgspec

from agentvm.gateways.anthropic.message_body import MessagesBody, most_input, most_searches, rewritten

WINDOW = 1_000_000


def read(content: Any, **more: Any) -> tuple[MessagesBody, int]:
    raw = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": content}], **more})
    return msgspec.json.decode(raw, type=MessagesBody), len(raw)


def test_text_has_at_most_as_many_tokens_as_bytes() -> None:
    body, size = read("word " * 100)
    assert size < most_input(body, size, WINDOW) < size + 200


def test_pictures_count_as_such_wherever_they_stand_and_not_by_their_bytes() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "a" * 100_000}}
    small = {"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [picture, "text", None]}
    body, size = read([picture, result, small])
    assert 3 * 4_800 < most_input(body, size, WINDOW) < 3 * 4_800 + 1_000


def test_a_document_counts_by_its_pages_and_as_the_window_if_they_are_unknown() -> None:
    pdf = base64.b64encode(b"%PDF-1.4 /Type /Page /Type /Page").decode()
    known = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": pdf}}
    unknown = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    text = {"type": "document", "source": {"type": "text", "data": "words"}}
    assert 16_000 < most_input(*read([known, text]), WINDOW) < 17_000
    assert most_input(*read([unknown]), WINDOW) > WINDOW


def test_searches_of_the_provider_are_counted_by_their_bound() -> None:
    tools = [{"type": "web_search_20260209", "name": "web_search", "max_uses": 3}, {"name": "own", "input_schema": {}}]
    assert most_searches(read("x", tools=tools)[0]) == 3


def test_everything_but_the_names_of_model_and_user_stays_as_it_was() -> None:
    content = b'{"model":"a/b","unknown":[1.0,2e3,{"k":null}],"metadata":{"user_id":"x"}}'
    assert rewritten(content, "b", None) == content.replace(b'"a/b"', b'"b"')
    assert msgspec.json.decode(rewritten(content, "b", "u"))["metadata"] == {"user_id": "u"}
