from agentvm.server.origin_table import OriginTable


def test_the_oldest_of_the_same_origin_or_of_the_most_crowded_one_is_evicted() -> None:
    table = OriginTable[int](6, 4)
    assert [table.add(number, "203.0.113.5") for number in range(5)] == [None, None, None, None, 0]
    assert [table.add(number, f"10.0.0.{number}") for number in range(5, 8)] == [None, None, 1]
    assert len(table) == 6
    assert list(table) == [2, 3, 4, 5, 6, 7]


def test_an_entry_that_is_removed_is_not_counted() -> None:
    table = OriginTable[int](1, 1)
    for number in range(3):
        assert table.add(number, "a") is None
        table.remove(number)
        table.remove(number)
    assert len(table) == 0


def test_a_network_of_ipv6_is_one_origin() -> None:
    table = OriginTable[int](10, 2)
    assert [table.add(number, f"2001:db8::{number:x}") for number in range(3)] == [None, None, 0]
