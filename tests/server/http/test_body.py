"""A body, and an answer, that comes or is read too slowly is not waited for, however it is cut into pieces."""

from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import pytest
from tests.server.fixtures import open_listener

from agentvm.model.ids import DEFAULT_TENANT
from agentvm.server import transport
from agentvm.server.http import body
from agentvm.server.http.body import PIECE_BYTES, Pace, pieces
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.reservation import ConnectionReservation

UPLOAD = (
    b"POST /v1/attachments?container=c1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: a/b\r\nContent-Length: 1000000\r\n\r\n"
)
JSON = b"POST /v1/tenants HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n"


@pytest.mark.parametrize("head", [UPLOAD, JSON], ids=["a file", "json"])
async def test_a_body_that_trickles_in_has_a_deadline(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 0.5)
    with anyio.fail_after(60):
        async with open_listener() as (vm, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream, anyio.create_task_group() as tasks:

                async def trickle() -> None:
                    await stream.send(head)
                    while True:
                        # Each piece comes in time; all of them would take for ever.
                        await stream.send(b"x")
                        await anyio.sleep(0.05)

                tasks.start_soon(trickle)
                assert (await stream.receive()).startswith(b"HTTP/1.1 408 ")
                tasks.cancel_scope.cancel()
        assert vm.budget.reserved == 0


async def test_the_deadline_grows_with_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 10.0)
    monkeypatch.setattr(body, "SECOND_MIN_BYTES", 100)
    now = 1_000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    pace = Pace()
    assert pace.seconds(0) == 10
    now += 8
    assert (pace.seconds(0), pace.seconds(1_000)) == (2, 10)
    now += 4
    assert (pace.seconds(0), pace.seconds(500)) == (0, 3)


async def test_a_large_answer_is_charged_for_until_it_has_left() -> None:
    budget = ByteBudget()
    content = bytes(range(256)) * 1_000
    charge = ConnectionReservation(budget, DEFAULT_TENANT)
    got = []
    async for piece in pieces(content, charge):
        assert budget.reserved >= len(content)
        assert len(piece) <= PIECE_BYTES
        got.append(piece)
    assert b"".join(got) == content
    assert budget.reserved == 0


async def test_a_large_answer_that_is_read_too_slowly_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, now = ByteBudget(), 1_000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    answer: AsyncIterator[bytes] = pieces(b"x" * 3 * PIECE_BYTES, ConnectionReservation(budget, DEFAULT_TENANT))
    await anext(answer)
    now += 1_000
    with pytest.raises(TimeoutError):
        await anext(answer)
    assert budget.reserved == 0


async def test_who_reads_nothing_of_an_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "UNREAD_SECONDS", 0.1)
    with anyio.fail_after(60):
        async with open_listener() as (vm, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                # As often as it takes to fill what the kernel keeps for a peer.
                request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                    while True:
                        await stream.send(request * 100)
        assert vm.budget.reserved == 0
