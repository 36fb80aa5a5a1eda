import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.tools.builtin.file_search import MATCHES_MAX, FileSearch, glob_pattern, pattern_of


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a+)+$x", "(.*)(.*)(.*)(.*)b"])
def test_no_pattern_takes_longer_than_the_text_is_long(pattern: str) -> None:
    matches = pattern_of(pattern)
    began = time.process_time()
    assert not matches("a" * 100_000)
    assert time.process_time() - began < 2


@given(st.lists(st.sampled_from(["a", "b", "*", "?", "**", "/", "."]), min_size=1, max_size=8).map("".join))
def test_any_glob_is_a_pattern(text: str) -> None:
    assert glob_pattern(text)("a/b") in (True, False)


@pytest.mark.parametrize(
    ("glob", "path", "does"),
    [
        ("*.py", "a/b/c.py", True),
        ("*.py", "c.pyc", False),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/c.py", "a/c.py", True),
        ("a/**", "a/b/c", True),
        ("?.py", "a.py", True),
        ("[a].py", "[a].py", True),
        ("/workspace/a/*", "a/b", True),
    ],
)
def test_a_glob_stays_within_a_name_unless_it_says_so(glob: str, path: str, does: bool) -> None:
    assert glob_pattern(glob)(path) is does


def test_a_search_stops_at_its_bound() -> None:
    search = FileSearch(pattern_of("x"))
    search.search("a", b"x\n" * (MATCHES_MAX * 2))
    assert search.is_full
    assert "not everything was searched" in search.shown()
