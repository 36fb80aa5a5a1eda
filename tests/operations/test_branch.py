"""Fork, rewind, edit and regenerate over HTTP: with what a newcomer would try, and what becomes of it."""

from typing import Any

import anyio
import pytest
from tests.server.http.fixtures import World, open_world


async def messages(world: World, session_id: str, query: str = "") -> list[Any]:
    return (await world.ask("GET", f"/v1/sessions/{session_id}/messages{query}", key=world.acme.admin)).items


async def ended(world: World, turn_id: str) -> Any:
    with anyio.fail_after(60):
        while True:
            turn = (await world.ask("GET", f"/v1/turns/{turn_id}", key=world.acme.admin)).body
            if "outcome" in turn:
                return turn
            await anyio.wait_all_tasks_blocked()


async def test_a_session_is_forked_rewound_and_what_was_taken_back_is_read() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "one", "two", "three")
        path = f"/v1/sessions/{session_id}"
        said = await messages(world, session_id)
        forked = await world.ask("POST", f"{path}/fork", {"messageId": said[1]["id"], "title": "Other"}, key=world.acme.admin)
        assert forked.status == 201
        assert forked.body["forkedFrom"] == {"sessionId": session_id, "messageId": said[1]["id"]}
        assert [one["content"] for one in await messages(world, forked.body["sessionId"])] == ["one", "two"]
        rewound = (await world.ask("POST", f"{path}/rewind", {"before": said[1]["id"]}, key=world.acme.admin)).body
        assert rewound["messageIds"] == [said[1]["id"], said[2]["id"]]
        assert [one["content"] for one in await messages(world, session_id)] == ["one"]
        assert await messages(world, session_id, f"?rewind={rewound['rewindId']}") == said[1:]
        listed = (await world.ask("GET", f"{path}/rewinds", key=world.acme.admin)).items
        assert [one["rewindId"] for one in listed] == [rewound["rewindId"]]
        actions = [entry for entry in (await world.audit(world.acme.tenant_id)) if entry[0].startswith("session.")]
        assert [entry[0] for entry in actions][:2] == ["session.rewind", "session.fork"]


async def test_an_edit_and_a_regeneration_begin_a_turn_and_are_answered() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "one")
        path = f"/v1/sessions/{session_id}"
        (first,) = await messages(world, session_id)
        edited = await world.ask("POST", f"{path}/edit", {"messageId": first["id"], "content": "uno"}, key=world.acme.admin)
        assert edited.status == 202
        assert (await ended(world, edited.body["turnId"]))["outcome"] == "completed"
        after = await messages(world, session_id)
        assert [one["role"] for one in after] == ["user", "assistant"]
        assert after[0]["content"] == "uno"
        again = await world.ask("POST", f"{path}/regenerate", {"messageId": after[1]["id"]}, key=world.acme.admin)
        await ended(world, again.body["turnId"])
        assert [one["turnId"] for one in await messages(world, session_id)] == [again.body["turnId"]] * 2


@pytest.mark.parametrize(
    ("action", "body", "status"),
    [
        ("fork", {"messageId": "nope"}, 404),
        ("fork", {"imageId": "nope"}, 404),
        ("fork", {"title": "x" * 301}, 400),
        ("rewind", {}, 400),
        ("rewind", {"messageId": "nope"}, 404),
        ("rewind", {"messageId": "a", "before": "b"}, 400),
        ("rewind", {"before": "x", "onBusy": "queue"}, 400),
        ("edit", {"messageId": "nope", "content": "x"}, 404),
        ("edit", {"messageId": "nope", "content": ""}, 400),
        ("edit", {"content": "x"}, 400),
        ("edit", {"messageId": "nope", "content": "x", "clientMessageId": ""}, 400),
        ("regenerate", {"messageId": "nope"}, 404),
    ],
)
async def test_bad_input_is_refused_and_changes_nothing(action: str, body: dict[str, object], status: int) -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "one")
        before = await messages(world, session_id)
        refused = await world.ask("POST", f"/v1/sessions/{session_id}/{action}", body, key=world.acme.admin)
        assert refused.status == status
        assert await messages(world, session_id) == before
        assert (await world.ask("GET", f"/v1/sessions/{session_id}/rewinds", key=world.acme.admin)).items == []
        assert (await world.ask("GET", f"/v1/sessions/{session_id}/messages?rewind=nope", key=world.acme.admin)).status == 404
