import pytest
from tests.cli.desk import avm
from tests.cli.fake_server import Asked, answering

SENT = {"sessionId": "s", "messageId": "m2", "turnId": "t1"}
SAID = [
    {"id": "m3", "subtype": "assistant", "turnId": "t1", "content": [{"type": "text", "text": "five\x1b[1m\nsix"}]},
    {"id": "m2", "subtype": "user", "role": "user", "turnId": "t1", "content": "2 + 3?"},
    {"id": "m1", "subtype": "assistant", "turnId": "t0", "content": [{"type": "text", "text": "four"}]},
]  # fmt: skip


def test_a_fork_says_how_to_go_on_in_it() -> None:
    with answering(lambda asked: (201, {"sessionId": "s2"})) as (url, asked):
        done = avm("session", "fork", "s", "--message", "m", "--title", "T", url=url)
        assert avm("session", "fork", "s", "--json", url=url).json == {"sessionId": "s2"}
    assert "avm chat --session s2" in done.out
    assert [one.body for one in asked] == ['{"messageId":"m","title":"T"}', "{}"]


def test_a_rewind_is_confirmed_and_says_where_to_find_what_was_taken_back() -> None:
    with answering(lambda asked: (200, {"sessionId": "s", "rewindId": "r", "messageIds": ["a", "b"]})) as (url, asked):
        assert avm("session", "rewind", "s", "--to", "m", url=url).code != 0
        assert avm("session", "rewind", "s", "--yes", url=url).code == 2
        assert avm("session", "rewind", "s", "--to", "m", "--before", "n", "--yes", url=url).code == 2
        assert asked == []
        done = avm("session", "rewind", "s", "--to", "m", "--yes", url=url)
    assert "2 messages removed" in done.out
    assert "avm session messages s --rewind r" in done.out
    assert asked[0].body == '{"messageId":"m","onBusy":"reject"}'
    with answering(lambda asked: (200, {"sessionId": "s", "messageIds": []})) as (url, _):
        assert "nothing to remove" in avm("session", "rewind", "s", "--before", "m", "--yes", url=url).out


def test_what_was_taken_back_is_listed() -> None:
    with answering(lambda asked: (200, {"items": [{"rewindId": "r", "rewoundAt": 1, "messages": 2}]})) as (url, _):
        assert "r " in avm("session", "rewinds", "s", url=url).out
    with answering(lambda asked: (200, {"items": []})) as (url, _):
        assert "The session was never rewound" in (done := avm("session", "rewinds", "s", url=url)).out + done.err


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (("edit", "s", "m1", "2 + 3?"), '{"messageId":"m1","content":"2 + 3?","onBusy":"reject"}'),
        (("regenerate", "s", "--interrupt"), '{"onBusy":"interrupt"}'),
        (("regenerate", "s", "--message", "m1"), '{"messageId":"m1","onBusy":"reject"}'),
    ],
)
def test_the_answer_is_waited_for_and_shown(arguments: tuple[str, ...], body: str) -> None:
    looks = iter(({}, {"outcome": "completed"}))

    def answer(asked: Asked) -> tuple[int, object]:
        if asked.method == "POST":
            return 202, SENT
        return 200, next(looks) if "/turns/" in asked.path else {"items": SAID, "total": 3}

    with answering(answer) as (url, asked):
        done = avm("session", *arguments, url=url)
    assert (done.code, done.out) == (0, "five\\x1b[1m\nsix\n")
    assert asked[0].body == body


def test_a_turn_that_fails_is_a_failure_here_too_and_one_may_choose_not_to_wait() -> None:
    failed = [{"id": "e", "subtype": "error", "role": "error", "turnId": "t1", "content": "no quota"}]

    def answer(asked: Asked) -> tuple[int, object]:
        if asked.method == "POST":
            return 202, SENT
        return 200, {"outcome": "failed"} if "/turns/" in asked.path else {"items": failed, "total": 1}

    with answering(answer) as (url, asked):
        done = avm("session", "regenerate", "s", url=url)
        assert avm("session", "regenerate", "s", "--no-wait", url=url).out.startswith("t1 has started")
        assert avm("session", "regenerate", "s", "--no-wait", "--json", url=url).json == SENT
        assert len([one for one in asked if one.method == "GET"]) == 2
    assert done.code == 1
    assert "no quota" in done.err
    assert "not completed: failed" in done.err
