import pytest
from tests.cli.desk import avm
from tests.cli.fake_server import answering

ONE = {
    "sessionId": "sess_1", "imageId": "img_1", "containerId": "c1", "title": "Trip", "createdAt": 1, "updatedAt": 2,
    "lastMessageAt": 1_700_000_000_000, "preview": "hello\x1b[31m", "unread": 3, "pinnedAt": 5,
}  # fmt: skip
HIT = {
    "sessionId": "sess_1", "imageId": "img_1", "containerId": "c1", "title": None, "messageId": "msg_1", "role": "user",
    "at": 1, "position": 0, "cursor": "x", "snippet": "a <mark>上海</mark> &lt;b&gt;",
}  # fmt: skip


def test_sessions_are_listed_with_what_is_unread() -> None:
    with answering(lambda asked: (200, {"items": [ONE], "total": 1})) as (url, asked):
        done = avm("session", "list", "--container", "c1", "--all", "--pinned", url=url)
    assert done.code == 0
    assert "sess_1" in done.out
    assert "pinned" in done.out
    assert "\x1b" not in done.out
    assert "archived=all" in asked[0].path
    assert "pinned=true" in asked[0].path


def test_what_was_said_is_found_and_shown_as_text() -> None:
    with answering(lambda asked: (200, {"items": [HIT], "total": 1})) as (url, asked):
        done = avm("session", "search", "上海", "--role", "user", "--since", "7d", url=url)
        nothing = avm("session", "search", "上海", "--json", url=url)
    assert done.code == 0
    assert "a 上海 <b>" in done.out
    assert "sess_1 msg_1" in done.out
    assert nothing.json == [HIT]
    assert "role=user" in asked[0].path


def test_messages_of_every_kind_are_shown() -> None:
    said = [
        {"role": "user", "timestamp": 1, "id": "m1", "content": "hi"},
        {"role": "assistant", "timestamp": 2, "id": "m2", "content": [{"type": "text", "text": "yes"}, {"type": "image"}]},
        {"role": "assistant", "timestamp": 3, "id": "m3", "toolCall": {"name": "run"}},
        {"role": "tool", "timestamp": 4, "id": "m4", "toolResult": {"output": {"value": "done"}}},
    ]
    with answering(lambda asked: (200, {"items": said, "total": 4})) as (url, asked):
        done = avm("session", "messages", "sess_1", "--newest", url=url)
        avm("session", "messages", "sess_1", "--around", "msg_1", url=url)
    assert [line.split("  ", 1)[1] for line in done.out.splitlines()] == [
        "m1  user: hi", "m2  assistant: yes [image]", "m3  assistant: calls run", "m4  tool: done",
    ]  # fmt: skip
    assert "order=newest" in asked[0].path
    assert "around=msg_1" in asked[1].path


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (("rename", "s", "New"), '{"title":"New"}'),
        (("rename", "s"), '{"title":null}'),
        (("pin", "s"), '{"pinned":true}'),
        (("unpin", "s"), '{"pinned":false}'),
        (("archive", "s"), '{"archived":true}'),
        (("unarchive", "s"), '{"archived":false}'),
    ],
)
def test_a_session_is_changed(arguments: tuple[str, ...], body: str) -> None:
    with answering(lambda asked: (200, ONE)) as (url, asked):
        assert avm("session", *arguments, url=url).code == 0
        assert avm("session", *arguments, "--json", url=url).json == ONE
    assert asked[0].body == body


def test_a_deletion_is_confirmed_and_can_be_undone() -> None:
    with answering(lambda asked: (200, {})) as (url, asked):
        assert avm("session", "delete", "s", url=url).code != 0
        assert asked == []
        assert "avm session restore s" in avm("session", "delete", "s", "--yes", url=url).out
        assert avm("session", "restore", "s", url=url).out == "s is back.\n"
        assert avm("session", "show", "s", url=url).code == 0
