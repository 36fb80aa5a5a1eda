import io
import os
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from agentvm.cli.echo import drop_typed, without_echo


class Tty:
    """A terminal: what a program reads, and the side where keys are pressed."""

    def __init__(self) -> None:
        self.keys, inner = os.openpty()
        self.stream: TextIO = open(inner, encoding="utf-8")

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.keys)[3] & termios.ECHO)


@pytest.fixture
def tty() -> Iterator[Tty]:
    opened = Tty()
    yield opened
    opened.stream.close()
    os.close(opened.keys)


def test_echo_is_off_and_on_again_also_after_a_failure(tty: Tty) -> None:
    inside = []

    def interrupted() -> None:
        with without_echo(tty.stream):
            inside.append(tty.echoes)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert inside == [False]
    assert tty.echoes


def test_ctrl_c_discards_nothing_that_was_written(tty: Tty) -> None:
    # Seen by its mark: whether a terminal really discards something depends on who is quicker.
    with without_echo(tty.stream):
        assert termios.tcgetattr(tty.keys)[3] & termios.NOFLSH
    assert not termios.tcgetattr(tty.keys)[3] & termios.NOFLSH


def test_keys_that_nobody_read_are_dropped(tty: Tty) -> None:
    os.write(tty.keys, b"unread\n")
    drop_typed(tty.stream)
    os.write(tty.keys, b"read\n")
    assert tty.stream.readline() == "read\n"


def test_what_is_no_terminal_is_left_alone() -> None:
    stream = io.StringIO("text")
    with without_echo(stream):
        drop_typed(stream)
    assert stream.read() == "text"
