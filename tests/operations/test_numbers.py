import msgspec
import pytest

from agentvm.errors import InvalidInput
from agentvm.operations.numbers import JSON_INTEGER_MAX, Amount, check_text


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "\x1b[31m", "\ud800", "x" * 11])
def test_text_that_cannot_be_shown_in_a_line_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        check_text(text, "name", 10)
    assert check_text("Ünïcode 名", "name", 10) == "Ünïcode 名"


def test_an_amount_is_a_number_that_every_reader_of_json_reads_right() -> None:
    assert msgspec.convert(JSON_INTEGER_MAX, Amount) == JSON_INTEGER_MAX
    for wrong in (-1, JSON_INTEGER_MAX + 1):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, Amount)
