from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest
from tests.support.provider import Answer, Delay, Disconnect, ScriptedProvider, Stall, Wait, open_provider


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with open_provider() as provider:
        yield provider


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


async def test_answers_are_played_in_order_and_the_last_repeats(provider: ScriptedProvider, client: httpx2.AsyncClient) -> None:
    provider.play(Answer(status=500, steps=[b"a"]), Answer(steps=[b"b", b"c"], headers={"x-test": "1"}))
    got = [await client.post(provider.base_url, json={"n": n}) for n in range(3)]
    assert [(response.status_code, response.text) for response in got] == [(500, "a"), (200, "bc"), (200, "bc")]
    assert got[1].headers["x-test"] == "1"
    assert [request.json() for request in provider.requests] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert {request.connection for request in provider.requests} == {1}
    with anyio.fail_after(60):
        for request in provider.requests:
            await request.answered.wait()
            assert not request.abandoned.is_set()


async def test_nothing_to_play_is_an_error_of_the_test(provider: ScriptedProvider, client: httpx2.AsyncClient) -> None:
    assert (await client.get(provider.base_url)).status_code == 500


async def test_an_answer_waits_for_the_test(provider: ScriptedProvider, client: httpx2.AsyncClient) -> None:
    gate = anyio.Event()
    provider.play(Answer(steps=[b"a", Wait(gate), Delay(0), b"b"]))
    with anyio.fail_after(60):
        async with client.stream("GET", f"{provider.base_url}/path") as response:
            pieces = response.aiter_bytes()
            assert await anext(pieces) == b"a"
            gate.set()
            assert await anext(pieces) == b"b"
    assert (await provider.wait_request()).path == "/path"


async def test_a_disconnection_cuts_the_answer(provider: ScriptedProvider, client: httpx2.AsyncClient) -> None:
    provider.play(Answer(steps=[b"a", Disconnect()]))
    with pytest.raises(httpx2.RemoteProtocolError):
        await client.get(provider.base_url)
    assert not provider.requests[0].answered.is_set()


async def test_a_client_that_leaves_is_noticed(provider: ScriptedProvider, client: httpx2.AsyncClient) -> None:
    provider.play(Answer(steps=[b"a", Stall()]))
    async with client.stream("GET", provider.base_url) as response:
        assert await anext(response.aiter_bytes()) == b"a"
        assert not provider.requests[0].abandoned.is_set()
    with anyio.fail_after(60):
        await provider.requests[0].abandoned.wait()


async def test_what_the_test_raises_is_not_wrapped() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_provider():
            raise ZeroDivisionError
