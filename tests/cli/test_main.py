import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.program import WAIT, environment, run_avm

from agentvm.cli import main
from agentvm.errors import ConfigInvalid, DataDirInUse, NotFound
from agentvm.version import VERSION

LOADED_BY_HELP = """
import sys
before = set(sys.modules)
from agentvm.cli.main import run
assert run(["--help"]) == 0
new = {name for name in sys.modules if name not in before}
ours = sorted(name for name in new if name.startswith("agentvm"))
others = {name.partition(".")[0] for name in new} - {"agentvm"} - set(sys.stdlib_module_names)
print(ours, sorted(others), file=sys.stderr)
"""


LOADED = """
import sys
import {module}
print(*sorted({{name.partition(".")[0] for name in sys.modules if not name.startswith("_")}} - set(sys.stdlib_module_names)))
print(*sorted(name for name in sys.modules if name.startswith(("agentvm.storage.sql", "agentvm.config", "agentvm.vm"))))
"""


def raising(error: BaseException) -> click.Command:
    def callback() -> None:
        raise error

    return click.Command("broken", callback=callback)


@pytest.fixture
def break_with(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("AVM_DEBUG", raising=False)
    return monkeypatch


def run_broken(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    monkeypatch.setattr(main.LazyGroup, "get_command", lambda self, ctx, name: raising(error))
    return main.run(["broken"])


def test_help_loads_nothing_but_click_and_the_version(tmp_path: Path) -> None:
    command, env = [sys.executable, "-c", LOADED_BY_HELP], environment(tmp_path)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT, check=True)
    assert done.stderr.strip() == (
        "['agentvm', 'agentvm.cli', 'agentvm.cli.exit_codes', 'agentvm.cli.main', 'agentvm.version'] ['click']"
    )
    assert "Run the server." in done.stdout


@pytest.mark.parametrize(
    ("module", "packages"),
    [
        ("agentvm.operations.table", "agentvm anyio msgspec"),
        ("agentvm.client.remote", "agentvm anyio msgspec websockets"),
        ("agentvm.cli.session", "agentvm click httpx2 msgspec"),
    ],
)
def test_the_table_of_operations_the_client_and_a_command_load_no_server(tmp_path: Path, module: str, packages: str) -> None:
    command, env = [sys.executable, "-c", LOADED.format(module=module)], environment(tmp_path)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT, check=True)
    loaded, ours = done.stdout.splitlines()[0], done.stdout.splitlines()[1:]
    assert set(loaded.split()) - {"sniffio", "idna", "h11", "httpcore2", "certifi", "typing_extensions"} <= set(
        packages.split()
    )
    assert ours == [""]


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    context = click.Context(main.avm)
    for name, (_, summary) in main.COMMANDS.items():
        command = main.avm.get_command(context, name)
        assert command is not None
        assert command.help is not None
        assert command.help.partition("\n")[0] == summary
        assert len(summary) <= 60


def test_avm_is_a_program(tmp_path: Path) -> None:
    done = run_avm("--version", env=environment(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "AgentVM 0.1.0\n", "")


def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["fly"]) == 2
    assert "No such command 'fly'" in capsys.readouterr().err
    assert main.run(["serve", "--port", "eighty"]) == 2


@pytest.mark.parametrize(
    ("words", "meant"), [(["sesion", "list"], "session"), (["tenants"], "tenant"), (["session", "serch"], "search")]
)
def test_a_misspelt_command_is_answered_with_the_one_that_was_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == 2
    said = capsys.readouterr().err
    assert "Did you mean" in said
    assert f"'{meant}'" in said


def test_an_error_agentvm_can_explain_is_one_line_and_exit_code_1(
    break_with: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_broken(break_with, ConfigInvalid("AVM_PORT is wrong; set another")) == 1
    assert capsys.readouterr().err == "Error: AVM_PORT is wrong; set another\n"


def test_what_an_error_quotes_cannot_command_the_terminal(
    break_with: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_broken(break_with, ConfigInvalid("\x1b]0;owned\x07 is gone\nTry another")) == 1
    assert capsys.readouterr().err == "Error: \\x1b]0;owned\\x07 is gone\nTry another\n"


def test_a_group_of_explained_errors_is_explained(break_with: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup("two", [NotFound("a is gone"), ExceptionGroup("one", [NotFound("b is gone")])])
    assert run_broken(break_with, group) == 5
    assert capsys.readouterr().err == "Error: a is gone\nError: b is gone\n"


def test_a_data_directory_in_use_is_told_with_the_flag_that_helps(
    break_with: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = DataDirInUse("Use remote_runtime()", details={"fact": "It is in use.", "dataDir": "x"})
    assert run_broken(break_with, error) == 1
    said = "Error: It is in use. Stop that server, or use another directory with --data-dir.\n"
    assert capsys.readouterr().err == said


def test_a_bug_is_exit_code_70_and_says_how_to_see_the_trace(
    break_with: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_broken(break_with, ZeroDivisionError("by zero")) == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: by zero" in said
    assert "AVM_DEBUG=1" in said
    assert "Traceback" not in said


def test_debugging_shows_the_trace(break_with: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    break_with.setenv("AVM_DEBUG", "1")
    assert run_broken(break_with, ExceptionGroup("mixed", [NotFound("gone"), ZeroDivisionError("by zero")])) == 70
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupted_command_is_exit_code_130(break_with: pytest.MonkeyPatch) -> None:
    assert run_broken(break_with, KeyboardInterrupt()) == 130


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool | None] = []

    @click.command
    @click.pass_context
    def command(ctx: click.Context) -> None:
        seen.append(ctx.color)

    monkeypatch.setattr(main.LazyGroup, "get_command", lambda self, ctx, name: command)
    monkeypatch.delenv("NO_COLOR", raising=False)
    main.run(["look"])
    monkeypatch.setenv("NO_COLOR", "1")
    main.run(["look"])
    assert seen == [None, False]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["version"]) == 0
    assert capsys.readouterr().out == f"AgentVM {VERSION}\n"


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command of the tree with its path and context."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, terminal_width=78)
        yield inner.command_path, command, inner
        if isinstance(command, click.Group):
            yield from commands(command, inner)


def test_the_help_of_every_command_is_complete_in_one_line_of_80_columns() -> None:
    # click leaves two of the 80 columns free.
    root = click.Context(main.avm, info_name="avm", terminal_width=78)
    tree = [("avm", main.avm, root), *commands(main.avm, root)]
    assert len(tree) > 100
    cut = [
        f"{path}: {line.strip()}"
        for path, command, context in tree
        for line in command.get_help(context).splitlines()
        if line.endswith("...") and not line.startswith("Usage:")
    ]
    assert cut == []
    assert [path for path, command, _ in tree if not (command.help or "").split("\n")[0].endswith(".")] == []
