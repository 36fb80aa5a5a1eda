"""avm chat — a chat in the terminal, over the same protocol as every other client.

The event loop runs in a thread of its own, so that the connection lives on while the main thread waits for a line.
"""

import base64
import io
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import anyio.from_thread
import click

from agentvm.cli import program
from agentvm.cli.beginning import Beginning, chosen_agent
from agentvm.cli.chat_commands import Surroundings
from agentvm.cli.conversation import Conversation
from agentvm.cli.markdown import Markdown
from agentvm.cli.options import (
    KEY_REMEDY,
    MODEL_HELP,
    configure,
    data_dir_option,
    given_key,
    given_url,
    key_file_option,
    loop_options,
    profile_option,
    server_address,
    server_remedy,
)
from agentvm.cli.screen import Screen
from agentvm.cli.terminal import Terminal, interrupts_held
from agentvm.config import DEFAULT_PORT, ServerConfig
from agentvm.errors import ChannelClosed, ContainerForbidden, Unauthenticated
from agentvm.model.message import FilePart, ImagePart, UserPart
from agentvm.model.secret import Secret
from agentvm.observability.console import configure_logs
from agentvm.protocol.link import WireEvent
from agentvm.protocol.verbs import AgentX

EXAMPLES = """\b
Examples:
  avm chat                                     with the server on this machine
  avm chat --local                             without a server
  avm chat --container work --model anthropic  a new session with another model
  avm chat --agent resource://agents/pirate    with an agent of the resource centre
  avm chat --system "Answer in French."        a new session with a system prompt of its own
  avm chat < question.txt                      one answer on stdout, in a new session
  avm chat --attach photo.png                  with a file for the first message
  echo "And 7 * 8?" | avm chat --session ID    one answer, in that session
  AVM_KEY=... avm chat                         with a server that asks for a key
"""

DEFAULT_CONTAINER = "default"


@click.command(epilog=EXAMPLES)
@click.option("--url", help="Server to connect to (AVM_URL, the profile's, the one that runs here, ws://127.0.0.1:8080/ws).")
@profile_option
@key_file_option
@click.option("--local", is_flag=True, help="Run the agent in this process, without a server.")
@click.option("--container", help="Container whose sessions to use (default, or the one your key is for).")
@click.option("--session", help="Session to resume: its id, the beginning of it, or last.")
@click.option("--model", help=f"{MODEL_HELP} Starts a new session.")
@click.option(
    "--agent", help="Agent to chat with: resource://agents/NAME, or the id or name of an image. Its last session goes on."
)
@click.option("--system", help="System prompt. Starts a new session.")
@click.option(
    "--attach",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that goes with the first message; may be given several times.",
)
@data_dir_option
@click.pass_context
def chat(
    ctx: click.Context,
    url: str | None,
    key_file: Path | None,
    local: bool,
    container: str | None,
    session: str | None,
    model: str | None,
    agent: str | None,
    system: str | None,
    files: tuple[Path, ...],
    data_dir: Path | None,
) -> int:
    """Chat with an agent in the terminal.

    In a terminal the last session goes on. Enter sends a message, Alt+Enter begins a new line; /help lists the commands.

    When the input is a pipe or a file, all of it is one message, in a new session unless --session names one. The answer
    goes to stdout, everything else to stderr. The exit code is 0 only if the answer is complete.
    """
    check_options(local=local, url=url, session=session, model=model, agent=agent, system=system, data_dir=data_dir)
    configure_logs("error")
    config = configure(model=model, data_dir=data_dir)
    if local and model is not None:
        model = config.default_model
    if session is not None and not local:
        session = session_named(session, server_address(url), given_key(key_file, url))
    runtime = open_local(config) if local else open_remote(server_url(given_url(url), config.port), given_key(key_file, url))
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    live = sys.stdin.isatty() and sys.stdout.isatty()
    message = None if sys.stdin.isatty() else read_message()
    beginning = Beginning(model=model, system_prompt=system)
    surroundings = surroundings_of(None if local else (server_address(url), given_key(key_file, url)), config)
    with ExitStack() as stack:
        with interrupts_held():
            portal = stack.enter_context(anyio.from_thread.start_blocking_portal("asyncio", loop_options()))
        agentx = stack.enter_context(portal.wrap_async_context_manager(runtime))
        conversation = portal.call(partial(begin, agentx, container, session, agent, beginning, fresh=message is not None))
        for file in files:
            conversation.attach(surroundings.part_of(file, conversation.container_id))
        terminal = Terminal(portal, conversation, screen_for(live=live, color=ctx.color), surroundings, live=live)
        # Left before the connection is: its end is then no news.
        stack.callback(agentx.on("disconnected", lambda event: terminal.announce(describe_loss(event))))
        stack.callback(agentx.on("connected", lambda event: terminal.announce("Connected again.")))
        return terminal.run() if message is None else terminal.answer(message)


def check_options(
    *,
    local: bool,
    url: str | None,
    session: str | None,
    model: str | None,
    agent: str | None,
    system: str | None,
    data_dir: Path | None,
) -> None:
    """Refuses options that contradict each other."""
    if local and url is not None:
        raise click.UsageError("--local runs without a server, so it cannot be combined with --url.")
    if data_dir is not None and not local:
        raise click.UsageError("--data-dir is for --local; a server has its own.")
    if session is not None and model is not None:
        raise click.UsageError(
            "A session keeps the model it was started with: give --session or --model, not both. /model changes it later."
        )
    if session is not None and (agent is not None or system is not None):
        other = "--agent" if agent is not None else "--system"
        raise click.UsageError(f"A session has its agent and its system prompt already: give --session or {other}, not both.")
    if system is not None and not system.strip():
        raise click.UsageError("--system is empty.")


def screen_for(*, live: bool, color: bool | None) -> Screen:
    """Markdown is for people: a pipe gets the text as the model wrote it."""
    markdown = Markdown(lambda: shutil.get_terminal_size().columns, styled=color is not False) if live else None
    return Screen(live=live, color=color, markdown=markdown)


def surroundings_of(server: tuple[str, Secret | None] | None, config: ServerConfig) -> Surroundings:
    """How files and the names of models are had: from a server's HTTP API, or without one."""
    if server is None:
        return Surroundings(part_of=lambda file, _: part_of(file, None, None, ""), models=lambda: models_here(config))
    address, key = server
    return Surroundings(
        part_of=lambda file, container_id: part_of(file, address, key, container_id),
        models=lambda: models_there(address, key),
    )


def models_there(address: str, key: Secret | None) -> Sequence[str]:
    """The default model of each provider of the server."""
    from agentvm.cli.api import Api

    with Api(address, key) as api:
        found = [(one.get("name"), one.get("defaultModel")) for one in api.pages("providers")]
    return [name if model is None else f"{name}/{model}" for name, model in found if isinstance(name, str)]


def models_here(config: ServerConfig) -> Sequence[str]:
    """The default model, the weights that are installed, and the providers that are configured."""
    from agentvm.cli.model import model_dir

    installed = sorted(f"local/{path.stem}" for path in model_dir().glob("*.gguf"))
    return list(dict.fromkeys([config.default_model, *installed, *config.providers]))


def session_named(name: str, address: str, key: Secret | None) -> str:
    """The id of a session that is called `last`, or by the beginning of its id."""
    from agentvm.cli.api import Api
    from agentvm.cli.names import SESSION, id_of

    with Api(address, key) as api:
        return id_of(api, SESSION, name)


def part_of(file: Path, address: str | None, key: Secret | None, container_id: str) -> UserPart:
    """The file as a part of a message: uploaded to the server, or in the message itself where there is none."""
    from agentvm.cli.api import Api
    from agentvm.cli.attachment import media_type_of, upload

    kind = media_type_of(file)
    if address is None:
        data = base64.b64encode(file.read_bytes()).decode()
    else:
        with Api(address, key) as api:
            data = str(upload(api, file, container_id)["attachment"])
    if kind.startswith("image/"):
        return ImagePart(data=data, media_type=kind, name=file.name)
    return FilePart(data=data, media_type=kind, filename=file.name)


def describe_loss(event: WireEvent) -> str:
    """A client whose credentials were refused does not come back."""
    why = event.data.get("message")
    return "Connection lost; reconnecting…" if why is None else f"Connection lost for good: {why}."


async def begin(
    agentx: AgentX, container: str | None, session: str | None, agent: str | None, beginning: Beginning, *, fresh: bool
) -> Conversation:
    """The conversation, in the session it goes on in."""
    try:
        container_id = container or await usual_container(agentx)
        if agent is not None:
            beginning = await chosen_agent(agentx, container_id, agent, beginning)
        conversation = Conversation(agentx, container_id=container_id, beginning=beginning)
        await conversation.open(session, fresh=fresh)
    except Unauthenticated:
        raise Unauthenticated(f"This server asks for a key. {KEY_REMEDY}") from None
    return conversation


async def usual_container(agentx: AgentX) -> str:
    """Where a chat takes place that names no container: `default`, unless the key is for others."""
    try:
        await agentx.containers.exists(DEFAULT_CONTAINER)
    except ContainerForbidden:
        own = await agentx.containers.list()
        if not own:
            raise click.UsageError("Your key is for containers with certain names only: give one with --container.") from None
        return own[0]
    return DEFAULT_CONTAINER


def read_message() -> str:
    """All of stdin. Read before anything is opened: without a message there is nothing to open a session for."""
    message = sys.stdin.read().rstrip()
    if not message:
        raise click.UsageError("The input is empty. Give a message, or run this command in a terminal.")
    return message


def server_url(given: str | None, port: int = DEFAULT_PORT) -> str:
    """The socket's address; an http address is understood too, since that is what a server prints first."""
    if given is None:
        return f"ws://127.0.0.1:{port}/ws"
    parts = urlsplit(given if "://" in given else f"ws://{given}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return parts._replace(scheme=scheme, path="/ws" if parts.path in ("", "/") else parts.path).geturl()


@asynccontextmanager
async def open_remote(url: str, key: Secret | None = None) -> AsyncIterator[AgentX]:
    """A server's runtime. Raises ChannelClosed, with what to do, when there is no server."""
    from agentvm.client.agentx import create_agentx
    from agentvm.client.remote import remote_runtime

    async with AsyncExitStack() as stack:
        try:
            agentx = await stack.enter_async_context(create_agentx(remote_runtime(url, key=key)))
        except ChannelClosed as error:
            raise ChannelClosed(f"{error}\n{server_remedy(url)}Or chat without a server: {program()} chat --local") from None
        except Unauthenticated as error:
            # In the server's words, unless they are for those who have no key at all.
            said = str(error)
            said = "The server does not accept this key" if said.startswith("Authentication is needed") else said
            raise Unauthenticated(f"{said}. {KEY_REMEDY}") from None
        yield agentx


@asynccontextmanager
async def open_local(config: ServerConfig) -> AsyncIterator[AgentX]:
    """A runtime in this process."""
    from agentvm.client.agentx import create_agentx
    from agentvm.server.local import local_runtime

    # Nobody waits for a turn that its only reader has left.
    async with create_agentx(local_runtime(replace(config, grace=0.0))) as agentx:
        yield agentx
