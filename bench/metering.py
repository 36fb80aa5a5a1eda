"""Metering — what the gate, the quotas and the ledger add to a turn.

    python -m bench.metering [--turns 400]

The same turns (100 deltas each) run in this process with nothing set aside and without prices, and for a tenant with limits of
every kind and a prepaid wallet; both have the gate and a row in the ledger. Compared is the CPU per turn, in alternating
rounds. Goal: less than 5 %.
"""

import argparse
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.model.account import Quota, User
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, UserId
from agentvm.model.ledger import Credit
from agentvm.model.principal import MEMBER, Principal
from agentvm.operations.dispatch import answer
from agentvm.operations.image_build import ImageCreate
from agentvm.operations.message import MessageSend
from agentvm.runtime.billing import Unmetered
from agentvm.vm import Peer
from bench.measure import table
from bench.servers import StampingDriver

ALICE = Principal(tenant_id=DEFAULT_TENANT, user_id=UserId("alice"), permissions=MEMBER, containers=("user-alice",))
LIMITED = ("requests_per_minute", "tokens_per_day", "tokens_per_month", "budget_per_month")


@asynccontextmanager
async def opened(metered: bool) -> AsyncIterator[tuple[Peer, ImageId]]:
    with TemporaryDirectory() as data_dir:
        config = ServerConfig(system=SystemSettings(port=0, data_dir=str(Path(data_dir)), shutdown_seconds=0))
        async with open_agentvm(config, drivers={"scripted": StampingDriver(0.0)}) as vm:
            accounts = vm.tenancy.store.accounts(DEFAULT_TENANT)
            user = User(user_id=UserId("alice"), tenant_id=DEFAULT_TENANT, external_id="alice", created_at=1, updated_at=1)
            await accounts.users.add(user)
            if metered:
                for metric in LIMITED:
                    for user_id in (None, ALICE.user_id):
                        await accounts.quotas.put(Quota(metric=metric, hard=10**15, soft=10**14, user_id=user_id), 1)
                await accounts.ledger.credit(Credit(reference="first", at=1, amount=10**15, actor="bench"))
            else:
                # Only a benchmark may do this: a runtime is opened with its meter.
                object.__setattr__(vm.runtime._ports, "meter", Unmetered())
            peer = vm.attach(ALICE)
            await peer.store.container(ContainerId("user-alice")).create(1)
            await answer(peer, ImageCreate(container_id="user-alice"), "r")
            (image,) = await peer.store.container(ContainerId("user-alice")).list_images()
            yield peer, image.image_id


async def play(peer: Peer, image_id: ImageId, turns: int) -> float:
    """Microseconds of CPU per turn, of all threads."""
    before = time.process_time()
    for _ in range(turns):
        await answer(peer, MessageSend(image_id=image_id, content="hello"), "r")
        said = ""
        while '"turn_response"' not in said:
            said = "".join(frame.bare for frame in await peer.channel.take())
        if '"outcome":"completed"' not in said:
            raise SystemExit(f"the turn was not answered: {said}")
    return (time.process_time() - before) / turns * 1e6


async def main(turns: int) -> None:
    costs: dict[bool, list[float]] = {False: [], True: []}
    async with opened(False) as plain, opened(True) as metered:
        for number in range(7):
            for kind, (peer, image_id) in ((False, plain), (True, metered)):
                cost = await play(peer, image_id, max(10, turns // 7))
                if number:
                    costs[kind].append(cost)
    floor, full = median(costs[False]), median(costs[True])
    rows = [["", "us CPU/turn", "ratio"], ["plain", f"{floor:.0f}", "1.00"]]
    print(table([*rows, ["metered", f"{full:.0f}", f"{full / floor:.3f}"]]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=400)
    anyio.run(main, parser.parse_args().turns, backend_options={"use_uvloop": True})
