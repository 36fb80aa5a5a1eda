import pytest

from agentvm.errors import InvalidInput
from agentvm.storage.sql.places import read_place, write_place


def test_a_place_comes_back_as_it_was() -> None:
    assert read_place(write_place(1, 2**62, -3), tuple[int, int, int]) == (1, 2**62, -3)
    assert read_place(write_place(1, -0.5, 3), tuple[int, float, int]) == (1, -0.5, 3)


@pytest.mark.parametrize("text", ["", "!", "é", "\ud800", write_place(1, 2), write_place("x"), write_place(2**63), "W10"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        read_place(text, tuple[int])
