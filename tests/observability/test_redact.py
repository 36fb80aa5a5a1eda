import time

import pytest

from agentvm.model.secret import Secret
from agentvm.observability.redact import TEXT_CHARACTERS_MAX, Redactor


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key avm_abcdefghijkl_" + "s" * 32 + "_123456 is old", "key *** is old"),
        ("ticket avmws_" + "t" * 32, "ticket ***"),
        ("Authorization: Bearer anything.at-all", "Authorization: ***"),
        ("GET /v1/logs?text=hello", "GET /v1/logs"),
        ("http://me:pass@host/x?y=z", "http://***@host/x"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_credentials_and_queries_are_taken_out_of_texts(text: str, clean: str) -> None:
    assert Redactor().clean_all({"said": text, "deep": [{"said": (text,)}]}) == {"said": clean, "deep": [{"said": [clean]}]}


def test_named_secrets_are_taken_out_and_an_empty_one_changes_nothing() -> None:
    redactor = Redactor([Secret("abc-secret"), Secret(""), None])
    assert redactor(None, "info", {"said": "abc-secret!", "api_key": "x", "count": 3}) == {
        "said": "***!",
        "api_key": "***",
        "count": 3,
    }


@pytest.mark.parametrize("text", ["x", "a://", "/a", " /a?", "a@", "bearer ", "avm_"])
def test_no_text_keeps_the_redactor_busy(text: str) -> None:
    began = time.process_time()
    Redactor([Secret("sk-hidden")]).clean_all({"said": text * 20_000})
    assert time.process_time() - began < 5


@pytest.mark.parametrize("shift", range(0, 60, 3))
def test_a_long_text_is_cut_and_no_half_of_a_secret_is_left_at_the_cut(shift: int) -> None:
    text = (
        "x" * (TEXT_CHARACTERS_MAX - shift) + "my-planted-secret avm_abcdefghijkl_" + "s" * 32 + "_123456 " + "y" * 10_000_000
    )
    began = time.process_time()
    clean = str(Redactor([Secret("my-planted-secret")]).clean_all({"said": text})["said"])
    assert time.process_time() - began < 1
    assert len(clean) <= TEXT_CHARACTERS_MAX + 1
    assert clean.endswith("…")
    assert "planted" not in clean
    assert "sss" not in clean
