"""avm completion — the script with which a shell completes the names of commands and options."""

import click
from click.shell_completion import get_completion_class

from agentvm.cli.main import COMPLETE_VARIABLE, avm

EXAMPLES = """\b
Examples:
  avm completion bash >> ~/.bashrc
  avm completion zsh >> ~/.zshrc
  avm completion fish > ~/.config/fish/completions/avm.fish
"""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell.

    The shell then asks avm itself, so that the script stays right when avm is upgraded.
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"{shell} cannot be completed for.")
    click.echo(found(avm, {}, "avm", COMPLETE_VARIABLE).source())
