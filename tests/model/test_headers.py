import pytest

from agentvm.model.headers import parse_headers


def test_headers_are_read_as_opentelemetry_writes_them() -> None:
    text = "Authorization=Bearer%20abc, x-team = a%2Cb,,x-empty="
    assert parse_headers(text) == {"authorization": "Bearer abc", "x-team": "a,b", "x-empty": ""}
    assert parse_headers("") == {}


@pytest.mark.parametrize("text", ["sk-planted", "a=b,sk planted=x", "a=sk-planted%0d%0aHost:x", "=sk-planted", "a=planted-ü"])
def test_what_is_no_header_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="entry") as caught:
        parse_headers(text)
    assert "planted" not in str(caught.value)
