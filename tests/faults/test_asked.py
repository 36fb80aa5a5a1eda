"""F28: the ledger has what the provider was asked, each call once, however turns are stopped and servers killed.

`AVM_FAULT_STOPS` and `AVM_FAULT_KILLS` say how often, for a night.
"""

import json
import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.faults.billed import config_of
from tests.faults.process import WAIT, open_server, until
from tests.support import answers as play
from tests.support.provider import Answer, Delay, ProviderRequest, ScriptedProvider, Stall, open_provider
from tests.support.wire import Client19, client

from agentvm import start_server
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.ledger import Credit, LedgerEntry
from agentvm.server.local import RunningServer
from agentvm.storage.engines.sqlite.datadir import DATABASE

STOPS = int(os.environ.get("AVM_FAULT_STOPS", "30"))
KILLS = int(os.environ.get("AVM_FAULT_KILLS", "2"))
TURNS_A_KILL = 10
READ, WRITTEN = 1_234, 56
"""Tokens that the provider reports of each call."""


def spoken(driver: str, pause: float) -> Answer:
    """An answer of some pieces, slowly."""
    if driver == "anthropic":
        head = [play.message_start(usage={"input_tokens": READ, "output_tokens": 1})]
        tail = play.message_end("end_turn", usage={"output_tokens": WRITTEN})
        middle = play.text_block(0, "one ", "two ", "three ")
    else:
        head, middle = (
            [play.delta({"role": "assistant"})],
            [play.delta({"content": text}) for text in ("one ", "two ", "three ")],
        )
        tail = play.openai_end(
            "stop", usage={"prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN}
        )
    steps = [step for piece in (*head, *middle, *tail) for step in (Delay(pause), piece)]
    return play.stream(steps)


def said_in(request: ProviderRequest) -> str:
    """What the user said last in the prompt: each turn has words of its own. A resumed turn adds a note behind them."""
    messages = request.json()["messages"]
    assert isinstance(messages, list)
    for message in reversed(messages):
        content = message["content"]
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        said = next((text for text in texts if message["role"] == "user" and text.startswith(("go ", "kill "))), None)
        if said is not None:
            return str(said)
    raise AssertionError(messages)


def check(
    requests: Sequence[ProviderRequest], turns: dict[str, str], entries: Sequence[LedgerEntry], *, beyond: int = 0
) -> int:
    """`turns` are ids by what was said. Gives how many entries there are beyond what was asked: killed just before it left."""
    asked = Counter(turns[said_in(request)] for request in requests)
    billed = Counter[str](entry.turn_id for entry in entries)
    missing = {turn_id: number for turn_id, number in asked.items() if billed[turn_id] < number}
    assert not missing, f"asked and not billed: {missing}"
    surplus = billed - asked
    assert surplus.total() <= beyond, f"billed and not asked: {surplus}"
    assert len({entry.key for entry in entries}) == len(entries)
    for entry in entries:
        used = entry.usage
        assert used.input_tokens > 0
        if not used.estimated:
            assert (used.input_tokens, used.output_tokens) in ((READ, WRITTEN), (READ, 1)), entry
        assert entry.price == round((entry.cost or 0) * 105 / 100)
    return surplus.total()


async def all_entries(server: RunningServer) -> list[LedgerEntry]:
    ledger = server.server.vm.tenancy.store.accounts(DEFAULT_TENANT).ledger
    entries: list[LedgerEntry] = []
    after = 0
    while page := await ledger.list(after=after):
        entries += [entry for _, entry in page]
        after = page[-1][0]
    return entries


async def stop_somewhere(dice: random.Random, alice: Client19, provider: ScriptedProvider, image_id: str, text: str) -> str:
    """Sends, stops it at some moment, and waits for its end; the turn."""
    before = len(provider.requests)
    turn_id = str((await alice.request("message_send_request", imageId=image_id, content=text))["turnId"])
    match dice.randrange(4):
        case 0:
            for _ in range(dice.randrange(200)):
                await anyio.lowlevel.checkpoint()
        case 1:
            await provider.wait_request(before + 1)
        case 2:
            await alice.wait(lambda event: event["type"] == "text_delta" and event["context"].get("turnId") == turn_id)
        case _:
            pass
    await alice.request("agent_interrupt_request", imageId=image_id)
    await alice.end_of(turn_id)
    alice.events.clear()
    return turn_id


@pytest.mark.parametrize("driver", ["anthropic", "openai"])
async def test_f28_every_call_that_left_is_billed_once_wherever_its_turn_is_stopped(driver: str) -> None:
    dice = random.Random(f"stops {driver}")
    with anyio.fail_after(200 + STOPS):
        async with open_provider() as provider:
            provider.play(spoken(driver, 0.002))
            async with start_server(config_of(0, None, provider.base_url, driver)) as server, client(server.ws_url) as alice:
                turns: dict[str, str] = {}
                image_id = (await alice.image())["imageId"]
                for number in range(STOPS):
                    if number % 20 == 19:
                        image_id = (await alice.image())["imageId"]
                    text = f"go {number}"
                    turns[text] = await stop_somewhere(dice, alice, provider, image_id, text)
                entries = await all_entries(server)
                check(provider.requests, turns, entries)
                wallet = await server.server.vm.tenancy.store.accounts(DEFAULT_TENANT).ledger.wallet()
                assert wallet.spent == sum(entry.price or 0 for entry in entries)


async def test_f28_a_call_that_is_stopped_before_it_is_answered_is_billed_for_what_was_sent() -> None:
    with anyio.fail_after(WAIT):
        async with open_provider() as provider:
            provider.play(play.stream([Stall()]))
            async with start_server(config_of(0, None, provider.base_url)) as server, client(server.ws_url) as alice:
                image_id = (await alice.image())["imageId"]
                sent = await alice.request("message_send_request", imageId=image_id, content="word " * 20_000)
                await provider.wait_request()
                await alice.request("agent_interrupt_request", imageId=image_id)
                end = (await alice.end_of(sent["turnId"]))["data"]
                (entry,) = await all_entries(server)
    assert entry.usage.estimated
    # The words, and the tools besides.
    assert 33_000 < entry.usage.input_tokens < 40_000
    assert end["price"] == entry.price
    assert end["usage"]["inputTokens"] == entry.usage.input_tokens


@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_f28_a_call_that_the_provider_refuses_costs_nothing(status: int) -> None:
    body = json.dumps({"error": {"type": "error", "message": "no"}}).encode()
    headers = {"x-should-retry": "false"}
    with anyio.fail_after(WAIT):
        async with open_provider() as provider:
            provider.play(Answer(status=status, content_type="application/json", steps=[body], headers=headers))
            async with start_server(config_of(0, None, provider.base_url)) as server, client(server.ws_url) as alice:
                image_id = (await alice.image())["imageId"]
                sent = await alice.request("message_send_request", imageId=image_id, content="go")
                end = (await alice.end_of(sent["turnId"]))["data"]
                assert (end["outcome"], end["price"]) == ("failed", 0)
                assert await all_entries(server) == []
                asked = server.server.vm.tenancy.store.accounts(DEFAULT_TENANT).asked
                assert await asked.of_turn(sent["turnId"]) == ()


async def test_f28_a_call_that_never_left_costs_nothing() -> None:
    async with open_provider() as provider:
        nobody = provider.base_url
    with anyio.fail_after(WAIT):
        async with start_server(config_of(0, None, nobody)) as server, client(server.ws_url) as alice:
            image_id = (await alice.image())["imageId"]
            sent = await alice.request("message_send_request", imageId=image_id, content="go")
            end = (await alice.end_of(sent["turnId"]))["data"]
            assert (end["outcome"], end["price"]) == ("failed", 0)
            assert await all_entries(server) == []


async def test_f28_a_prepaid_tenant_cannot_spend_more_with_documents_than_it_has() -> None:
    """Forty messages at once, each with a document by URL: the provider counts 250,000 tokens for each."""
    usage: play.Json = {"input_tokens": 250_000, "output_tokens": 5}
    answer = play.stream(
        [play.message_start(usage=usage), *play.text_block(0, "read"), *play.message_end("end_turn", usage=usage)]
    )
    document = {"type": "file", "data": "https://example.org/big.pdf", "mediaType": "application/pdf"}
    dollar = 1_000_000_000
    with anyio.fail_after(2 * WAIT):
        async with open_provider() as provider:
            provider.play(answer)
            async with start_server(config_of(0, None, provider.base_url)) as server, client(server.ws_url) as alice:
                tenancy = server.server.vm.tenancy
                await tenancy.store.accounts(DEFAULT_TENANT).ledger.credit(
                    Credit(reference="first", at=1, amount=2 * dollar, actor="test")
                )
                await tenancy.quotas.reread(DEFAULT_TENANT)
                images = [(await alice.image())["imageId"] for _ in range(40)]
                sent = [
                    await alice.request("message_send_request", imageId=image_id, content=[document]) for image_id in images
                ]
                ends = [(await alice.end_of(one["turnId"]))["data"] for one in sent]
                wallet = await tenancy.store.accounts(DEFAULT_TENANT).ledger.wallet()
                entries = await all_entries(server)
    # A window costs more than there is, at the price of writing it to the cache: nobody is asked.
    assert {end["outcome"] for end in ends} == {"failed"}
    assert (entries, wallet.balance) == ([], 2 * dollar)


@dataclass(frozen=True)
class Row:
    key: str
    turn_id: str


def unfinished(data_dir: Path) -> int:
    with closing(sqlite3.connect(data_dir / DATABASE)) as database:
        return int(database.execute("SELECT count(*) FROM turns WHERE outcome IS NULL").fetchone()[0])


def read_turns(data_dir: Path) -> dict[str, str]:
    """Turns by what was said."""
    with closing(sqlite3.connect(data_dir / DATABASE)) as database:
        rows = database.execute("SELECT turn_id, body FROM turns JOIN all_messages USING (session_key, message_id)")
        return {json.loads(body)["content"]: turn_id for turn_id, body in rows}


async def test_f28_what_a_killed_server_had_asked_is_billed_by_the_next(tmp_path: Path) -> None:
    dice = random.Random("kills")
    with anyio.fail_after(200 + 20 * KILLS):
        async with open_provider() as provider:
            provider.play(spoken("anthropic", 0.01))
            async with open_server(tmp_path, "tests.faults.billed", provider.base_url) as server:
                for kill in range(KILLS):
                    before = len(provider.requests)
                    async with client(server.url) as alice:
                        images = [(await alice.image())["imageId"] for _ in range(TURNS_A_KILL)]
                        for number, image_id in enumerate(images):
                            await alice.ask("message_send_request", imageId=image_id, content=f"kill {kill} turn {number}")
                        await provider.wait_request(before + dice.randint(1, TURNS_A_KILL))
                        for _ in range(dice.randrange(300)):
                            await anyio.lowlevel.checkpoint()
                        await server.end(signal.SIGKILL)
                    await server.start()
                    await until(lambda: unfinished(tmp_path) == 0)
                await server.end(signal.SIGTERM)
            with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
                rows = [Row(*row) for row in database.execute("SELECT key, turn_id FROM ledger")]
                assert database.execute("SELECT count(*) FROM asked").fetchone() == (0,)
                sums = database.execute("SELECT sum(price), (SELECT spent FROM wallets) FROM ledger").fetchone()
    turns = read_turns(tmp_path)
    asked = Counter(turns[said_in(request)] for request in provider.requests)
    billed = Counter(row.turn_id for row in rows)
    missing = {turn_id: number for turn_id, number in asked.items() if billed[turn_id] < number}
    assert not missing, f"asked and not billed: {missing}"
    # A kill between the commit and the request: nobody can know any more that it never left.
    surplus = (billed - asked).total()
    assert surplus <= KILLS * TURNS_A_KILL // 2
    assert sums[0] == sums[1]
    print(f"{KILLS} kills, {asked.total()} calls asked, {billed.total()} billed, {surplus} never left")  # noqa: T201
