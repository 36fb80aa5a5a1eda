import pytest

from agentvm.errors import InvalidInput
from agentvm.server.credentials import bearer, is_cookie, of_headers, of_socket, without_token

KEY, TOKEN = "avm_key", "avmbs_token"
COOKIE = (b"Cookie", f"theme=dark; avm_session={TOKEN}".encode())


def authorization(value: str) -> tuple[bytes, bytes]:
    return (b"Authorization", value.encode())


@pytest.mark.parametrize("value", [f"Bearer {KEY}", f"bearer {KEY}", f"  BEARER   {KEY}  "])
def test_a_bearer_token_is_found_in_the_header(value: str) -> None:
    assert of_headers([(b"host", b"h"), authorization(value)]) == KEY
    assert of_socket([authorization(value)], b"", ()) == KEY


@pytest.mark.parametrize("value", ["", KEY, f"Basic {KEY}", "Bearer", "Bearer "])
def test_anything_else_in_that_header_is_a_wrong_token_and_not_none(value: str) -> None:
    assert of_headers([authorization(value)]) == ""


def test_a_socket_may_bring_it_in_the_query_or_as_a_subprotocol() -> None:
    assert of_socket([], f"client=x&token={KEY}".encode(), ()) == KEY
    assert of_socket([], b"", ("chat", f"avm.bearer.{KEY}")) == KEY
    assert of_socket([], b"client=x&tokens=y", ("chat",)) is None


def test_a_cookie_is_found_over_http_and_when_a_socket_is_opened() -> None:
    for found in (of_headers([COOKIE]), of_socket([COOKIE], b"client=x", ("chat",))):
        assert found == TOKEN
        assert is_cookie(found)
    assert of_headers([COOKIE], reads_cookie=False) is None
    assert not is_cookie(of_headers([authorization(f"Bearer {KEY}")]))


def test_a_cookie_is_accepted_as_a_cookie_only_and_nothing_else_is_one() -> None:
    assert bearer(f"Bearer {TOKEN}") == ""
    assert of_headers([authorization(f"Bearer {TOKEN}")]) == ""
    assert of_socket([], f"token={TOKEN}".encode(), ()) == ""
    assert of_socket([], b"", (f"avm.bearer.{TOKEN}",)) == ""
    for value in (KEY, "", "a.b.c"):
        found = of_headers([(b"cookie", f"avm_session={value}".encode())])
        assert is_cookie(found)
        assert value == "" or value not in (found or "")


def test_nothing_else_is_read() -> None:
    assert of_headers([(b"x-api-key", KEY.encode()), (b"cookie", b"token=1; xavm_session=2")]) is None
    assert of_socket([(b"x-api-key", KEY.encode())], b"key=1&api_key=2", ()) is None


@pytest.mark.parametrize(
    ("headers", "query", "subprotocols"),
    [
        ([authorization("Bearer a"), authorization("Bearer b")], b"", ()),
        ([authorization("Bearer a"), (b"authorization", b"Bearer a")], b"", ()),
        ([authorization("Bearer a")], b"token=a", ()),
        ([], b"token=a&token=b", ()),
        ([], b"token=a", ("avm.bearer.a",)),
        ([COOKIE, COOKIE], b"", ()),
        ([COOKIE, authorization("Bearer a")], b"", ()),
        ([COOKIE], b"token=a", ()),
        ([COOKIE], b"", ("avm.bearer.a",)),
    ],
)
def test_more_than_one_is_refused(headers: list[tuple[bytes, bytes]], query: bytes, subprotocols: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="Send credentials once"):
        of_socket(headers, query, subprotocols)
    if len(headers) > 1:
        with pytest.raises(InvalidInput, match="Send credentials once"):
            of_headers(headers)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (b"", b""),
        (b"client=abc", b"client=abc"),
        (b"token=secret", b"token=***"),
        (b"%74oken=secret&t%6fken=x", b"token=***&token=***"),
        (b"a=1&token=secret&token=other&b=2", b"a=1&token=***&token=***&b=2"),
    ],
)
def test_a_query_is_logged_without_its_token(query: bytes, shown: bytes) -> None:
    assert without_token(query) == shown
