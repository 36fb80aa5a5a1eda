"""avm — the command line, and the place where a failure becomes a message and an exit code.

A command's file is loaded when that command is asked for: `avm --help` costs what click costs.

Exit codes are in `agentvm.cli.exit_codes`.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from agentvm.cli import program
from agentvm.cli.exit_codes import BUG, INTERRUPTED, exit_code_of
from agentvm.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from agentvm.errors import AgentVMError

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("agentvm.cli.serve:serve", "Run the server."),
    "chat": ("agentvm.cli.chat:chat", "Chat with an agent in the terminal."),
    "login": ("agentvm.cli.login:login", "Store a server and your key for the commands that follow."),
    "logout": ("agentvm.cli.login:logout", "Forget a server and a key that were stored."),
    "whoami": ("agentvm.cli.whoami:whoami", "Say who the server takes you for, and what you may do."),
    "key": ("agentvm.cli.key:key", "Make, list, renew and end API keys."),
    "tenant": ("agentvm.cli.tenant:tenant", "Manage the tenants of a server."),
    "user": ("agentvm.cli.user:user", "Manage the users of a tenant and their containers."),
    "container": ("agentvm.cli.container:container", "List, show and delete containers."),
    "quota": ("agentvm.cli.quota:quota", "See and set how much may be used."),
    "usage": ("agentvm.cli.usage:usage", "See what was used and what it costs."),
    "wallet": ("agentvm.cli.wallet:wallet", "See and fill a tenant's prepaid money."),
    "secret": ("agentvm.cli.secret:secret", "Keep secrets of a tenant on the server."),
    "image": ("agentvm.cli.image:image", "Build, list, upgrade and delete what agents run from."),
    "session": ("agentvm.cli.session:session", "List, find, read and keep what was said."),
    "retention": ("agentvm.cli.retention:retention", "See how long what was said is kept, and what would go."),
    "attachment": ("agentvm.cli.attachment:attachment", "Upload, list and fetch files that messages refer to."),
    "resource": ("agentvm.cli.resource:resource", "Publish, find and move what agents are made of."),
    "config": ("agentvm.cli.config:config", "See, explain, check and change the settings of a server."),
    "audit": ("agentvm.cli.audit:audit", "See what was done in a tenant."),
    "logs": ("agentvm.cli.logs:logs", "See what the server has logged, and follow it."),
    "errors": ("agentvm.cli.errors:errors", "See what went wrong, by kind."),
    "provider": ("agentvm.cli.provider:provider", "See how the providers of models are."),
    "turn": ("agentvm.cli.turn:turn", "See what turns spent their time and money on."),
    "status": ("agentvm.cli.status:status", "See whether the server is well, and what to do if not."),
    "export": ("agentvm.cli.carrying:export", "Take sessions out of a server, as an archive or as a page."),
    "import": ("agentvm.cli.carrying:import_", "Bring sessions into a server."),
    "backup": ("agentvm.cli.backup:backup", "Write everything a server keeps into one file."),
    "restore": ("agentvm.cli.restore:restore", "Put a backup into a data directory."),
    "model": ("agentvm.cli.model:model", "Install and list the weights of embedded models."),
    "doctor": ("agentvm.cli.doctor:doctor", "Check the installation and say what to do."),
    "completion": ("agentvm.cli.completion:completion", "Print the script that completes commands in a shell."),
    "version": ("agentvm.cli.version:version", "Print the version."),
}
"""Where each command is, and its line in the list: the list is printed without loading them."""

COMPLETE_VARIABLE = "_AVM_COMPLETE"
"""The variable with which a shell asks for completions, whatever `avm` was started as."""

EXAMPLES = """\b
Examples:
  avm serve                   run the server on http://127.0.0.1:8080
  avm chat                    talk to it
  avm doctor                  see what is missing, and what to do about it

\b
Exit codes:
  0 done    1 failed or refused    2 wrong usage    3 no server answers
  4 the key is missing or may not    5 not found    6 quota or wallet used up
  70 a bug in AgentVM    130 interrupted
"""


class LazyGroup(click.Group):
    """Knows its commands by name and loads the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # click suggests only from commands that are loaded, and here none is.
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        # Without loading every command, which a person at the keyboard would notice.
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="AgentVM %(version)s")
def avm() -> None:
    """AgentVM: a self-hosted runtime for AI agents."""


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        # NO_COLOR (no-color.org) counts when it is set to anything.
        color = False if os.environ.get("NO_COLOR") else None
        code = avm.main(arguments, prog_name=program(), standalone_mode=False, color=color, complete_var=COMPLETE_VARIABLE)
        return code if isinstance(code, int) else 0
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - Protects the person at the terminal, to whom a trace says nothing.
        return explain(error)


def explain(error: Exception) -> int:
    """Says what went wrong, on stderr; the exit code says whose fault it is."""
    from agentvm.cli.table import plain
    from agentvm.errors import AgentVMError

    if os.environ.get("AVM_DEBUG"):
        traceback.print_exception(error)
    causes = list(_leaves(error))
    explained = [cause for cause in causes if isinstance(cause, AgentVMError)]
    if len(explained) == len(causes):
        for text in dict.fromkeys(map(_in_words, explained)):
            # It may quote what a server or a file says, and a terminal would obey that.
            click.echo("\n".join(map(plain, f"Error: {text}".split("\n"))), err=True)
        return exit_code_of(type(explained[0]))
    bug = next(cause for cause in causes if not isinstance(cause, AgentVMError))
    click.echo(f"Error: this should not happen: {type(bug).__name__}: {bug}", err=True)
    if not os.environ.get("AVM_DEBUG"):
        click.echo("It is a bug in AgentVM. To see where, run the same command with AVM_DEBUG=1 before it.", err=True)
    return BUG


def _in_words(error: "AgentVMError") -> str:
    """The error's own text, but where it tells a programmer what a person at a terminal does otherwise."""
    from agentvm.errors import DataDirInUse

    if isinstance(error, DataDirInUse) and "fact" in error.details:
        return f"{error.details['fact']} Stop that server, or give this one a directory of its own with --data-dir."
    return str(error)


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for child in error.exceptions:
            yield from _leaves(child)
    else:
        yield error


if __name__ == "__main__":
    main()
