"""Journals of programs: kept in order, once, for their own session, until the program or its turn has ended."""

import msgspec
from tests.conformance.records import HOME, SESSION, image
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.model.ids import ContainerId, TurnId
from agentvm.model.program import ProgramCall, ProgramChange, ProgramEnded
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql.store import Store

TURN = TurnId("turn_1")


def called(program: str, number: int, turn_id: TurnId = TURN) -> ProgramCall:
    return ProgramCall(turn_id=turn_id, program=program, number=number, tool="look", digest="d", result={"n": number})


async def write(store: Store, *changes: ProgramChange) -> None:
    home = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=1, programs=changes)
    assert not (await store.commit([home])).gone


async def test_results_are_read_in_order_and_the_first_one_stays(store: Store) -> None:
    await settle(store, image())
    log = store.tenant(ACME).container(HOME).log(SESSION)
    second = called("c1", 2)
    await write(store, second, called("c1", 1), called("c10", 1))
    await write(store, msgspec.structs.replace(second, result="another"))
    assert await log.list_program(TURN, "c1") == (called("c1", 1), second)
    for stranger in (store.tenant(RIVAL).container(HOME), store.tenant(ACME).container(ContainerId("other"))):
        assert await stranger.log(SESSION).list_program(TURN, "c1") == ()


async def test_an_end_drops_one_program_or_all_of_a_turn(store: Store) -> None:
    await settle(store, image())
    log, later = store.tenant(ACME).container(HOME).log(SESSION), TurnId("turn_2")
    await write(store, called("c1", 1), called("c2", 1), called("c3", 1), called("c1", 1, later))
    await write(store, ProgramEnded(turn_id=TURN, program="c1"))
    assert await log.list_program(TURN, "c1") == ()
    assert len(await log.list_program(TURN, "c2")) == 1
    await write(store, ProgramEnded(turn_id=TURN))
    assert await log.list_program(TURN, "c2") == await log.list_program(TURN, "c3") == ()
    assert len(await log.list_program(later, "c1")) == 1
