"""avm session fork, rewind, edit, regenerate — branches of a session."""

import time

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.names import IMAGE, NamedType, session_argument
from agentvm.cli.table import Columns, Item, Show, counted, lines, moment, plain

EXAMPLES = """\b
Examples:
  avm session fork sess_… --message msg_…           a new session with the messages up to that one
  avm session rewind sess_… --before msg_…          remove that message and all later ones
  avm session edit sess_… msg_… "In metres, please"
  avm session regenerate sess_…                     another answer to the last question
  avm session rewinds sess_…                        the removed messages
"""

REWINDS: Columns = {"REWIND": "rewindId", "AT (UTC)": moment("rewoundAt"), "MESSAGES": "messages"}
ANSWER_MESSAGES_MAX = 200
POLL_INTERVAL_SECONDS = 0.3
"""Pause between two requests for the state of a turn."""

interrupt_option = click.option(
    "--interrupt", "on_busy", flag_value="interrupt", default="reject", help="Interrupt a running turn instead of failing."
)
wait_option = click.option("--no-wait", is_flag=True, help="Do not wait for the answer.")


@click.command("fork", epilog=EXAMPLES)
@session_argument
@click.option("--message", help="Last message to copy; a rewound one is allowed.")
@click.option("--image", type=NamedType(IMAGE), help="Image of the new session, in the same container.")
@click.option("--title", help="Title of the new session.")
@tenant_command
def fork(api: Api, show: Show, session_id: str, message: str | None, image: str | None, title: str | None) -> None:
    """Copy a session up to a message into a new session."""
    copy = api.call("session.fork", session_id, message_id=message, image_id=image, title=title)
    new_id = copy["sessionId"]
    show.done(f"{new_id} is a copy of {plain(session_id)}. To continue: avm chat --session {new_id}", copy)


@click.command("rewind", epilog=EXAMPLES)
@session_argument
@click.option("--to", "last", metavar="MESSAGE", help="Last message to keep.")
@click.option("--before", metavar="MESSAGE", help="First message to remove.")
@interrupt_option
@yes_option
@tenant_command
def rewind(api: Api, show: Show, session_id: str, last: str | None, before: str | None, on_busy: str, yes: bool) -> None:
    """Remove the end of a session. The messages can still be viewed."""
    if (last is None) == (before is None):
        raise click.UsageError("Use --to (the last message to keep) or --before (the first to remove).")
    confirm(f"Remove the end of {plain(session_id)}?", yes=yes)
    rewound = api.call("session.rewind", session_id, message_id=last, before=before, on_busy=on_busy)
    if "rewindId" not in rewound:
        show.done("There is nothing to remove.", rewound)
        return
    view = f"avm session messages {plain(session_id)} --rewind {rewound['rewindId']}"
    show.done(f"{counted(len(rewound['messageIds']), 'message')} removed. To view: {view}", rewound)


@click.command("rewinds", epilog=EXAMPLES)
@session_argument
@tenant_command
def rewinds(api: Api, show: Show, session_id: str) -> None:
    """List the rewinds of a session, newest first."""
    show.items(api.items("session.rewinds", session_id), REWINDS, none="The session was never rewound.")


@click.command("edit", epilog=EXAMPLES)
@session_argument
@click.argument("message_id", metavar="MESSAGE")
@click.argument("text")
@interrupt_option
@wait_option
@tenant_command
def edit(api: Api, show: Show, session_id: str, message_id: str, text: str, on_busy: str, no_wait: bool) -> int:
    """Replace a message and get a new answer.

    All later messages are removed; they can still be viewed.
    """
    accepted = api.call("message.edit", session_id, message_id=message_id, content=text, on_busy=on_busy)
    return _answer(api, show, accepted, no_wait)


@click.command("regenerate", epilog=EXAMPLES)
@session_argument
@click.option("--message", help="Answer to regenerate (default: the last).")
@interrupt_option
@wait_option
@tenant_command
def regenerate(api: Api, show: Show, session_id: str, message: str | None, on_busy: str, no_wait: bool) -> int:
    """Regenerate an answer. The old one is kept and can be viewed."""
    accepted = api.call("message.regenerate", session_id, message_id=message, on_busy=on_busy)
    return _answer(api, show, accepted, no_wait)


COMMANDS = (fork, rewind, rewinds, edit, regenerate)


def _answer(api: Api, show: Show, accepted: Item, no_wait: bool) -> int:
    """Prints the answer once the turn has ended, and returns the exit code."""
    turn_id = accepted["turnId"]
    if no_wait:
        show.done(f"{turn_id} has started. To see its result: avm turn show {turn_id}", accepted)
        return 0
    while "outcome" not in (turn := api.call("turn.show", turn_id)):
        time.sleep(POLL_INTERVAL_SECONDS)
    newest = api.items("session.history", accepted["sessionId"], order="newest", at_most=ANSWER_MESSAGES_MAX)
    messages = [message for message in reversed(list(newest)) if message.get("turnId") == turn_id]
    if show.as_json:
        show.json(messages)
    for message in () if show.as_json else messages:
        if message["subtype"] == "assistant":
            click.echo(lines("".join(part.get("text", "") for part in message["content"])))
        elif message["subtype"] == "error":
            click.echo(plain(message["content"]), err=True)
    if turn["outcome"] != "completed":
        click.echo(f"The turn was not completed: {turn['outcome']}.", err=True)
        return 1
    return 0
