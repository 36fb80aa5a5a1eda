import pytest
from tests.cli.desk import avm
from tests.cli.fake_server import answering

from agentvm.cli.derived_fields import with_derived_fields

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
        as_json = avm("session", "search", "上海", "--json", url=url)
    assert done.code == 0
    assert "a 上海 <b>" in done.out
    assert "sess_1 msg_1" in done.out
    assert as_json.json == with_derived_fields([{"kind": "message", **HIT}])
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
        assert avm("session", *arguments, "--json", url=url).json == with_derived_fields(ONE)
    assert asked[0].body == body


def test_a_message_of_several_lines_is_shown_as_such() -> None:
    said = [{"role": "user", "timestamp": 0, "id": "m1", "content": "one\ntwo\x1b[31m"}]
    with answering(lambda asked: (200, {"items": said, "total": 1})) as (url, _):
        done = avm("session", "messages", "sess_1", url=url)
    # Set apart, so that nobody can write what looks like the next message.
    assert done.out == "1970-01-01 00:00  m1  user: one\n  two\\x1b[31m\n"


def test_titles_are_found_too_and_shown_before_what_was_said() -> None:
    title = {"sessionId": "sess_2", "title": "上海 trip", "at": 1, "snippet": "<mark>上海</mark> trip"}
    pages: list[dict[str, object]] = [
        {"items": [HIT], "titles": [title], "total": 2, "nextCursor": "more"},
        {"items": [HIT], "total": 2},
    ]
    with answering(lambda asked: (200, pages["cursor=more" in asked.path])) as (url, asked):
        done = avm("session", "search", "上海", url=url)
        as_json = avm("session", "search", "上海", "--json", url=url).json
    first, *rest = done.out.splitlines()
    assert first == "上海 trip  1970-01-01 00:00  title  sess_2"
    assert len(rest) == 4
    assert [one["kind"] for one in as_json] == ["title", "message", "message"]
    assert len(asked) == 4


def test_a_session_is_marked_as_read() -> None:
    with answering(lambda asked: (200, {**ONE, "unread": 0})) as (url, asked):
        assert avm("session", "mark-read", "s", url=url).out == "s is marked as read.\n"
        assert avm("session", "mark-read", "s", "--json", url=url).json == with_derived_fields({**ONE, "unread": 0})
    assert (asked[0].method, asked[0].body) == ("POST", "{}")
    assert asked[0].path.endswith("/v1/sessions/s/read")


def test_the_old_name_of_mark_read_still_works_and_is_not_listed() -> None:
    with answering(lambda asked: (200, {**ONE, "unread": 0})) as (url, _):
        assert avm("session", "read", "s", url=url).out == "s is marked as read.\n"
        listed = avm("session", "--help", url=url).out.partition("Commands:")[2]
    assert [line.split()[0] for line in listed.splitlines() if "read" in line.split()[:1] or "mark-read" in line] == [
        "mark-read"
    ]


def test_the_list_of_commands_cuts_none_of_them_short() -> None:
    listed = avm("session", "--help", url="").out.partition("Commands:")[2]
    assert [line for line in listed.splitlines() if line.endswith("...")] == []


def test_a_deletion_is_confirmed_and_can_be_undone() -> None:
    with answering(lambda asked: (200, {})) as (url, asked):
        assert avm("session", "delete", "s", url=url).code != 0
        assert asked == []
        assert "avm session restore s" in avm("session", "delete", "s", "--yes", url=url).out
        assert avm("session", "restore", "s", url=url).out == "s is restored.\n"
        assert avm("session", "show", "s", url=url).code == 0


def test_what_a_session_came_to_is_made_and_listed() -> None:
    made = {
        "summaryId": "sum_1", "messageId": "msg_9", "text": "They met.\nThey\x1b[31m parted.", "tokens": 9, "model": "a/b",
        "madeAt": 1_700_000_000_000,
    }  # fmt: skip
    with answering(lambda asked: (200, made)) as (url, asked):
        done = avm("session", "compact", "sess_1", url=url)
        assert avm("session", "compact", "sess_1", "--json", url=url).json == with_derived_fields(made)
    assert done.out.splitlines()[0] == "They met."
    assert "\x1b" not in done.out
    assert asked[0].path.endswith("/v1/sessions/sess_1/compact")
    with answering(lambda asked: (200, {"items": [made]})) as (url, asked):
        listed = avm("session", "summaries", "sess_1", url=url)
    assert "sum_1" in listed.out
    assert "msg_9" in listed.out
    assert "They met. They" in listed.out
    with answering(lambda asked: (200, {"items": []})) as (url, asked):
        assert "The session has no summaries." in avm("session", "summaries", "sess_1", url=url).err
