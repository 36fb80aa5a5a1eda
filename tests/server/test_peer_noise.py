import logging
import sys

import pytest

from agentvm.server.peer_noise import KINDS_MAX, WINDOW_ENTRIES_MAX, WINDOW_SECONDS, PeerNoise, hush


def record(text: str, *arguments: object, trace: bool = False) -> logging.LogRecord:
    try:
        raise ValueError("inside")
    except ValueError:
        about = sys.exc_info() if trace else None
    return logging.LogRecord("uvicorn.error", logging.ERROR, "f", 1, text, arguments, about)


def test_each_kind_is_told_a_few_times_a_minute_and_then_counted() -> None:
    now = 0.0
    noise = PeerNoise(lambda: now)
    heard = [noise.filter(record("Invalid HTTP request received.")) for _ in range(1_000)]
    assert sum(heard) == WINDOW_ENTRIES_MAX
    assert noise.filter(record("something else %s", 1))
    now = WINDOW_SECONDS
    again = record("Invalid HTTP request received.")
    assert noise.filter(again)
    assert again.getMessage() == f"Invalid HTTP request received. ({1_000 - WINDOW_ENTRIES_MAX} more like this were not logged)"


def test_what_is_a_peers_fault_has_no_trace_and_what_is_ours_keeps_it() -> None:
    noise = PeerNoise()
    peers, ours = record("Invalid UTF-8 sequence received.", trace=True), record("Exception in ASGI application\n", trace=True)
    assert noise.filter(peers)
    assert (peers.exc_info, peers.levelname) == (None, "WARNING")
    assert noise.filter(ours)
    assert ours.exc_info is not None


def test_kinds_without_end_do_not_fill_the_memory() -> None:
    noise = PeerNoise()
    for number in range(3 * KINDS_MAX):
        assert noise.filter(record(f"kind {number}"))
    assert len(noise._kinds) <= KINDS_MAX


@pytest.mark.parametrize("times", [1, 2])
def test_a_logger_is_hushed_once(times: int) -> None:
    name = f"tests.hushed.{times}"
    for _ in range(times):
        hush(name)
    assert len(logging.getLogger(name).filters) == 1
