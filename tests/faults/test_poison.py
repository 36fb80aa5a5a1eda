"""F21: a session that kills its server is set aside after a few tries; the others go on, and everybody can see it."""

from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from tests.faults.invariants import check_events
from tests.faults.process import Server, open_server, read_log
from tests.faults.server import text_of

from agentvm import create_agentx, remote_runtime
from agentvm.client import remote
from agentvm.errors import ChannelClosed, SessionQuarantined


async def keep_alive(server: Server, starts: list[int]) -> None:
    """As an init system would: a server that died is started again."""
    while True:
        await server.died()
        starts.append(1)
        # It may die before it can say where it listens.
        with suppress(anyio.IncompleteRead):
            await server.start()


async def test_f21_a_session_the_server_does_not_survive_is_quarantined_and_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.02)
    monkeypatch.setattr(remote, "DELAY_SECONDS_MAX", 0.1)
    starts: list[int] = []
    with anyio.fail_after(200):
        async with open_server(tmp_path) as server, create_agentx(remote_runtime(server.url)) as agentx:
            good, bad = [await agentx.images.create(container_id=name) for name in ("good", "bad")]
            ended = anyio.Event()
            agentx.runtime.on("turn_response", lambda event: ended.set() if event.context["containerId"] == "bad" else None)
            sent = await (await agentx.images.run(good.image_id)).receive("say good")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_alive, server, starts)
                try:
                    await (await agentx.images.run(bad.image_id)).receive("poison")
                except ChannelClosed:
                    # It may die before it can answer.
                    pass
                await ended.wait()
                tasks.cancel_scope.cancel()
            # The first run and three more.
            assert len(starts) == 4
            session = await agentx.sessions.get(str(bad.session_id))
            assert session is not None
            assert "did not survive" in str(session.record.quarantine)
            poisoned = await agentx.images.run(bad.image_id)
            with pytest.raises(SessionQuarantined, match="session_release"):
                await poisoned.receive("hello?")
            bad_events = await read_log(server.url, str(bad.session_id))
            check_events(bad_events)
            assert [event["data"]["code"] for event in bad_events if event["type"] == "error_occurred"] == [
                "turn_limit_reached"
            ]
            # The neighbour's turn was cut off just as often, and it was not its fault.
            events = await read_log(server.url, str(good.session_id))
            check_events(events)
            (end,) = [event for event in events if event["type"] == "turn_response"]
            assert (end["data"]["turnId"], end["data"]["outcome"]) == (sent.turn_id, "completed")
            text = next(event["data"]["content"][-1]["text"] for event in events if event["type"] == "assistant_message")
            assert text == text_of("say good")
            # Released, it is a session like any other.
            await session.release()
            heard = [event async for event in poisoned.stream("say thanks")]
            assert heard[-1].data["outcome"] == "completed"
