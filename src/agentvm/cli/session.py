"""avm session — lists, finds, reads and keeps what was said."""

import re
from html import unescape
from itertools import islice

import click

from agentvm.cli import branches
from agentvm.cli.api import Api, Query, asks_server, confirm, tenant_option, yes_option
from agentvm.cli.draft import draft
from agentvm.cli.names import IMAGE, SESSION, NamedOption, session_argument
from agentvm.cli.table import Columns, Item, Show, lines, moment, plain, when
from agentvm.cli.when import past

EXAMPLES = """\b
Examples:
  avm session list                                     the latest first, pinned ones before them
  avm session search 上海天气 --since 7d
  avm session messages sess_… --newest --limit 5
  avm session rename sess_… "Trip to Shanghai"
  avm session delete sess_… && avm session restore sess_…
"""

PAGE = 200
"""The most that the server gives at once."""
_PREVIEW = 50

COLUMNS: Columns = {
    "SESSION": "sessionId",
    "TITLE": lambda item: _short(item.get("title")),
    "UNREAD": "unread",
    "": lambda item: " ".join(name for name in ("pinned", "archived") if f"{name}At" in item),
    "LAST (UTC)": lambda item: when(item["lastMessageAt"] if "lastMessageAt" in item else item["createdAt"]),
    "PREVIEW": lambda item: _short(item.get("preview")),
}
DETAILS: Columns = {
    "Session": "sessionId",
    "Title": "title",
    "Image": "imageId",
    "Container": "containerId",
    "Unread": "unread",
    "Pinned (UTC)": moment("pinnedAt"),
    "Archived (UTC)": moment("archivedAt"),
    "Set aside": "quarantine",
    "Created (UTC)": moment("createdAt"),
    "Last message (UTC)": moment("lastMessageAt"),
    "Preview": "preview",
}
SUMMARIES: Columns = {
    "SUMMARY": "summaryId",
    "UP TO": "messageId",
    "TOKENS": "tokens",
    "MODEL": "model",
    "MADE (UTC)": moment("madeAt"),
    "TEXT": lambda item: _short(item.get("text")),
}
limit_option = click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")


@click.group(epilog=EXAMPLES)
def session() -> None:
    """List, find, read and keep what was said."""


session.add_command(draft)


@session.command("list", epilog=EXAMPLES)
@click.option("--container", help="Only of that container.")
@click.option("--image", cls=NamedOption, kind=IMAGE, help="Only of that image: id or name.")
@click.option("--archived", is_flag=True, help="Those that are archived, instead of the others.")
@click.option("--all", "both", is_flag=True, help="Also those that are archived.")
@click.option("--pinned", is_flag=True, help="Only those that are pinned.")
@click.option("--title", metavar="TEXT", help="Only those with that in their title.")
@click.option("--since", type=past, metavar="TIME", help="Active then or later: 7d, 2026-11-01.")
@click.option("--until", type=past, metavar="TIME", help="Active before then.")
@limit_option
@tenant_option
@asks_server
def list_sessions(
    api: Api,
    show: Show,
    container: str | None,
    image: str | None,
    archived: bool,
    both: bool,
    pinned: bool,
    title: str | None,
    since: int | None,
    until: int | None,
    limit: int,
) -> None:
    """List sessions.

    Pinned ones are first, then it goes by when something was last said.
    """
    found = api.pages(
        "sessions",
        cursor="cursor",
        following="nextCursor",
        limit=min(limit, PAGE),
        container=container,
        image=image,
        archived="all" if both else "true" if archived else None,
        pinned="true" if pinned else None,
        title=title,
        since=since,
        until=until,
    )
    show.items(islice(found, limit), COLUMNS, none="There are no such sessions.")


@session.command("show")
@session_argument
@tenant_option
@asks_server
def show_session(api: Api, show: Show, session_id: str) -> None:
    """Show a session."""
    show.record(api.get("sessions", session_id), DETAILS)


@session.command("messages", epilog=EXAMPLES)
@session_argument
@click.option("--newest", is_flag=True, help="The newest first.")
@click.option("--around", metavar="MESSAGE", help="Those around that message.")
@click.option("--rewind", help="What that rewind took back, in place of what stands.")
@limit_option
@tenant_option
@asks_server
def messages(api: Api, show: Show, session_id: str, newest: bool, around: str | None, rewind: str | None, limit: int) -> None:
    """Read the messages of a session."""
    if around is not None:
        page = api.get("sessions", session_id, "messages", around=around, rewind=rewind, limit=min(limit, PAGE))
        found = iter(page.get("items", ()))
    else:
        found = api.pages(
            "sessions",
            session_id,
            "messages",
            cursor="cursor",
            following="nextCursor",
            limit=min(limit, PAGE),
            order="newest" if newest else "oldest",
            rewind=rewind,
        )
    some = list(islice(found, limit))
    if show.as_json:
        show.json(some)
        return
    for one in some:
        click.echo(f"{when(one['timestamp'])}  {one['id']}  {one['role']}: {lines(_said(one), '  ')}")
    if not some:
        click.echo("Nothing was said yet.", err=True)


@session.command("search", epilog=EXAMPLES)
@click.argument("text")
@click.option("--container", help="Only in that container.")
@click.option("--image", cls=NamedOption, kind=IMAGE, help="Only of that image: id or name.")
@click.option("--session", "within", cls=NamedOption, kind=SESSION, metavar="SESSION", help="Only in that session.")
@click.option("--role", type=click.Choice(["user", "assistant", "tool"]), help="Only what they said.")
@click.option("--tool", help="Only results of that tool.")
@click.option("--since", type=past, metavar="TIME", help="Said then or later: 7d, 2026-11-01.")
@click.option("--until", type=past, metavar="TIME", help="Said before then.")
@limit_option
@tenant_option
@asks_server
def search(
    api: Api,
    show: Show,
    text: str,
    container: str | None,
    image: str | None,
    within: str | None,
    role: str | None,
    tool: str | None,
    since: int | None,
    until: int | None,
    limit: int,
) -> None:
    """Search what was said, the best first, and titles.

    With --json each has a `kind`: `title` or `message`.
    """
    query: Query = {
        "q": text,
        "container": container,
        "image": image,
        "session": within,
        "role": role,
        "tool": tool,
        "since": since,
        "until": until,
        "limit": min(limit, 100),
    }
    page = api.get("sessions", "search", **query)
    titles: list[Item] = page.get("titles", [])[:limit]
    some: list[Item] = page.get("items", [])
    while len(some) < limit and page.get("nextCursor") is not None:
        page = api.get("sessions", "search", **query, cursor=page["nextCursor"])
        some += page.get("items", [])
    some = some[:limit]
    if show.as_json:
        show.json([{"kind": "title", **one} for one in titles] + [{"kind": "message", **one} for one in some])
        return
    for one in titles:
        click.echo(f"{_marked(str(one['snippet']))}  {when(one['at'])}  title  {one['sessionId']}")
    for hit in some:
        click.secho(f"{plain(hit['title'] or hit['sessionId'])}  ", bold=True, nl=False)
        click.echo(f"{when(hit['at'])}  {hit['role']}  {hit['sessionId']} {hit['messageId']}")
        click.echo(f"  {_marked(str(hit['snippet']))}")
    if not some and not titles:
        click.echo("Nothing was found.", err=True)


@session.command("rename")
@session_argument
@click.argument("title", required=False)
@tenant_option
@asks_server
def rename(api: Api, show: Show, session_id: str, title: str | None) -> None:
    """Give a session a title, or take it away."""
    _change(api, show, session_id, {"title": title}, "has no title any more" if title is None else f"is now {plain(title)}")


@session.command("pin")
@session_argument
@tenant_option
@asks_server
def pin(api: Api, show: Show, session_id: str) -> None:
    """Keep a session at the top of the list."""
    _change(api, show, session_id, {"pinned": True}, "is pinned")


@session.command("unpin")
@session_argument
@tenant_option
@asks_server
def unpin(api: Api, show: Show, session_id: str) -> None:
    """Keep it there no longer."""
    _change(api, show, session_id, {"pinned": False}, "is no longer pinned")


@session.command("archive")
@session_argument
@tenant_option
@asks_server
def archive(api: Api, show: Show, session_id: str) -> None:
    """Take a session out of the usual list."""
    _change(api, show, session_id, {"archived": True}, "is archived")


@session.command("unarchive")
@session_argument
@tenant_option
@asks_server
def unarchive(api: Api, show: Show, session_id: str) -> None:
    """Put it back."""
    _change(api, show, session_id, {"archived": False}, "is no longer archived")


@session.command("mark-read")
@session_argument
@tenant_option
@asks_server
def mark_read(api: Api, show: Show, session_id: str) -> None:
    """Count all that was said in a session as read."""
    marked = api.post("sessions", session_id, "read", body={})
    if show.as_json:
        show.json(marked)
    else:
        show.done(f"{plain(session_id)} is read.")


@session.command("delete")
@session_argument
@yes_option
@tenant_option
@asks_server
def delete(api: Api, show: Show, session_id: str, yes: bool) -> None:
    """Delete a session; for a while it can be restored."""
    confirm(f"Delete {plain(session_id)} with all that was said in it?", yes=yes)
    api.ask("DELETE", ("sessions", session_id), {})
    show.done(f"{plain(session_id)} is deleted. To undo it: avm session restore {plain(session_id)}")


@session.command("restore")
@click.argument("session_id", metavar="SESSION")
@tenant_option
@asks_server
def restore(api: Api, show: Show, session_id: str) -> None:
    """Bring a deleted session back."""
    api.post("sessions", session_id, "restore", body={})
    show.done(f"{plain(session_id)} is back.")


@session.command("compact")
@session_argument
@tenant_option
@asks_server
def compact(api: Api, show: Show, session_id: str) -> None:
    """Sum up what was said, but for the newest exchanges.

    It is a billed model call, and the messages stay as they are.
    """
    made = api.post_patiently("sessions", session_id, "compact", body={})
    if show.as_json:
        show.json(made)
    else:
        click.echo(lines(str(made["text"])))


@session.command("summaries")
@session_argument
@tenant_option
@asks_server
def summaries(api: Api, show: Show, session_id: str) -> None:
    """List what a session was summed up as, the newest first.

    With --json each as a whole.
    """
    found = api.get("sessions", session_id, "summaries").get("items", [])
    show.items(iter(found), SUMMARIES, none="Nothing was summed up yet.")


for command in branches.COMMANDS:
    session.add_command(command)
# The name before `mark-read`, which sounded like reading messages.
session.add_command(
    click.Command("read", params=mark_read.params, callback=mark_read.callback, help=mark_read.help, hidden=True)
)


def _change(api: Api, show: Show, session_id: str, body: Item, done: str) -> None:
    changed = api.put("sessions", session_id, body=body)
    if show.as_json:
        show.json(changed)
    else:
        show.done(f"{plain(session_id)} {done}.")


def _said(message: Item) -> str:
    """What a message says, whichever kind it is."""
    if "toolCall" in message:
        return f"calls {message['toolCall']['name']}"
    if "toolResult" in message:
        return str(message["toolResult"]["output"]["value"])
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)


def _marked(snippet: str) -> str:
    """A snippet for a terminal: the marks are bold."""
    parts = re.split(r"<mark>(.*?)</mark>", snippet)
    return "".join(
        click.style(plain(unescape(part)), bold=True) if number % 2 else plain(unescape(part))
        for number, part in enumerate(parts)
    )


def _short(text: str | None) -> str | None:
    text = None if text is None else " ".join(text.split())
    return text if text is None or len(text) <= _PREVIEW else f"{text[:_PREVIEW]}…"
