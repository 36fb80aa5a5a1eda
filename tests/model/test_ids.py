import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors import InvalidInput
from agentvm.model.ids import CONTAINER_ID_MAX, base36, check_container_id, id_factory


@given(st.integers(0, 2**80))
def test_base36_reads_back(number: int) -> None:
    assert int(base36(number), 36) == number


ERASED = "erased-0123456789abcdef"


def test_an_id_has_its_prefix_its_time_and_room_for_62_random_bits() -> None:
    new_id = id_factory(lambda: 1_794_725_921_193, lambda bits: 2**bits - 1)
    assert new_id("img") == f"img_mwhhh3mx_{base36(2**62 - 1).rjust(12, '0')}"
    assert id_factory(lambda: 0, lambda bits: 0)("sess") == "sess_0_000000000000"


def test_ids_of_one_millisecond_differ() -> None:
    new_id = id_factory(lambda: 7, random.Random(1).getrandbits)
    assert len({new_id("msg") for _ in range(10_000)}) == 10_000


@pytest.mark.parametrize(
    "name", ["a", "user-1b9d", "user:alice", "容器", "a b", "x" * CONTAINER_ID_MAX, "a..b", "erased-mail", ERASED + "0"]
)
def test_ordinary_container_names_are_taken(name: str) -> None:
    assert check_container_id(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * (CONTAINER_ID_MAX + 1),
        ".",
        "..",
        "../etc",
        "a/b",
        "a\\b",
        "a?b",
        "a#b",
        "a\x00",
        "a\nb",
        "\x1b[2J",
        "a\x7f",
        "\ud800",
    ],
)
def test_names_that_look_like_paths_queries_or_escapes_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_container_id(name)


def test_the_form_of_an_erased_container_s_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="erased"):
        check_container_id(ERASED)
