"""A server that has its database alone runs nothing of the cluster."""

import sys
from types import FrameType

from tests.cluster.conftest import Gate
from tests.cluster.talking import Talker

import agentvm.cluster
from agentvm import ScriptedDriver, ServerConfig
from agentvm.app import open_agentvm
from agentvm.config import SessionSettings, SystemSettings

PACKAGE = next(iter(agentvm.cluster.__path__))
JUST_RUNS_THE_TASK = {"while_leading"}


async def test_a_turn_on_sqlite_runs_no_code_of_the_cluster(gate: Gate) -> None:
    ran: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            ran.add(frame.f_code.co_name)

    config = ServerConfig(system=SystemSettings(data_dir=":memory:"), sessions=SessionSettings(titles="off"))
    sys.setprofile(note)
    try:
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver(gate.script)}) as vm:
            talker = Talker(vm)
            image_id, session_id = await talker.create()
            talker.listen(session_id)
            await talker.send(image_id, "hello")
            await talker.until("turn_response")
            assert vm.runtime.journal.publish is None
            assert vm.runtime.broadcaster.interest is None
            assert vm.tenancy.quotas.parts is None
    finally:
        sys.setprofile(None)
    assert ran <= JUST_RUNS_THE_TASK
