"""A cache is bounded in number, weight and age."""

from agentvm.sharing.cache import Cache

NOW, AGE_MS = 1_000_000, 30_000


def test_a_value_is_found_until_it_is_too_old() -> None:
    cache = Cache[str, str](10, age_ms=AGE_MS)
    cache.put("a", "A", NOW)
    assert cache.get("a", NOW + AGE_MS - 1) == "A"
    assert cache.get("a", NOW + AGE_MS) is None
    assert len(cache) == 0


def test_being_asked_for_does_not_make_it_younger() -> None:
    cache = Cache[str, str](10, age_ms=AGE_MS)
    cache.put("a", "A", NOW)
    assert cache.get("a", NOW + 20_000) == "A"
    assert cache.get("a", NOW + 40_000) is None


def test_a_clock_that_was_set_back_keeps_nothing_alive() -> None:
    cache = Cache[str, str](10, age_ms=AGE_MS)
    cache.put("a", "A", NOW)
    assert cache.get("a", NOW - 3_600_000) is None


def test_the_least_recently_used_value_is_evicted() -> None:
    cache = Cache[str, str](2)
    cache.put("a", "A")
    cache.put("b", "B")
    assert cache.get("a") == "A"
    cache.put("c", "C")
    assert len(cache) == 2
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_a_bound_of_weight_evicts_as_much_as_it_takes() -> None:
    cache = Cache[str, str](6, weigh=len)
    for key in ("aa", "bb", "cc"):
        cache.put(key, key)
    cache.put("long", "12345")
    assert [cache.get(key) for key in ("aa", "bb", "cc", "long")] == [None, None, None, "12345"]
    cache.put("long", "1")
    cache.put("dd", "12345")
    assert len(cache) == 2
    cache.put("huge", "1234567")
    assert len(cache) == 0


def test_selected_values_are_dropped_and_no_others() -> None:
    cache = Cache[str, int](10)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    cache.drop_if(lambda key, value: key == "a" or value == 2)
    assert [cache.get(key) for key in "abc"] == [None, 1, None]
    cache.clear()
    assert len(cache) == 0
