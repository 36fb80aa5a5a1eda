"""avm memory — notes in every prompt of the agents of a container."""

import json
from pathlib import Path

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.options import keep_name
from agentvm.cli.table import Columns, Item, Show, moment, plain
from agentvm.cli.transfer import check_absent, force_option, write_atomically

EXAMPLES = """\b
Examples:
  avm memory list                                     of the container `default`
  avm memory add "Prefers short answers" --pin
  avm memory accept mem_…                             a proposed one
  avm memory export notes.jsonl --container alice
  avm memory import notes.jsonl --container bob
"""

COLUMNS: Columns = {
    "MEMORY": "memoryId",
    "TEXT": "text",
    "BY": "by",
    "STATE": lambda item: _state(item),
    "CHANGED (UTC)": moment("updatedAt"),
}
DETAILS: Columns = {
    "Memory": "memoryId",
    "Text": "text",
    "By": "by",
    "State": lambda item: _state(item),
    "Session": "sessionId",
    "Message": "messageId",
    "Changed (UTC)": moment("updatedAt"),
}
container_option = click.option("--container", default="default", show_default=True, help="Container.")
memory_argument = click.argument("memory_id", metavar="MEMORY")


@click.group(epilog=EXAMPLES)
def memory() -> None:
    """List, add, edit and delete the memories of agents."""


@memory.command("list")
@container_option
@tenant_command
def list_memories(api: Api, show: Show, container: str) -> None:
    """List memories, newest first."""
    show.items(api.items("memory.list", container), COLUMNS, none="No memories.")


@memory.command("add", epilog=EXAMPLES)
@click.argument("text")
@click.option("--pin", is_flag=True, help="Add it to every prompt.")
@container_option
@tenant_command
def add_memory(api: Api, show: Show, text: str, pin: bool, container: str) -> None:
    """Add a memory."""
    show.record(api.call("memory.add", container, text=text, pinned=pin), DETAILS)


@memory.command("edit")
@memory_argument
@click.option("--text", help="New text.")
@click.option("--pin/--unpin", "pinned", default=None, help="Add it to every prompt, or only if there is room.")
@container_option
@tenant_command
def edit_memory(api: Api, show: Show, memory_id: str, text: str | None, pinned: bool | None, container: str) -> None:
    """Change a memory."""
    _change(api, show, container, memory_id, text, pinned)


@memory.command("accept")
@memory_argument
@container_option
@tenant_command
def accept_memory(api: Api, show: Show, memory_id: str, container: str) -> None:
    """Accept a memory that an agent has proposed."""
    _change(api, show, container, memory_id, None, None)


keep_name(memory, "keep", accept_memory)


@memory.command("delete")
@memory_argument
@container_option
@yes_option
@tenant_command
def delete_memory(api: Api, show: Show, memory_id: str, container: str, yes: bool) -> None:
    """Delete a memory."""
    confirm(f"Delete the memory {plain(memory_id)}?", yes=yes)
    api.call("memory.delete", container, memory_id)
    show.done(f"{plain(memory_id)} deleted.")


@memory.command("export", epilog=EXAMPLES)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@container_option
@force_option
@tenant_command
def export_memories(api: Api, show: Show, file: Path, container: str, force: bool) -> None:
    """Write all memories to a file, one JSON object in each line."""
    check_absent(file, force=force)
    memories = list(api.items("memory.list", container))
    lines = "".join(f"{json.dumps(item, ensure_ascii=False)}\n" for item in memories)
    write_atomically(file, lambda out: out.write(lines.encode()))
    show.done(f"{len(memories)} memories written to {plain(file)}.")


@memory.command("import", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@container_option
@tenant_command
def import_memories(api: Api, show: Show, file: Path, container: str) -> None:
    """Import the memories of a file into a container.

    Memories with the same ids are replaced; proposed ones are skipped.
    """
    count = 0
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            item = json.loads(line)
            memory_id, text, pinned = str(item["memoryId"]), item["text"], bool(item.get("pinned"))
        except (ValueError, KeyError, TypeError):
            raise click.ClickException(f"{plain(file)}:{number}: not a memory as `avm memory export` writes it") from None
        if not item.get("proposed"):
            api.call("memory.put", container, memory_id, text=text, pinned=pinned)
            count += 1
    show.done(f"{count} memories imported.")


def _change(api: Api, show: Show, container: str, memory_id: str, text: str | None, pinned: bool | None) -> None:
    stored = next((item for item in api.items("memory.list", container) if item["memoryId"] == memory_id), None)
    if stored is None:
        raise click.ClickException(f"There is no memory {plain(memory_id)}; `avm memory list` shows those that exist.")
    is_pinned = bool(stored.get("pinned")) if pinned is None else pinned
    show.record(api.call("memory.put", container, memory_id, text=text or stored["text"], pinned=is_pinned), DETAILS)


def _state(item: Item) -> str:
    return "proposed" if item.get("proposed") else "pinned" if item.get("pinned") else ""
