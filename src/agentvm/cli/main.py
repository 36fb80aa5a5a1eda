"""avm — the command line; turns failures into messages and exit codes.

The module of a command is imported when the command runs, so that `avm --help` is fast.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from agentvm.cli import program
from agentvm.cli.exit_codes import ExitCode, exit_code_of
from agentvm.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from agentvm.errors import AgentVMError

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("agentvm.cli.serve:serve", "Run the server."),
    "chat": ("agentvm.cli.chat:chat", "Chat with an agent in the terminal."),
    "run": ("agentvm.cli.run:run", "Ask an agent once, without a session."),
    "login": ("agentvm.cli.login:login", "Store a server and your API key in a profile."),
    "logout": ("agentvm.cli.login:logout", "Remove a stored profile."),
    "whoami": ("agentvm.cli.whoami:whoami", "Show which identity and permissions your key has."),
    "key": ("agentvm.cli.key:key", "Create, list, rotate and revoke API keys."),
    "tenant": ("agentvm.cli.tenant:tenant", "Manage the tenants of a server."),
    "user": ("agentvm.cli.user:user", "Manage the users of a tenant and their containers."),
    "container": ("agentvm.cli.container:container", "List, show and delete containers."),
    "quota": ("agentvm.cli.quota:quota", "Show and set usage limits."),
    "usage": ("agentvm.cli.usage:usage", "Show token usage and cost."),
    "cost": ("agentvm.cli.cost:cost", "Estimate the monthly cost of serving users."),
    "wallet": ("agentvm.cli.wallet:wallet", "Show and credit a tenant's prepaid balance."),
    "secret": ("agentvm.cli.secret:secret", "Store secrets of a tenant on the server."),
    "channels": ("agentvm.cli.channels:channels", "Connect bots of chat platforms to agents."),
    "sandbox": ("agentvm.cli.sandbox:sandbox", "Run code in sandboxes of the server."),
    "tool": ("agentvm.cli.tool:tool", "List tools and call one of them."),
    "mcp": ("agentvm.cli.mcp:mcp", "List the MCP servers that you are signed in to."),
    "waits": ("agentvm.cli.waits:waits", "List tool calls that wait for an approval or an answer."),
    "answer": ("agentvm.cli.waits:answer", "Approve, edit or deny a tool call that waits."),
    "webhooks": ("agentvm.cli.webhooks:webhooks", "Send events to your own servers."),
    "schedule": ("agentvm.cli.schedule:schedule", "Run agents on a schedule (cron)."),
    "trigger": ("agentvm.cli.trigger:trigger", "Start agents from other programs by signed requests."),
    "image": ("agentvm.cli.image_files:image", "Build, list, upgrade and delete images of agents."),
    "session": ("agentvm.cli.session:session", "Manage conversations: list, search, read, fork, archive."),
    "retention": ("agentvm.cli.retention:retention", "Show the retention policy and the sessions it would delete."),
    "attachment": ("agentvm.cli.attachment:attachment", "Upload, list and download files of messages."),
    "files": ("agentvm.cli.files:files", "List, upload and download the files of a session."),
    "memory": ("agentvm.cli.memory:memory", "List, add, edit and delete the memories of agents."),
    "knowledge": ("agentvm.cli.knowledge:knowledge", "Publish and search documents for agents."),
    "resource": ("agentvm.cli.resource:resource", "Publish, search and share prompts, tools and agents."),
    "config": ("agentvm.cli.config:config", "Show, explain, validate and change settings."),
    "audit": ("agentvm.cli.audit:audit", "Show the audit log of a tenant."),
    "logs": ("agentvm.cli.logs:logs", "Show and follow the server log, newest last."),
    "errors": ("agentvm.cli.errors:errors", "List errors by kind, latest first."),
    "provider": ("agentvm.cli.provider:provider", "Show model provider health."),
    "turn": ("agentvm.cli.turn:turn", "Show the time, cost and events of turns."),
    "status": ("agentvm.cli.status:status", "Show server health and remedies."),
    "export": ("agentvm.cli.transfer:export", "Export sessions as an archive, Markdown or HTML."),
    "import": ("agentvm.cli.transfer:import_", "Import sessions from an archive."),
    "backup": ("agentvm.cli.backup:backup", "Back up the data directory into one file."),
    "restore": ("agentvm.cli.restore:restore", "Restore a backup to a data directory."),
    "database": ("agentvm.cli.database:database", "Copy the database of a server to PostgreSQL."),
    "edge": ("agentvm.cli.edge:edge", "Build and deploy the Worker that runs agents at the edge."),
    "cluster": ("agentvm.cli.cluster:cluster", "List the nodes of a cluster, stop one, or try a cluster."),
    "model": ("agentvm.cli.model:model", "Install, list and delete embedded models."),
    "doctor": ("agentvm.cli.doctor:doctor", "Check the server or the installation and name remedies."),
    "completion": ("agentvm.cli.completion:completion", "Print a shell completion script."),
    "version": ("agentvm.cli.main:version", "Print the version."),
}
"""The module and the short help of each command; `avm --help` imports none of them."""

COMPLETE_VARIABLE = "_AVM_COMPLETE"
"""The environment variable of completion requests."""

EXAMPLES = """\b
Examples:
  avm serve                   run the server on http://127.0.0.1:8080
  avm chat                    chat with an agent
  avm doctor                  check the installation

\b
Exit codes:
  0 success    1 failure    2 wrong usage    3 server unreachable
  4 authentication or permission    5 not found    6 quota or wallet exhausted
  70 a bug in AgentVM    130 interrupted
"""


class LazyGroup(click.Group):
    """A group that imports a command when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS or cmd_name in self.commands:
            return self.commands.get(cmd_name)
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # click would suggest only imported commands.
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        # Importing every command would be noticeably slow.
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="AgentVM %(version)s")
def avm() -> None:
    """AgentVM: a self-hosted runtime for AI agents."""


@avm.command()
def version() -> None:
    """Print the version."""
    click.echo(f"AgentVM {VERSION}")


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        # NO_COLOR (no-color.org) applies with any value.
        color = False if os.environ.get("NO_COLOR") else None
        code = avm.main(arguments, prog_name=program(), standalone_mode=False, color=color, complete_var=COMPLETE_VARIABLE)
        return code if isinstance(code, int) else 0
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - Protects the user from a traceback.
        return explain(error)


def explain(error: Exception) -> int:
    """Prints an error to stderr and returns its exit code."""
    from agentvm.cli.table import plain
    from agentvm.errors import AgentVMError

    if os.environ.get("AVM_DEBUG"):
        traceback.print_exception(error)
    causes = list(_leaves(error))
    expected = [cause for cause in causes if isinstance(cause, AgentVMError)]
    if len(expected) == len(causes):
        for text in dict.fromkeys(map(_message, expected)):
            # The text may quote a server or a file, with control characters.
            click.echo("\n".join(map(plain, f"Error: {text}".split("\n"))), err=True)
        return exit_code_of(type(expected[0]))
    bug = next(cause for cause in causes if not isinstance(cause, AgentVMError))
    click.echo(f"Error: unexpected failure: {type(bug).__name__}: {bug}", err=True)
    if not os.environ.get("AVM_DEBUG"):
        click.echo("This is a bug in AgentVM. For a traceback run the command again with AVM_DEBUG=1.", err=True)
    return ExitCode.BUG


def _message(error: "AgentVMError") -> str:
    """The text of an error, with the remedy for the command line."""
    from agentvm.errors import DataDirInUse

    if isinstance(error, DataDirInUse) and "fact" in error.details:
        return f"{error.details['fact']} Stop that server, or use another directory with --data-dir."
    return str(error)


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for child in error.exceptions:
            yield from _leaves(child)
    else:
        yield error


if __name__ == "__main__":
    main()
