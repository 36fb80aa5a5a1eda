import pytest

from agentvm.errors import InvalidInput
from agentvm.gateways.a2a.errors import CallRefused
from agentvm.gateways.a2a.messages import A2aMessage, A2aSendParams, content_of, context_of
from agentvm.model.message import ImagePart, TextPart


def said(**message: object) -> A2aSendParams:
    params = {"message": {"messageId": "m", "role": "ROLE_USER", **message}, "later": "ignored"}
    return A2aMessage(jsonrpc="2.0", method="SendMessage", params=params).read(A2aSendParams)


def test_parts_become_a_text_or_a_message_with_files() -> None:
    assert content_of(said(parts=[{"text": "a"}, {"data": {"b": 1}}]).message) == 'a\n{"b":1}'
    picture = {"raw": "aGk=", "mediaType": "image/png", "filename": "x.png"}
    assert content_of(said(parts=[{"text": "see"}, picture]).message) == (
        TextPart(text="see"),
        ImagePart(data="aGk=", media_type="image/png", name="x.png"),
    )
    with pytest.raises(CallRefused):
        content_of(said(parts=[{"url": "https://a.example/"}]).message)
    wrongs: list[dict[str, object]] = [{"parts": []}, {"parts": [{"text": "x"}], "role": "ROLE_AGENT"}]
    # Bytes are bytes: neither an address nor somebody's attachment.
    wrongs += [{"parts": [{"raw": raw}]} for raw in ("&", "aGk", "https://a.example/", f"attachment:sha256:{'0' * 64}")]
    for wrong in wrongs:
        with pytest.raises(InvalidInput):
            content_of(said(**wrong).message)


def test_a_message_without_a_context_begins_the_same_one_if_it_is_repeated() -> None:
    parts = [{"text": "x"}]
    assert context_of(said(parts=parts, contextId="mine").message) == "mine"
    first = context_of(said(parts=parts).message)
    assert first == context_of(said(parts=parts).message) != context_of(said(parts=parts, messageId="n").message)
    with pytest.raises(InvalidInput):
        context_of(said(parts=parts, contextId="x" * 300).message)
    for message_id in ("", "x" * 201):
        with pytest.raises(InvalidInput, match="messageId"):
            said(parts=parts, messageId=message_id)
