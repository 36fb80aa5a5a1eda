"""A fair queue serves tenants in turn, each in its own order, within its bounds."""

from hypothesis import given
from hypothesis import strategies as st

from agentvm.sharing.fair_queue import FairQueue

KEYS = st.sampled_from("abcd")
STEPS = st.lists(st.one_of(st.tuples(st.just("put"), KEYS), st.just(("take", "")), st.tuples(st.just("discard"), KEYS)))


def test_a_tenant_with_one_item_is_served_after_one_item_of_another() -> None:
    queue: FairQueue[str, int] = FairQueue()
    for number in range(500):
        assert queue.put("a", number)
    assert queue.put("b", 0)
    assert [queue.take(), queue.take(), queue.take()] == [("a", 0), ("b", 0), ("a", 1)]


def test_a_tenant_that_is_not_ready_is_passed_over_and_keeps_its_place() -> None:
    queue: FairQueue[str, int] = FairQueue()
    for key in "abc":
        queue.put(key, 1)
        queue.put(key, 2)
    assert queue.take(lambda key, item: key != "a") == ("b", 1)
    assert queue.take() == ("a", 1)
    assert queue.take() == ("c", 1)
    assert queue.take(lambda key, item: False) is None


def test_an_item_beyond_a_bound_is_refused() -> None:
    queue: FairQueue[str, int] = FairQueue(capacity=3, share=2)
    assert [queue.put("a", 1), queue.put("a", 2), queue.put("a", 3)] == [True, True, False]
    assert [queue.put("b", 1), queue.put("c", 1)] == [True, False]
    assert (len(queue), queue.waiting("a"), queue.waiting("c")) == (3, 2, 0)


@given(STEPS)
def test_every_item_is_taken_once_in_its_tenants_order_and_no_tenant_twice_before_another(steps: list[tuple[str, str]]) -> None:
    queue: FairQueue[str, int] = FairQueue(capacity=20, share=8)
    expected: dict[str, list[int]] = {key: [] for key in "abcd"}
    # Who was served since a tenant began to wait: nobody twice.
    since: dict[str, list[str]] = {}
    for number, (action, key) in enumerate(steps):
        if action == "put":
            fits = len(expected[key]) < 8 and sum(map(len, expected.values())) < 20
            assert queue.put(key, number) is fits
            if fits:
                if not expected[key]:
                    since[key] = []
                expected[key].append(number)
        elif action == "discard":
            assert queue.discard(key, expected[key][-1] if expected[key] else -1) is bool(expected[key])
            if expected[key]:
                expected[key].pop()
        else:
            taken = queue.take()
            if taken is None:
                assert not any(expected.values())
                continue
            served, item = taken
            assert item == expected[served].pop(0)
            for waiting, others in since.items():
                if expected[waiting] and waiting != served:
                    assert served not in others
                    others.append(served)
            since[served] = []
        assert len(queue) == sum(map(len, expected.values()))


def test_a_tenant_that_is_postponed_goes_behind_all_others() -> None:
    queue = FairQueue[str, int]()
    for key in ("a", "b", "c"):
        queue.put(key, 1)
    queue.postpone("a")
    queue.postpone("nobody")
    assert [taken[0] for taken in (queue.take(), queue.take(), queue.take()) if taken is not None] == ["b", "c", "a"]
