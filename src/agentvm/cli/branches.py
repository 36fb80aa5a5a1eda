"""avm session fork, rewind, edit, regenerate — what was said, said otherwise."""

import time

import click

from agentvm.cli.api import Api, asks_server, confirm, tenant_option, yes_option
from agentvm.cli.names import IMAGE, NamedOption, session_argument
from agentvm.cli.table import Columns, Item, Show, lines, moment, plain

EXAMPLES = """\b
Examples:
  avm session fork sess_… --message msg_…           a new session that begins as this one did
  avm session rewind sess_… --before msg_…          take back that message and what came after it
  avm session edit sess_… msg_… "In metres, please"
  avm session regenerate sess_…                     another answer to what was asked last
  avm session rewinds sess_…                        what was taken back
"""

REWINDS: Columns = {"REWIND": "rewindId", "AT (UTC)": moment("rewoundAt"), "MESSAGES": "messages"}
PAUSE = 0.3
"""Seconds between two looks at a turn."""

interrupt_option = click.option("--interrupt", is_flag=True, help="Stop a turn that runs, instead of giving up.")
wait_option = click.option("--no-wait", is_flag=True, help="Do not wait for the answer.")


@click.command("fork", epilog=EXAMPLES)
@session_argument
@click.option("--message", help="Up to and with that message; also one that was taken back.")
@click.option("--image", cls=NamedOption, kind=IMAGE, help="For that image of the same container.")
@click.option("--title", help="Its title.")
@tenant_option
@asks_server
def fork(api: Api, show: Show, session_id: str, message: str | None, image: str | None, title: str | None) -> None:
    """Begin a new session with what was said in another."""
    made = api.post("sessions", session_id, "fork", body=_given(messageId=message, imageId=image, title=title))
    if show.as_json:
        show.json(made)
    else:
        show.done(f"{made['sessionId']} begins as {plain(session_id)} did. To go on: avm chat --session {made['sessionId']}")


@click.command("rewind", epilog=EXAMPLES)
@session_argument
@click.option("--to", "last", metavar="MESSAGE", help="The last message that stays.")
@click.option("--before", metavar="MESSAGE", help="The first message that is taken back.")
@interrupt_option
@yes_option
@tenant_option
@asks_server
def rewind(api: Api, show: Show, session_id: str, last: str | None, before: str | None, interrupt: bool, yes: bool) -> None:
    """Take back the end of a session; it is kept."""
    if (last is None) == (before is None):
        raise click.UsageError("Give --to, the last message that stays, or --before, the first that is taken back.")
    confirm(f"Take back the end of {plain(session_id)}?", yes=yes)
    made = api.post("sessions", session_id, "rewind", body=_given(messageId=last, before=before, onBusy=_busy(interrupt)))
    if show.as_json:
        show.json(made)
    elif "rewindId" in made:
        show.done(f"{len(made['messageIds'])} messages were taken back. To see them: "
                  f"avm session messages {plain(session_id)} --rewind {made['rewindId']}")  # fmt: skip
    else:
        show.done("There was nothing to take back.")


@click.command("rewinds", epilog=EXAMPLES)
@session_argument
@tenant_option
@asks_server
def rewinds(api: Api, show: Show, session_id: str) -> None:
    """List what was taken back of a session, the latest first."""
    found = api.get("sessions", session_id, "rewinds").get("items", ())
    show.items(iter(found), REWINDS, none="Nothing was taken back.")


@click.command("edit", epilog=EXAMPLES)
@session_argument
@click.argument("message_id", metavar="MESSAGE")
@click.argument("text")
@interrupt_option
@wait_option
@tenant_option
@asks_server
def edit(api: Api, show: Show, session_id: str, message_id: str, text: str, interrupt: bool, no_wait: bool) -> int:
    """Say something else in place of a message.

    What came after it is taken back.
    """
    body = _given(messageId=message_id, content=text, onBusy=_busy(interrupt))
    return _answer(api, show, api.post("sessions", session_id, "edit", body=body), no_wait)


@click.command("regenerate", epilog=EXAMPLES)
@session_argument
@click.option("--message", help="The answer to be made anew; by default the last.")
@interrupt_option
@wait_option
@tenant_option
@asks_server
def regenerate(api: Api, show: Show, session_id: str, message: str | None, interrupt: bool, no_wait: bool) -> int:
    """Have an answer made anew; the old one is taken back."""
    body = _given(messageId=message, onBusy=_busy(interrupt))
    return _answer(api, show, api.post("sessions", session_id, "regenerate", body=body), no_wait)


COMMANDS = (fork, rewind, rewinds, edit, regenerate)


def _answer(api: Api, show: Show, sent: Item, no_wait: bool) -> int:
    """The text of the answer, once there is one; else what began."""
    turn_id = sent["turnId"]
    if no_wait:
        if show.as_json:
            show.json(sent)
        else:
            show.done(f"{turn_id} has begun. To see what comes of it: avm turn show {turn_id}")
        return 0
    while "outcome" not in (turn := api.get("turns", turn_id)):
        time.sleep(PAUSE)
    newest = api.get("sessions", sent["sessionId"], "messages", order="newest", limit=200)["items"]
    said = [one for one in reversed(newest) if one.get("turnId") == turn_id]
    if show.as_json:
        show.json(said)
    for one in () if show.as_json else said:
        if one["subtype"] == "assistant":
            click.echo(lines("".join(part.get("text", "") for part in one["content"])))
        elif one["subtype"] == "error":
            click.echo(plain(one["content"]), err=True)
    if turn["outcome"] != "completed":
        click.echo(f"The turn ended as {turn['outcome']}.", err=True)
        return 1
    return 0


def _busy(interrupt: bool) -> str:
    return "interrupt" if interrupt else "reject"


def _given(**members: object) -> Item:
    return {name: value for name, value in members.items() if value is not None}
