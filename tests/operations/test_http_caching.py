import pytest

from agentvm.operations.http_caching import matches


@pytest.mark.parametrize(
    ("header", "same"),
    [('"d"', True), ('W/"d"', True), ("d", True), ('"x", "d"', True), ("*", True), ('"x"', False), ("", False)],
)
def test_a_tag_of_a_response_is_recognised(header: str, same: bool) -> None:
    assert matches(header, "d") is same
