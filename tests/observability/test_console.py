import io
import json
import logging
from collections.abc import Iterator

import pytest

from agentvm.errors import ConfigInvalid
from agentvm.log import conceal, concealed, get_logger
from agentvm.model.secret import Secret
from agentvm.observability.console import configure_logs

logger = get_logger("agentvm.tests.logs")


class TerminalStream(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, ours, theirs = logging.getLogger(), logging.getLogger("agentvm"), logging.getLogger("uvicorn.error")
    before = (root.handlers[:], root.level, ours.level, theirs.level)
    # Ours first takes all handlers away, and would close pytest's.
    root.handlers = []
    # Servers that other tests have run in this process may have silenced it.
    theirs.setLevel(logging.NOTSET)
    yield
    root.handlers, root.level, ours.level, theirs.level = before


def test_away_from_a_terminal_entries_are_lines_of_json_with_their_time() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logger.info("agent_stopped", agent_id="a1", turns=2)
    logger.debug("unheard")
    entry = json.loads(stream.getvalue())
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {"level": "info", "logger": "agentvm.tests.logs", "event": "agent_stopped", "agent_id": "a1", "turns": 2}


def test_in_a_terminal_entries_are_key_value_pairs() -> None:
    stream = TerminalStream()
    configure_logs("debug", stream=stream)
    logger.debug("agent_stopped", agent_id="a1", why="it was asked to")
    line = stream.getvalue()
    assert line.startswith("timestamp=")
    assert 'level=debug event=agent_stopped logger=agentvm.tests.logs agent_id=a1 why="it was asked to"\n' in line


def test_secrets_and_query_strings_are_never_written() -> None:
    stream = io.StringIO()
    configure_logs("info", secrets=[Secret("sk-hidden"), None], stream=stream)
    facts = {
        "url": "ws://me:sk-pass@host/ws?token=sk-query#x",
        "path": "/ws?token=sk-query",
        "Authorization": "Bearer sk-named",
    }
    logger.info("refused", **facts, inner={"api_key": "sk-named", "text": ["said sk-hidden"]}, held=Secret("sk-held"))
    try:
        raise ValueError("the key sk-hidden is wrong")
    except ValueError:
        logger.exception("crashed")
    written = stream.getvalue()
    assert "sk-" not in written
    assert "ws://***@host/ws" in written
    assert "the key *** is wrong" in written


def test_a_key_that_came_later_is_taken_out_too_and_whole_also_if_another_begins_it() -> None:
    stream = io.StringIO()
    configure_logs("info", secrets=[Secret("sk-first")], stream=stream)
    for secret in ("sk-first-and-more", "word", ""):
        conceal(secret)
    try:
        logger.info("told", text="sk-first-and-more, sk-first and a word")
    finally:
        concealed.clear()
    assert json.loads(stream.getvalue())["text"] == "***, *** and a word"


def test_counts_of_tokens_are_no_secrets() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logger.info("turn_ended", input_tokens=12)
    assert json.loads(stream.getvalue())["input_tokens"] == 12


def test_libraries_are_heard_from_warnings_upward() -> None:
    stream = io.StringIO()
    configure_logs("debug", stream=stream)
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").warning("GET %s", "/ws?token=1")
    assert json.loads(stream.getvalue())["event"] == "GET /ws"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ConfigInvalid):
        configure_logs("loud")


@pytest.mark.parametrize("stream", [TerminalStream(), io.StringIO()])
def test_nothing_that_a_terminal_would_obey_is_written(stream: io.StringIO) -> None:
    configure_logs("info", stream=stream)
    logger.info("command_refused", container_id="a\x1b[2J\x9b31m\rlevel=critical\n\u202eb\ud800 \U000e0001 Zoë 名前")
    written = stream.getvalue()
    assert written.endswith("\n")
    assert written[:-1].isprintable()
    assert "Zoë 名前" in written
    assert r"\u001b[2J" in written


def test_a_line_of_json_stays_one_whatever_is_in_it() -> None:
    stream, name = io.StringIO(), "a\x1b[2J\x9b31m\r\n\u202eb \U000e0001 Zoë 名前"
    configure_logs("info", stream=stream)
    logger.info("command_refused", container_id=name)
    assert json.loads(stream.getvalue())["container_id"] == name
