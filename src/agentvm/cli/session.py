"""avm session — list, search, read, rename, pin, archive and delete sessions."""

import re
from html import unescape
from typing import Any

import click

from agentvm.cli import branches
from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.draft import draft
from agentvm.cli.names import IMAGE, SESSION, NamedType, session_argument
from agentvm.cli.options import container_option, keep_name, since_option, until_option
from agentvm.cli.table import Columns, Item, Show, lines, moment, plain, shortened, when
from agentvm.operations.http_face import NULL

EXAMPLES = """\b
Examples:
  avm session list                                     pinned first, then the latest
  avm session search 上海天气 --since 7d
  avm session messages sess_… --newest --limit 5
  avm session rename sess_… "Trip to Shanghai"
  avm session delete sess_… && avm session restore sess_…
"""

_PREVIEW_CHARACTERS_MAX = 50

COLUMNS: Columns = {
    "SESSION": "sessionId",
    "TITLE": lambda item: shortened(item.get("title") or "", _PREVIEW_CHARACTERS_MAX),
    "UNREAD": "unread",
    "": lambda item: " ".join(name for name in ("pinned", "archived") if f"{name}At" in item),
    "LAST (UTC)": lambda item: when(item["lastMessageAt"] if "lastMessageAt" in item else item["createdAt"]),
    "PREVIEW": lambda item: shortened(item.get("preview") or "", _PREVIEW_CHARACTERS_MAX),
}
DETAILS: Columns = {
    "Session": "sessionId",
    "Title": "title",
    "Image": "imageId",
    "Container": "containerId",
    "Unread": "unread",
    "Pinned (UTC)": moment("pinnedAt"),
    "Archived (UTC)": moment("archivedAt"),
    "Quarantined": "quarantine",
    "Created (UTC)": moment("createdAt"),
    "Last message (UTC)": moment("lastMessageAt"),
    "Preview": "preview",
}
SUMMARIES: Columns = {
    "SUMMARY": "summaryId",
    "UP TO": "messageId",
    "TOKENS": "tokens",
    "MODEL": "model",
    "CREATED (UTC)": moment("madeAt"),
    "TEXT": lambda item: shortened(item.get("text") or "", _PREVIEW_CHARACTERS_MAX),
}
limit_option = click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number.")
image_option = click.option("--image", "image_id", type=NamedType(IMAGE), help="Only sessions of this image (id or name).")


@click.group(epilog=EXAMPLES)
def session() -> None:
    """Manage conversations: list, search, read, fork, archive."""


session.add_command(draft)


@session.command("list", epilog=EXAMPLES)
@container_option
@image_option
@click.option("--archived", is_flag=True, help="Only archived sessions.")
@click.option("--all", "both", is_flag=True, help="Include archived sessions.")
@click.option("--pinned", is_flag=True, help="Only pinned sessions.")
@click.option("--title", metavar="TEXT", help="Only sessions whose title contains TEXT.")
@since_option
@until_option
@limit_option
@tenant_command
def list_sessions(api: Api, show: Show, /, archived: bool, both: bool, pinned: bool, limit: int, **query: Any) -> None:
    """List sessions: pinned first, then the latest."""
    query["archived"] = "all" if both else "true" if archived else None
    query["pinned"] = pinned or None
    show.items(api.items("session.browse", at_most=limit, **query), COLUMNS, none="No sessions found.")


@session.command("show")
@session_argument
@tenant_command
def show_session(api: Api, show: Show, session_id: str) -> None:
    """Show the details of a session."""
    show.record(api.call("session.get", session_id), DETAILS)


@session.command("messages", epilog=EXAMPLES)
@session_argument
@click.option("--newest", is_flag=True, help="Newest first.")
@click.option("--around", metavar="MESSAGE", help="Messages around this one.")
@click.option("--rewind", help="Messages removed by this rewind, instead of the current ones.")
@limit_option
@tenant_command
def messages(api: Api, show: Show, session_id: str, newest: bool, around: str | None, rewind: str | None, limit: int) -> None:
    """Print the messages of a session."""
    if around is not None:
        items = api.page("session.history", session_id, at_most=limit, around=around, rewind=rewind)["items"]
    else:
        order = "newest" if newest else "oldest"
        items = list(api.items("session.history", session_id, at_most=limit, order=order, rewind=rewind))
    if show.as_json:
        show.json(items)
        return
    for item in items:
        click.echo(f"{when(item['timestamp'])}  {item['id']}  {item['role']}: {lines(_text_of(item), '  ')}")
    if not items:
        click.echo("The session has no messages.", err=True)


@session.command("search", epilog=EXAMPLES)
@click.argument("q", metavar="TEXT")
@container_option
@image_option
@click.option("--session", "session_id", type=NamedType(SESSION), help="Only this session.")
@click.option("--role", type=click.Choice(["user", "assistant", "tool"]), help="Only messages of this role.")
@click.option("--tool", help="Only results of this tool.")
@since_option
@until_option
@limit_option
@tenant_command
def search(api: Api, show: Show, /, limit: int, **query: Any) -> None:
    """Search messages and titles, best match first.

    With --json each item has a `kind`: `title` or `message`.
    """
    titles, items = _search(api, query, limit)
    if show.as_json:
        show.json([{"kind": "title", **item} for item in titles] + [{"kind": "message", **item} for item in items])
        return
    for item in titles:
        click.echo(f"{_highlighted(str(item['snippet']))}  {when(item['at'])}  title  {item['sessionId']}")
    for item in items:
        click.secho(f"{plain(item['title'] or item['sessionId'])}  ", bold=True, nl=False)
        click.echo(f"{when(item['at'])}  {item['role']}  {item['sessionId']} {item['messageId']}")
        click.echo(f"  {_highlighted(str(item['snippet']))}")
    if not items and not titles:
        click.echo("No matches.", err=True)


def _search(api: Api, query: Item, limit: int) -> tuple[list[Item], list[Item]]:
    page = api.page("session.search", **query, at_most=limit)
    titles, items = page.get("titles", []), page["items"]
    if len(items) < limit and page.get("nextCursor") is not None:
        items += api.items("session.search", **query, cursor=page["nextCursor"], at_most=limit - len(items))
    return titles[:limit], items[:limit]


@session.command("rename")
@session_argument
@click.argument("title", required=False)
@tenant_command
def rename(api: Api, show: Show, session_id: str, title: str | None) -> None:
    """Set the title of a session, or remove it."""
    done = "has no title any more" if title is None else f"is now titled {plain(title)}"
    _update(api, show, session_id, done, title=NULL if title is None else title)


def _add_switch(name: str, help: str, done: str, **fields: bool) -> None:
    """Adds a command that sets a property of a session."""

    @session.command(name, help=help)
    @session_argument
    @tenant_command
    def switch(api: Api, show: Show, session_id: str) -> None:
        _update(api, show, session_id, done, **fields)


_add_switch("pin", "Pin a session to the top of the list.", "is pinned", pinned=True)
_add_switch("unpin", "Unpin a session.", "is no longer pinned", pinned=False)
_add_switch("archive", "Archive a session: hide it from the list.", "is archived", archived=True)
_add_switch("unarchive", "Return an archived session to the list.", "is no longer archived", archived=False)


@session.command("mark-read")
@session_argument
@tenant_command
def mark_read(api: Api, show: Show, session_id: str) -> None:
    """Mark all messages of a session as read."""
    show.done(f"{plain(session_id)} is marked as read.", api.call("session.mark_read", session_id))


@session.command("delete")
@session_argument
@yes_option
@tenant_command
def delete(api: Api, show: Show, session_id: str, yes: bool) -> None:
    """Delete a session. It can be restored for a while."""
    confirm(f"Delete {plain(session_id)} with all of its messages?", yes=yes)
    api.call("session.delete", session_id)
    show.done(f"{plain(session_id)} is deleted. To undo: avm session restore {plain(session_id)}")


@session.command("restore")
@click.argument("session_id", metavar="SESSION")
@tenant_command
def restore(api: Api, show: Show, session_id: str) -> None:
    """Restore a deleted session."""
    api.call("session.restore", session_id)
    show.done(f"{plain(session_id)} is restored.")


@session.command("compact")
@session_argument
@tenant_command
def compact(api: Api, show: Show, session_id: str) -> None:
    """Summarize older messages to free context.

    This is a billed model call. The messages are kept.
    """
    summary = api.call_model("session.compact", session_id)
    show.done(lines(str(summary["text"])), summary)


@session.command("summaries")
@session_argument
@tenant_command
def summaries(api: Api, show: Show, session_id: str) -> None:
    """List the summaries of a session, newest first.

    With --json the texts are complete.
    """
    show.items(api.items("session.summaries", session_id), SUMMARIES, none="The session has no summaries.")


for command in branches.COMMANDS:
    session.add_command(command)
keep_name(session, "read", mark_read)


def _update(api: Api, show: Show, session_id: str, done: str, **fields: object) -> None:
    show.done(f"{plain(session_id)} {done}.", api.call("session.update", session_id, **fields))


def _text_of(message: Item) -> str:
    """The text of a message of any kind."""
    if "toolCall" in message:
        return f"calls {message['toolCall']['name']}"
    if "toolResult" in message:
        return str(message["toolResult"]["output"]["value"])
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)


def _highlighted(snippet: str) -> str:
    """A snippet with its marked words in bold."""
    parts = [plain(unescape(part)) for part in re.split(r"<mark>(.*?)</mark>", snippet)]
    return "".join(click.style(part, bold=True) if number % 2 else part for number, part in enumerate(parts))
