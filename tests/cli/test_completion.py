import io
from contextlib import redirect_stdout

import pytest
from tests.cli.desk import avm

from agentvm.cli import main

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_avm(shell: str) -> None:
    done = avm("completion", shell, url=NOWHERE)
    assert (done.code, done.err) == (0, "")
    assert f"_AVM_COMPLETE={shell}_complete" in done.out
    assert "avm" in done.out


def test_a_shell_that_is_not_known_is_wrong_usage() -> None:
    assert avm("completion", "tcsh", url=NOWHERE).code == 2


def complete(*words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("_AVM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["avm", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    printed = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(printed, write_through=True)) as out, pytest.raises(SystemExit):
        main.run([])
    out.flush()
    return [line.partition(",")[2] for line in printed.getvalue().decode().splitlines()]


def test_commands_and_options_are_completed_at_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete("ses", monkeypatch=monkeypatch) == ["session"]
    assert complete("session", "mar", monkeypatch=monkeypatch) == ["mark-read"]
    assert complete("session", "list", "--arch", monkeypatch=monkeypatch) == ["--archived"]
    assert set(complete("user", "create", "--role", "", monkeypatch=monkeypatch)) == {"owner", "admin", "member", "viewer"}


def test_hidden_commands_are_not_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "read" not in complete("session", "", monkeypatch=monkeypatch)


def test_completing_the_first_word_loads_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, ctx: object, name: str) -> None:
        raise AssertionError(f"{name} was loaded")

    monkeypatch.setattr(main.LazyGroup, "get_command", fail)
    assert set(complete("", monkeypatch=monkeypatch)) >= {"serve", "chat", "session"}
