import logging

import pytest

from agentvm.log import get_logger, set_level


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
