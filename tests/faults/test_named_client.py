"""An unmodified browser client that names itself, while the server is stopped or killed in the middle of a turn."""

import signal
from pathlib import Path

import anyio
from tests.faults.process import open_server
from tests.support.wire import Browser, Client19, named, seqs


async def all_of(one: Client19, session_id: str, turns: int = 1) -> list[int]:
    """What it heard until so many turns ended."""
    await one.wait("turn_response", turns)
    return seqs(one, session_id)


async def test_a_graceful_restart_is_heard_without_a_gap_and_without_a_double(tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with open_server(tmp_path) as server:
            browser = Browser(named(server.url))
            async with browser.connected() as here:
                record = await here.image()
                await here.request("message_send_request", imageId=record["imageId"], content="say it until restarted")
                await here.wait("text_delta", 3)
                assert await server.end(signal.SIGTERM) == 0
                await here.wait_closed()
            await server.start()
            async with browser.connected() as back:
                heard = seqs(here, record["sessionId"]) + await all_of(back, record["sessionId"])
            assert heard == list(range(1, heard[-1] + 1))
            assert "turn_resumed" in back.types


async def test_a_server_that_is_killed_may_leave_a_gap_and_never_a_double(tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with open_server(tmp_path) as server:
            browser = Browser(named(server.url))
            async with browser.connected() as here:
                record = await here.image()
                await here.request("message_send_request", imageId=record["imageId"], content="say it")
                await here.wait("text_delta", 3)
                await server.end(signal.SIGKILL)
                await here.wait_closed()
            await server.start()
            async with browser.connected() as back:
                await back.settle()
                # The turn goes on by itself; another one makes sure that there is something to hear.
                await back.say(record["imageId"], "say more")
                heard = seqs(here, record["sessionId"]) + seqs(back, record["sessionId"])
            assert heard == sorted(set(heard))


async def test_a_client_that_was_away_when_the_server_was_killed_hears_everything(tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with open_server(tmp_path) as server:
            browser = Browser(named(server.url))
            async with browser.connected() as here:
                record = await here.image()
                await here.say(record["imageId"], "say it")
                await here.settle()
                await browser.drop(here)
            async with Browser(server.url).connected() as other:
                # What is stored of this was stored after the client's place: there is one writer.
                await other.say(record["imageId"], "say more")
                await other.request("message_send_request", imageId=record["imageId"], content="say on")
                await other.wait("text_delta", 31)
            await server.end(signal.SIGKILL)
            await server.start()
            async with browser.connected() as back:
                heard = seqs(here, record["sessionId"]) + await all_of(back, record["sessionId"], 2)
            assert heard == list(range(1, heard[-1] + 1))
