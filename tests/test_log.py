import logging

import pytest

from agentvm.log import get_logger


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
