import pytest
from tests.runtime.dialects import Counted

from agentvm.events.base import Event, EventScope
from agentvm.events.stream import TextDelta
from agentvm.model.ids import SessionId, TenantId
from agentvm.runtime import pages
from agentvm.runtime.pages import Pages, ReplayPage

A, B = TenantId("a"), TenantId("b")
S1, S2, S3, S4 = (SessionId(f"s{n}") for n in range(1, 5))


def page(first: int, last: int, content: int = 0) -> ReplayPage:
    events = [
        Event(data=TextDelta(text="x"), scope=EventScope(), timestamp=1, tenant_id=A, seq=n) for n in range(first, last + 1)
    ]
    return ReplayPage(events, content)


def test_a_page_is_found_by_its_tenant_its_session_and_any_of_its_events() -> None:
    kept, one, two = Pages(), page(4, 6), page(7, 9)
    for each in (one, two, page(4, 6)):
        kept.add(A, S1, each)
    assert [kept.find(A, S1, seq) for seq in (3, 4, 5, 6, 7, 9, 10)] == [None, one, one, one, two, two, None]
    assert [kept.find(*key) for key in ((B, S1, 5), (A, S2, 5))] == [None] * 2


def test_a_frame_is_encoded_once_in_each_dialect() -> None:
    one, dialects = page(1, 2), (Counted(""), Counted("other "))
    for encode in dialects:
        frames = one.frames(0, 1, encode) + one.frames(1, 2, encode) + one.frames(0, 2, encode)
        assert frames[:2] == frames[2:]
        assert [frame.bare for frame in frames[:2] if frame is not None] == [f"{encode.prefix}{seq}" for seq in (1, 2)]
        assert encode.calls == [1, 2]


def test_the_pages_that_were_not_used_for_longest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES_MAX_BYTES", 4 * page(1, 3).size)
    kept = Pages()
    for session_id in (S1, S2, S3, S4):
        kept.add(A, session_id, page(1, 3))
    assert kept.find(A, S1, 3) is not None
    kept.add(B, S1, page(7, 9))
    assert [kept.find(*key) is not None for key in ((A, S1, 3), (A, S2, 3), (A, S3, 3), (B, S1, 9))] == [
        True,
        False,
        True,
        True,
    ]
    # One that is too large by itself is not kept, and pushes nobody out.
    kept.add(A, S2, page(1, 4))
    assert kept.find(A, S2, 4) is None
    assert kept.find(B, S1, 9) is not None


def test_what_is_kept_is_bounded_by_its_bytes_and_not_by_its_events() -> None:
    kept, picture = Pages(), pages.PAGES_MAX_BYTES // 4 // pages.COPIES_FACTOR
    kept.add(A, S1, page(1, 1, content=picture))
    assert kept.find(A, S1, 1) is None
    for number in range(40):
        kept.add(A, S1, page(number, number, content=picture // 2))
    assert sum(kept.find(A, S1, number) is not None for number in range(40)) == 7


def test_a_deleted_session_leaves_nothing() -> None:
    kept = Pages()
    for session_id in (S1, S2):
        kept.add(A, session_id, page(1, 3))
    for _ in range(2):
        kept.forget(A, S1)
    assert [kept.find(A, session_id, 1) is not None for session_id in (S1, S2)] == [False, True]
    assert kept._bytes == page(1, 3).size
