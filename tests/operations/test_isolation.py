"""F16 for commands: every command, with every foreign id, is answered as if there were nothing, and nobody else hears of it.

Generated from the command table: a new command is covered by itself.
"""

import json
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.operations.fixtures import Desk, open_desk
from tests.protocol.fixtures import REQUESTS
from tests.support.examples import examples

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.model.principal import EVERYTHING, Principal

IDS = ("containerId", "imageId", "sessionId", "agentId")
STRANGERS = {
    "another tenant": Principal(tenant_id=TenantId("other"), permissions=EVERYTHING),
    "another container": Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING, containers=("mine",)),
    "a pattern of containers": Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING, containers=("mine-*", "my?")),
}


def named(command: str, ids: dict[str, str]) -> dict[str, object]:
    # An agent can be named by the id of its image.
    return {name: ids.get("imageId" if value == "img_1" else name, value) for name, value in REQUESTS[command].items()}


def absent(ids: dict[str, str]) -> dict[str, str]:
    """Ids of the same shape that nobody has."""
    return {name: value[:-1] + ("0" if value[-1] != "0" else "1") for name, value in ids.items()}


async def own_everything(desk: Desk) -> dict[str, str]:
    record = await desk.create_image("theirs")
    sent = await desk.ask("message_send", imageId=record["imageId"], content="secret")
    await desk.hear("turn_response")
    return {
        "containerId": "theirs",
        "imageId": record["imageId"],
        "sessionId": record["sessionId"],
        "agentId": sent["agentId"],
    }


def without(ids: dict[str, str], reply: Any) -> str:
    text = json.dumps(reply, sort_keys=True)
    for name, value in ids.items():
        text = text.replace(value, f"<{name}>")
    return text


@pytest.mark.parametrize("command", REQUESTS)
async def test_f16_what_is_not_ones_own_looks_as_if_it_were_not_there(command: str) -> None:
    async with open_desk(ScriptedDriver()) as owner:
        ids = await own_everything(owner)
        before = await owner.ask("image_messages", imageId=ids["imageId"])
        for stranger, principal in STRANGERS.items():
            owner.forget()
            replies = []
            for chosen in (ids, absent(ids)):
                asker = Desk(owner.vm, owner.vm.attach(principal))
                reply = await asker.ask(command, **named(command, chosen))
                # The second resource is the asker's own first one.
                reply.pop("created", None)
                replies.append(without(chosen, reply))
                # What it is told besides the reply are errors about what it named itself.
                assert {event["category"] for event in asker.heard} <= {"response", "error", "lifecycle"}
                lifecycle = [event for event in asker.heard if event["category"] == "lifecycle"]
                assert ids["imageId"] not in json.dumps(lifecycle)
                asker.vm.detach(asker.peer)
            if stranger != "another tenant" or "containerId" not in REQUESTS[command]:
                # Another tenant may have a container of the same name, which is its own.
                assert replies[0] == replies[1], stranger
            assert owner.hear_nowait() == []
            assert await owner.ask("image_messages", imageId=ids["imageId"]) == before


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_f16_a_stranger_hears_nothing_of_what_others_do(stranger: str) -> None:
    async with open_desk(ScriptedDriver()) as owner:
        asker = Desk(owner.vm, owner.vm.attach(STRANGERS[stranger]))
        ids = await own_everything(owner)
        for command in REQUESTS:
            await asker.ask(command, **named(command, ids))
        asker.forget()
        await owner.ask("message_send", imageId=ids["imageId"], content="again")
        await owner.hear("turn_response", times=2)
        await owner.ask("session_create", imageId=ids["imageId"], title="another")
        await owner.ask("image_update", imageId=ids["imageId"], updates={"name": "New"})
        foreign = [value for name, value in ids.items() if name != "containerId"]
        heard = json.dumps(asker.hear_nowait())
        assert not [value for value in foreign if value in heard]


class Two:
    """Two tenants with the same names for everything they may name themselves."""

    def __init__(self, desk: Desk) -> None:
        self.desks = [desk.another(), desk.another("other")]
        self.ids: list[set[str]] = [set(), set()]
        self.known: list[list[dict[str, str]]] = [[], []]

    async def act(self, who: int, command: str, which: int, foreign: bool) -> None:
        of = 1 - who if foreign else who
        ids = self.known[of][which % len(self.known[of])] if self.known[of] else {"containerId": "c1"}
        reply = await self.desks[who].ask(command, **named(command, ids))
        record = reply.get("record") or reply.get("session") or reply
        if not foreign:
            found = {name: record[name] for name in IDS if record.get(name)}
            self.ids[who] |= {value for name, value in found.items() if name != "containerId"}
            if "imageId" in found:
                self.known[who].append({"containerId": "c1", **found})

    def check(self) -> None:
        for who, desk in enumerate(self.desks):
            # What one named oneself comes back in errors; everything else must be one's own.
            events = [event for event in desk.hear_nowait() if event["category"] not in ("response", "error")]
            text = json.dumps(events)
            assert not [value for value in self.ids[1 - who] if value in text]


steps = st.tuples(st.integers(0, 1), st.sampled_from(sorted(REQUESTS)), st.integers(0, 5), st.booleans())


@settings(max_examples=examples(20, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=25))
def test_f16_however_two_tenants_interleave_no_frame_carries_the_others_ids(acts: list[tuple[int, str, int, bool]]) -> None:
    async def run() -> None:
        async with open_desk(ScriptedDriver()) as desk:
            two = Two(desk)
            for who in (0, 1):
                await two.act(who, "image_create", 0, False)
            for act in acts:
                await two.act(*act)
                two.check()
            await anyio.wait_all_tasks_blocked()
            two.check()

    anyio.run(run)
