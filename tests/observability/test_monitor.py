from pathlib import Path

import pytest
from tests.observability.worlds import provider
from tests.runtime.fixtures import Ticking, open_world

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import NotAvailable
from agentvm.observability.monitor import NO_SPACE, Monitor, known_models
from agentvm.observability.sampler import DISK_FULL_BYTES


def monitor(path: Path | None = None) -> Monitor:
    return Monitor(clock=Ticking(), is_known=lambda provider, model: True, database=path)


async def test_it_reads_a_runtime_that_it_watches(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    watching = monitor(path)
    async with open_world(ScriptedDriver(), path=path, effectors=[watching.metrics]) as world:
        watching.watch(world.runtime, world.store, lambda: 2)
        await world.say(world.start(), "hello")
        await world.hear("turn_response")
        now = watching.gauges()
        assert (now.agents, now.containers, now.connections, now.quarantined) == (1, 1, 2, 0)
        assert now.database_bytes > 0
        assert (now.disk_free or 0) > 0
        assert watching.report().turns.completed == 1
        assert watching.status(1).status == "ok"
        assert len(watching.samples()) > 40


def test_nothing_is_read_before_there_is_a_runtime() -> None:
    with pytest.raises(NotAvailable):
        monitor().gauges()


def test_a_full_disk_is_in_the_way() -> None:
    watching = monitor()
    assert watching.hindrance is None
    watching.sampler.disk_free = DISK_FULL_BYTES - 1
    assert watching.hindrance == NO_SPACE


def test_the_operator_knows_what_is_configured_and_what_they_named() -> None:
    known = known_models(lambda: (provider("anthropic"),), lambda: ("anthropic/haiku", "nobody/x"))
    assert [known(*name) for name in (("anthropic", "m"), ("anthropic", "haiku"), ("anthropic", ""))] == [True] * 3
    assert [known(*name) for name in (("anthropic", "x"), ("nobody", "x"), ("", ""))] == [False] * 3
