"""Requests of Feishu, made as its documentation has them: with a library of ours only for the cipher."""

import base64
import json
import time
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.fake_feishu import APP_ID, SECRET, feishu
from tests.channels.fixtures import office

from agentvm.channels.feishu_hook import WINDOW_SECONDS, read_hook
from agentvm.model.channel import PlatformHook

KEY, NOW = "encrypt key", 1_800_000_000
EVENT = {
    "schema": "2.0",
    "header": {"event_id": "e1", "event_type": "im.message.receive_v1"},
    "event": {
        "sender": {"sender_id": {"open_id": "ou_ann"}, "sender_type": "user"},
        "message": {"message_id": "om_1", "chat_id": "oc_1", "chat_type": "p2p", "content": json.dumps({"text": "by request"})},
    },
}
CHALLENGE = {"type": "url_verification", "challenge": "say this", "token": "t"}


def sealed(event: dict[str, Any], *, at: int, key: str = KEY, signed_with: str | None = None) -> tuple[dict[str, str], bytes]:
    """A request of the platform: headers and body."""
    nonce, plain = bytes(range(16)), json.dumps(event).encode()
    padding = 16 - len(plain) % 16
    locking = Cipher(algorithms.AES(sha256(key.encode()).digest()), modes.CBC(nonce)).encryptor()
    locked = nonce + locking.update(plain + bytes([padding]) * padding) + locking.finalize()
    body = json.dumps({"encrypt": base64.b64encode(locked).decode()}).encode()
    signature = sha256(f"{at}n0nce{signed_with or key}".encode() + body).hexdigest()
    names = {"x-lark-request-timestamp": str(at), "x-lark-request-nonce": "n0nce", "x-lark-signature": signature}
    return names, body


def read(headers: dict[str, str], body: bytes) -> dict[str, Any] | None:
    return read_hook(PlatformHook(headers=headers, body=body), KEY, NOW)


def test_a_signed_event_is_opened_and_the_question_about_the_address_needs_no_signature() -> None:
    assert read(*sealed(EVENT, at=NOW)) == EVENT
    assert read({}, sealed(CHALLENGE, at=NOW)[1]) == CHALLENGE


@pytest.mark.parametrize(
    "request_",
    [
        sealed(EVENT, at=NOW, key="another"),
        sealed(EVENT, at=NOW, signed_with="another"),
        sealed(EVENT, at=NOW - WINDOW_SECONDS - 1),
        sealed(EVENT, at=NOW + WINDOW_SECONDS + 1),
        ({}, sealed(EVENT, at=NOW)[1]),
        ({**sealed(EVENT, at=NOW)[0], "x-lark-request-timestamp": "9" * 400}, sealed(EVENT, at=NOW)[1]),
        ({**sealed(EVENT, at=NOW)[0], "x-lark-signature": "é"}, sealed(EVENT, at=NOW)[1]),
        (sealed(EVENT, at=NOW)[0], json.dumps(EVENT).encode()),
        ({}, json.dumps(CHALLENGE).encode()),
        ({}, '{"encrypt": "中"}'.encode()),
        ({}, b'{"encrypt": "\xff"}'),
        ({}, b'{"encrypt": ' + b"[" * 100_000),
    ],
)
def test_a_request_that_is_forged_old_or_of_a_wrong_clock_is_none(request_: tuple[dict[str, str], bytes]) -> None:
    assert read(*request_) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_no_event(locked: bytes) -> None:
    assert read({}, locked) is None
    assert read({}, json.dumps({"encrypt": base64.b64encode(locked).decode()}).encode()) is None


async def test_messages_come_by_requests_where_an_encrypt_key_is_given() -> None:
    async with feishu() as fake, office(public_url="https://agents.example") as desk:
        about = {"appId": APP_ID, "address": fake.url}
        await desk.connect("feishu", {"appSecret": SECRET, "encryptKey": KEY}, about)
        await desk.until(lambda channel: channel["status"]["state"] == "connected")
        asked = await desk.hook(*sealed(CHALLENGE, at=0))
        assert asked.json() == {"challenge": "say this"}
        now = int(time.time())
        refused = [await desk.hook(*request) for request in (sealed(EVENT, at=now - 3_600), sealed(EVENT, at=now, key="wrong"))]
        assert [(reply.status_code, reply.json()["error"]["code"]) for reply in refused] == [(404, "not_found")] * 2
        assert not fake.replies
        for _ in range(2):
            assert (await desk.hook(*sealed(EVENT, at=now))).status_code == 200
        await fake.shown("by request")
        assert len(fake.replies) == 1
