"""Checks — what must be true at the end of every history."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from agentvm.model.ids import DEFAULT_TENANT, ContainerId, SessionId
from agentvm.model.message import Message, UserMessage
from agentvm.model.usage import Usage
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime.replay import Replay
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.sessions.dropping import FOR_GOOD_MS
from agentvm.storage.sql.store import Store
from tests.faults.invariants import check_events, check_messages, check_stops, check_texts
from tests.simulation.device import Sent, User
from tests.simulation.disk import SimulatedDatabase
from tests.simulation.frames import decode
from tests.simulation.people import check_parked
from tests.simulation.process import RATE, SPARE, SPARE_RATE
from tests.simulation.programs import check_nested
from tests.simulation.provider import FIRST_CALL, ModelCall, numbers_in
from tests.simulation.world import World

Frame = dict[str, Any]


async def check(world: World) -> None:
    """Raises AssertionError with what is wrong."""
    assert not world.complaints, "\n".join(world.complaints)
    await _check_deleted(world)
    left = world.disk.query("SELECT entry, body FROM journal")
    assert not left, f"the journal is not empty: {left}"
    assert world.disk.query("SELECT turn_id FROM turns WHERE outcome IS NULL") == [], "turns have no end"
    held = world.disk.query("SELECT session_id, runner, tail_of FROM sessions WHERE runner IS NOT NULL OR tail_of IS NOT NULL")
    assert not held, f"nobody runs these sessions, and they were not let go: {held}"
    repeated = {call_id: runs for call_id, runs in world.provider.runs.items() if runs > 1}
    assert not repeated, f"tools were run again: {repeated}"
    check_ledger(world.disk.query(LEDGER), world.provider.calls)
    check_drivers(world.disk.query("SELECT key, input_tokens, driver FROM ledger"), world.provider.calls)
    _check_wallet(world)
    _check_asked(world)
    world.people.check()
    if world.provider.programs is not None:
        world.provider.programs.check(world)
    for user in world.users:
        await _check_user(world, user)


async def _check_deleted(world: World) -> None:
    """A deletion that a crash cut short ends when the server is idle, and leaves nothing."""
    ((unfinished,),) = world.disk.query("SELECT count(*) FROM sessions WHERE deleted_at = ?", (FOR_GOOD_MS,))
    world.counts["deletions cut short"] += unfinished
    await Store(SimulatedDatabase(world.disk)).purge_sessions(FOR_GOOD_MS)
    left = world.disk.query("SELECT session_id FROM sessions WHERE deleted_at = ?", (FOR_GOOD_MS,))
    assert not left, f"sessions were deleted for good and are there: {left}"
    for table in ("turns", "waits", "all_messages", "log"):
        orphans = world.disk.query(f"SELECT count(*) FROM {table} WHERE session_key NOT IN (SELECT session_key FROM sessions)")
        assert orphans == [(0,)], f"{table} has {orphans} rows of sessions that are gone"


LEDGER = "SELECT key, input_tokens, output_tokens, estimated, price FROM ledger"


def check_ledger(rows: Sequence[tuple[str, int, int, int, int | None]], calls: Sequence[ModelCall]) -> None:
    """F17: every call is billed at most once, and for exactly what its provider reported, unless it says that it estimates."""
    billed: Counter[int] = Counter()
    for key, read, written, estimated, price in rows:
        assert price is not None, f"{key} has no price"
        assert price >= 0, f"{key} costs {price}"
        if read < FIRST_CALL:
            assert estimated or not (read or written), f"{key} was billed for {read} and {written}, which nobody reported"
            continue
        number = read - FIRST_CALL
        billed[number] += 1
        reports = [report.output_tokens for report in calls[number].reports]
        assert estimated or written in reports, f"call {number} reported {reports} and was billed for {written}"
        # A crash may take the last report with it; then what was told before it counts.
        assert not estimated or written > min(reports), f"call {number} reported {reports} and was estimated at {written}"
    twice = {number: times for number, times in billed.items() if times > 1}
    assert not twice, f"calls were billed more than once: {twice}"


def check_drivers(rows: Sequence[tuple[str, int, str]], calls: Sequence[ModelCall]) -> None:
    """Who really answered is billed, whoever was chosen, and also when a crash was in between."""
    for key, read, driver in rows:
        if read >= FIRST_CALL:
            asked = calls[read - FIRST_CALL].driver
            assert driver == asked, f"{key} was answered by {asked} and billed as one of {driver}"


def _check_wallet(world: World) -> None:
    """The wallet is the sum of the ledger. What was used is charged, and nobody is asked for anything once all is spent.

    The provider reports far more than its prompts can have, so one may be overdrawn: also by a call that was admitted before.
    """
    for (spent,) in world.disk.query("SELECT spent FROM wallets"):
        sums = world.disk.query("SELECT coalesce(sum(price), 0) FROM ledger")
        assert sums == [(spent,)], f"{spent} was spent, and the ledger has {sums}"
    # Nodes count what is spent, each for itself; the others learn of it with the next period.
    assert world.is_shared or not world.provider.overdrawn, (
        f"{world.provider.overdrawn} calls were admitted although nothing was left"
    )
    rates = {"simulated": RATE, SPARE: SPARE_RATE}
    for key, driver, read, written, cost, price in world.disk.query(CHARGED):
        due = rates[driver].cost(Usage(input_tokens=read, output_tokens=written))
        assert (cost, price) == (due, round(due * Decimal("1.05"))), f"{key} costs {due}, and {price} was charged for {cost}"


def _check_asked(world: World) -> None:
    """F28: whatever the provider was asked is in the ledger, unless it has refused it."""
    left = world.disk.query("SELECT key FROM asked")
    assert not left, f"calls were asked and never settled: {left}"
    asked = sum(not call.refused for call in world.provider.calls)
    ((entries,),) = world.disk.query("SELECT count(*) FROM ledger")
    assert entries >= asked, f"the provider was asked {asked} times, and the ledger has {entries} entries"
    # A crash may come between the commit and the request, or between a refusal and the commit that says so.
    surplus = entries - asked
    assert surplus <= world.counts["crashes"] * 8, f"the provider was asked {asked} times, and {entries} are in the ledger"
    world.counts["billed beyond"] += surplus


CHARGED = "SELECT key, driver, input_tokens, output_tokens, cost, price FROM ledger"


async def _check_user(world: World, user: User) -> None:
    store = Store(SimulatedDatabase(world.disk))
    container = store.tenant(DEFAULT_TENANT).container(ContainerId(user.container_id))
    images = await container.list_images()
    missing = user.created - user.deleted - {image.image_id for image in images}
    assert not missing, f"images were created and are gone: {missing}"
    replay = Replay(store, lambda tenant_id, session_id: None)
    sent: dict[str, list[Sent]] = defaultdict(list)
    for one in user.sent:
        assert len(one.acked) <= 1 or one.session_id in world.thinned, f"{one.text} was accepted as {one.acked}"
        sent[one.session_id].append(one)
    for image in images:
        for session in await container.list_sessions(image.image_id):
            await _check_recalled(world, container, session.session_id)
            if session.session_id in world.thinned:
                # What was told of what is gone is gone, too.
                world.counts["thinned"] += 1
                continue
            events = await _read_log(world, replay, user, session.session_id)
            messages = _check_standing(world, session.session_id, events, await container.list_messages(session.session_id))
            check_events(events)
            check_texts(events, disk_failed=world.disk.failed > 0)
            check_messages(events, messages)
            check_stops(events)
            check_parked(events)
            check_nested(events)
            _check_sent(sent[session.session_id], events, messages)
            _check_results(world, events, messages)
            _check_usage(world, events, messages)
            _check_bill(world, events, messages)
            _check_heard(world, user, session.session_id, len(events))
            world.counts["resumed"] += sum(event["type"] == "turn_resumed" for event in events)
            world.counts["rewound"] += sum(event["type"] == "session_rewound" for event in events)
            world.counts["events"] += len(events)


async def _check_recalled(world: World, container: ContainerStore, session_id: SessionId) -> None:
    """A model would be told of all that stands, and a summary says nothing of what does not."""
    recalled = await container.log(session_id).recall()
    there, told = _numbers(await container.list_messages(session_id)), _numbers(recalled.messages)
    summed = set() if recalled.summary is None else numbers_in(recalled.summary.text)
    assert told | summed == there, f"{session_id} has {sorted(there)}; {sorted(told)} are told and {sorted(summed)} summed up"
    assert not told & summed, f"{sorted(told & summed)} are told and summed up in {session_id}"
    world.counts["summed up"] += len(summed)


def _numbers(messages: Sequence[Message]) -> set[int]:
    said = (str(message.content) for message in messages if isinstance(message, UserMessage))
    return {number for text in said for number in numbers_in(text)}


EVERY_MESSAGE = """
SELECT body FROM sessions JOIN all_messages USING (session_key) WHERE session_id = ? ORDER BY position
"""


def _check_standing(world: World, session_id: SessionId, events: list[Frame], standing: Sequence[Message]) -> list[Frame]:
    """What stands is what was ever said without what was taken back. Gives all that was said here, taken back or not."""
    ever = [msgspec.json.decode(body) for (body,) in world.disk.query(EVERY_MESSAGE, (session_id,))]
    taken = [message_id for event in events if event["type"] == "session_rewound" for message_id in event["data"]["messageIds"]]
    assert len(set(taken)) == len(taken), f"taken back twice in {session_id}"
    left = [message["id"] for message in ever if message["id"] not in set(taken)]
    assert [message.id for message in standing] == left, f"{session_id} does not have what was left in it"
    begun = {event["data"]["turnId"] for event in events if event["type"] == "turn_request"}
    # A fork begins with what was said elsewhere.
    return [message for message in ever if message["turnId"] in begun]


async def _read_log(world: World, replay: Replay, user: User, session_id: SessionId) -> list[Frame]:
    """The whole log, which must be what was heard of it."""
    frames: list[Frame] = []
    while True:
        after = int(frames[-1]["cursor"]) if frames else 0
        missed = await replay.read(DEFAULT_TENANT, ContainerId(user.container_id), session_id, after)
        assert not missed.lost, f"the log of {session_id} has lost what follows {after}"
        if not missed.events:
            break
        for frame in filter(None, map(encode_event, missed.events)):
            stored, _ = decode(frame.bare)
            told = world.told.pop((session_id, stored.cursor or ""), stored)
            assert told.same(stored), f"{session_id} has {stored} at {stored.cursor}, and somebody heard {told}"
            frames.append(msgspec.json.decode(frame.bare))
    beyond = [cursor for session, cursor in world.told if session == session_id]
    assert not beyond, f"somebody heard {beyond} of {session_id}, which are not in the log"
    return frames


def _check_sent(sent: list[Sent], events: list[Frame], messages: list[Frame]) -> None:
    """What was acknowledged is there once; what was sent is there at most once; what was refused is not there."""
    said = Counter(message["content"] for message in messages if message["role"] == "user")
    ids = {message["id"]: message for message in messages if message["role"] == "user"}
    turns = {event["data"]["turnId"]: event["data"] for event in events if event["type"] == "turn_request"}
    for one in sent:
        found = said[one.text]
        assert found <= 1, f"{one.text} is there {found} times"
        for message_id, turn_id in one.acked:
            assert ids[message_id]["content"] == one.text, f"{one.text} was accepted and is not there"
            assert turns[turn_id]["messageId"] == message_id, f"{one.text} was accepted and has no turn"
            assert turns[turn_id].get("clientKey") == one.key
        if one.refused == one.times:
            assert found == 0, f"{one.text} was refused and is there"


def _check_results(world: World, events: list[Frame], messages: list[Frame]) -> None:
    """Each call of a tool that has begun has one result. Those of an answer that was cut off never began."""
    told = (event["data"] for event in events if event["type"] == "tool_started")
    # Those of a program have no result but its program's.
    begun = {(data["turnId"], data["toolId"].partition(".")[0]) for data in told}
    called = {(message["turnId"], message["toolCall"]["id"]) for message in messages if "toolCall" in message}
    results = Counter((message["turnId"], message["toolCallId"]) for message in messages if message["role"] == "tool")
    assert results <= Counter(called), f"results without a call, or two of one: {results - Counter(called)}"
    # A turn that is ended because the disk cannot be read is not known to have called anything.
    unread = {message["turnId"] for message in messages if message.get("errorCode") == "store_failed"}
    missing = (begun & called) - results.keys()
    assert all(turn_id in unread for turn_id, _ in missing), f"calls that have begun and have no result: {missing}"
    world.counts["calls without a result"] += len(missing)


def _check_usage(world: World, events: list[Frame], messages: list[Frame]) -> None:
    """A turn has used at least what the provider reported for each of its calls that was finished and kept."""
    ends = {event["data"]["turnId"]: event["data"] for event in events if event["type"] == "turn_response"}
    for end in ends.values():
        assert end["duration"] >= 0, end
    calls = _calls_of(messages, events)
    used: Counter[tuple[str, str]] = Counter()
    for turn_id, number in calls.values():
        call = world.provider.calls[number]
        if call.stopped and call.reported is not None:
            used[turn_id, "inputTokens"] += call.reported.input_tokens
            used[turn_id, "outputTokens"] += call.reported.output_tokens
    for (turn_id, kind), tokens in used.items():
        assert ends[turn_id]["usage"][kind] >= tokens, (turn_id, kind, ends[turn_id]["usage"], tokens)


def _check_bill(world: World, events: list[Frame], messages: list[Frame]) -> None:
    """Whatever was told of a call, it is in the ledger; what was finished, for all that was reported; and turns say the sum."""
    rows = {str(row[0]): row for row in world.disk.query(LEDGER)}
    told = [event["data"]["messageId"] for event in events if event["type"] == "message_start"]
    unpaid = [message_id for message_id in told if message_id not in rows]
    assert not unpaid, f"calls were made and not billed: {unpaid}"
    for message_id, (_, number) in _calls_of(messages, events).items():
        call = world.provider.calls[number]
        if call.stopped and call.reported is not None and not rows[message_id][3]:
            assert rows[message_id][2] == call.reported.output_tokens, f"call {number} is not billed for all it reported"
    by_turn: Counter[str] = Counter()
    errors: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event["type"] == "error_message":
            errors[event["data"]["turnId"]].add(event["data"].get("errorCode"))
    for turn_id, price in world.disk.query("SELECT turn_id, price FROM ledger"):
        by_turn[turn_id] += price or 0
    for event in events:
        if event["type"] == "turn_response":
            data = event["data"]
            if data.get("price") is None:
                # Whoever cannot read the ledger does not know the price, and says no other.
                assert data["outcome"] == "interrupted" or "store_failed" in errors[data["turnId"]], f"{data} has no price"
                world.counts["ends without a price"] += 1
                continue
            assert data["price"] == by_turn[data["turnId"]], f"{data} and the ledger says {by_turn[data['turnId']]}"


def _cut_off(events: list[Frame]) -> set[str]:
    """Messages whose call a crash cut off: what the provider reported after that, nobody has heard."""
    speaking: dict[str, str] = {}
    cut: set[str] = set()
    for event in events:
        turn_id = event["context"].get("turnId", "")
        match event["type"]:
            case "message_start":
                speaking[turn_id] = event["data"]["messageId"]
            case "message_stop":
                speaking.pop(turn_id, None)
            case "turn_resumed" if turn_id in speaking:
                cut.add(speaking[turn_id])
            case _:
                pass
    return cut


def _calls_of(messages: list[Frame], events: list[Frame]) -> dict[str, tuple[str, int]]:
    """Which call of the provider each assistant message came from: its text or its tool calls say so.

    The text of one that a restart cut off begins with what the call before had said.
    """
    started = [event["data"] for event in events if event["type"] == "message_start"]
    before = {data["messageId"]: data.get("text", "") for data in started}
    calls: dict[str, tuple[str, int]] = {}
    for message in messages:
        if message["role"] != "assistant":
            continue
        if "toolCall" in message:
            calls[message["parentId"]] = (message["turnId"], int(message["toolCall"]["id"].split("_")[1]))
        elif "usage" in message:  # Without it a restart kept what was said of an answer that nobody heard the end of.
            text = "".join(part["text"] for part in message["content"] if part["type"] == "text")
            if named := re.findall(r"#(\d+) ", text.removeprefix(before.get(message["id"], ""))):
                calls[message["id"]] = (message["turnId"], int(named[-1]))
    kept = {message["id"] for message in messages} - _cut_off(events)
    return {message_id: call for message_id, call in calls.items() if message_id in kept}


def _check_heard(world: World, user: User, session_id: str, last: int) -> None:
    """Whoever came back at the end with a cursor has heard everything since."""
    for device in world.devices:
        if device.user is user and device.follows and session_id in device.cursors:
            heard = device.cursors[session_id]
            assert heard == last, f"{device.name} has heard {session_id} up to {heard} of {last}"
