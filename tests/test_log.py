import logging
from collections.abc import Iterator

import anyio
import pytest
from structlog.typing import EventDict

from agentvm import log
from agentvm.log import also_concerning, concerned, concerning, get_logger, set_level

Heard = list[tuple[str, str, EventDict]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What sinks are given."""
    entries: Heard = []

    def sink(logger: str, level: str, facts: EventDict) -> None:
        entries.append((logger, level, facts))

    log.sinks.append(sink)
    yield entries
    log.sinks.remove(sink)


def test_a_library_says_nothing_unless_it_is_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    logger = get_logger("agentvm.quiet")
    logger.info("agent_stopped", agent_id="a1")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_facts_travel_beside_the_event(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="agentvm.facts"):
        get_logger("agentvm.facts").info("agent_stopped", agent_id="a1")
    record = caplog.records[0]
    assert record.getMessage() == "agent_stopped"
    assert vars(record)["agent_id"] == "a1"


def test_the_level_can_be_changed_while_the_program_runs(caplog: pytest.LogCaptureFixture) -> None:
    ours = logging.getLogger("agentvm")
    before = ours.level
    try:
        set_level("error")
        get_logger("agentvm.tests.level").warning("unheard")
        set_level("info")
        get_logger("agentvm.tests.level").info("heard")
    finally:
        ours.setLevel(before)
    assert [record.message for record in caplog.records] == ["heard"]


def test_entries_carry_what_they_are_about_and_their_own_facts_go_before_it(heard: Heard) -> None:
    logger = get_logger("agentvm.tests.about")
    with concerning(request_id="r1", tenant_id="t1", user_id=None):
        also_concerning(turn_id="u1", session_id=None)
        logger.warning("seen", tenant_id="t2")
    logger.warning("later")
    assert heard == [
        ("agentvm.tests.about", "warning", {"event": "seen", "request_id": "r1", "tenant_id": "t2", "turn_id": "u1"}),
        ("agentvm.tests.about", "warning", {"event": "later"}),
    ]


def test_what_is_bound_within_is_alone_and_what_was_bound_outside_comes_back() -> None:
    with concerning(request_id="r1", tenant_id="t1"):
        with concerning(request_id="r2"):
            also_concerning(turn_id="u2")
            assert concerned() == {"request_id": "r2", "turn_id": "u2"}
        assert concerned() == {"request_id": "r1", "tenant_id": "t1"}
    assert concerned() == {}


def test_what_is_below_the_level_reaches_no_sink(heard: Heard) -> None:
    get_logger("agentvm.tests.about").debug("unheard")
    assert heard == []


async def test_tasks_side_by_side_do_not_see_what_the_others_are_about(heard: Heard) -> None:
    logger = get_logger("agentvm.tests.tasks")
    ready, go = [anyio.Event() for _ in range(5)], anyio.Event()

    async def handle(number: int) -> None:
        with concerning(request_id=f"r{number}"):
            also_concerning(tenant_id=f"t{number}")
            ready[number].set()
            await go.wait()
            logger.warning("handled", number=number)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(handle, number)
            for one in ready:
                await one.wait()
            assert concerned() == {}
            go.set()
    facts = [entry for _, _, entry in heard]
    assert all(entry["request_id"] == f"r{entry['number']}" and entry["tenant_id"] == f"t{entry['number']}" for entry in facts)
    assert sorted(entry["number"] for entry in facts) == [0, 1, 2, 3, 4]


def test_an_entry_can_be_about_no_tenant_wherever_it_is_made(heard: Heard) -> None:
    with concerning(tenant_id="ten_1", turn_id="turn_1"):
        get_logger("agentvm.own").warning("provider_unreachable", tenant_id=None, address="10.0.0.5")
    assert heard[0][2] == {"turn_id": "turn_1", "event": "provider_unreachable", "address": "10.0.0.5"}
