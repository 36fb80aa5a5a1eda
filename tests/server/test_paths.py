from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.server import paths


def routed(raw: str) -> list[str]:
    """The segments a request's path is routed by, as their sender meant them."""
    scope = paths.parted({"path": unquote(raw), "raw_path": raw.encode()})
    return [paths.name(segment) for segment in scope["path"].split("/")]


@pytest.mark.parametrize(
    ("raw", "segments"),
    [
        ("/v1/users", ["", "v1", "users"]),
        ("/r/resource%3A%2F%2Fprompts%2Fx/versions", ["", "r", "resource://prompts/x", "versions"]),
        ("/r/a%2fb", ["", "r", "a/b"]),
        ("/r/a%252Fb", ["", "r", "a%2Fb"]),
        ("/r/a%252Fb%2Fc", ["", "r", "a%2Fb/c"]),
        ("/r/%2E%2E%2F..%2Fx/../y", ["", "r", "../../x", "..", "y"]),
        ("/r/%2F", ["", "r", "/"]),
        ("/r//%2F/", ["", "r", "", "/", ""]),
        ("/r/%ff%2F%00", ["", "r", "\ufffd/\0"]),
        ("/r%2Fx", ["", "r/x"]),
    ],
)
def test_only_a_slash_that_was_not_encoded_parts_a_path(raw: str, segments: list[str]) -> None:
    assert routed(raw) == segments


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_any_names_come_back_as_they_were_sent(names: list[str]) -> None:
    assert routed("/" + "/".join(quote(name, safe="") for name in names)) == ["", *names]


@pytest.mark.parametrize("raw", [None, b"", b"/other%2Fpath", b"/a%2Fb/c"])
def test_bytes_that_are_missing_or_say_something_else_are_not_gone_by(raw: bytes | None) -> None:
    scope = {"path": "/a/b", "raw_path": raw}
    assert paths.parted(scope) is scope
    assert paths.parted({"path": "/a/b"}) == {"path": "/a/b"}


def test_the_servers_own_scope_is_left_as_it_is() -> None:
    scope = {"path": "/a/b", "raw_path": b"/a%2Fb"}
    shown = paths.shown(paths.parted(scope)["path"])
    assert (scope["path"], shown) == ("/a/b", "/a%2Fb")
    shown.encode()
