"""avm completion — shell completion scripts."""

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
    """Print a shell completion script.

    The script calls avm for completions, so it stays valid after an upgrade.
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.UsageError(f"{shell} is not supported.")
    click.echo(completion_class(avm, {}, "avm", COMPLETE_VARIABLE).source())
