"""avm chat — a chat in the terminal, over the same protocol as every other client.

The event loop runs in a thread of its own, so that the connection stays open while the main thread waits for a line.
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
from agentvm.cli.chat_commands import ChatBackend
from agentvm.cli.chat_session import ChatSession
from agentvm.cli.markdown import Markdown
from agentvm.cli.options import (
    KEY_REMEDY,
    key_file_option,
    loop_options,
    option_key,
    option_url,
    profile_option,
    server_address,
    server_remedy,
)
from agentvm.cli.screen import Screen
from agentvm.cli.server_options import FLAGS, configure, data_dir_option, flag_help
from agentvm.cli.session_start import SessionStart, choose_agent
from agentvm.cli.terminal import Terminal, interrupts_held
from agentvm.client.verbs import AgentX
from agentvm.config import DEFAULT_PORT, ServerConfig
from agentvm.errors import ChannelClosed, ContainerForbidden, Unauthenticated
from agentvm.model.message import FilePart, ImagePart, UserPart
from agentvm.model.secret import Secret
from agentvm.observability.console import configure_logs
from agentvm.protocol.link import WireEvent

EXAMPLES = """\b
Examples:
  avm chat                                     with the local server
  avm chat --local                             without a server
  avm chat --container work --model anthropic  a new session with another model
  avm chat --agent resource://agents/pirate    with an agent from the resources
  avm chat --system "Answer in French."        a new session with its own system prompt
  avm chat < question.txt                      one answer on stdout, in a new session
  avm chat --attach photo.png                  with a file attached to the first message
  echo "And 7 * 8?" | avm chat --session ID    one answer, in that session
  AVM_KEY=... avm chat                         with a server that requires a key
"""

DEFAULT_CONTAINER = "default"


@click.command(epilog=EXAMPLES)
@click.option("--url", help="Server URL (AVM_URL; default: the profile's, the local server, ws://127.0.0.1:8080/ws).")
@profile_option
@key_file_option
@click.option("--local", is_flag=True, help="Run the agent in this process, without a server.")
@click.option("--container", help="Container (default: `default`, or the one of your key).")
@click.option("--session", help="Session to resume: an id, an id prefix or `last`.")
@click.option("--model", help=f"{flag_help(FLAGS['model'])} Starts a new session.")
@click.option("--agent", help="Agent: resource://agents/NAME, or the id or name of an image. Continues its last session.")
@click.option("--system", help="System prompt. Starts a new session.")
@click.option(
    "--attach",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File for the first message; repeatable.",
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
    data_dir: str | None,
) -> int:
    """Chat with an agent in the terminal.

    In a terminal the last session is continued. Enter sends a message, Alt+Enter starts a new line; /help lists the commands.

    Input from a pipe or file is one message, sent in a new session unless --session is set. The answer goes to stdout, all
    other output to stderr. The exit code is 0 only if the answer is complete.
    """
    check_options(local=local, url=url, session=session, model=model, agent=agent, system=system, data_dir=data_dir)
    configure_logs("error")
    config = configure(model=model, data_dir=data_dir)
    if local and model is not None:
        model = config.default_model
    if session is not None and not local:
        session = resolve_session(session, server_address(url), option_key(key_file, url))
    runtime = (
        open_local(config) if local else open_remote(server_url(option_url(url), config.system.port), option_key(key_file, url))
    )
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    live = sys.stdin.isatty() and sys.stdout.isatty()
    message = None if sys.stdin.isatty() else read_message()
    start = SessionStart(model=model, system_prompt=system)
    backend = backend_of(None if local else (server_address(url), option_key(key_file, url)), config)
    with ExitStack() as stack:
        with interrupts_held():
            portal = stack.enter_context(anyio.from_thread.start_blocking_portal("asyncio", loop_options()))
        agentx = stack.enter_context(portal.wrap_async_context_manager(runtime))
        conversation = portal.call(partial(begin, agentx, container, session, agent, start, fresh=message is not None))
        for file in files:
            conversation.attach(backend.part_of(file, conversation.container_id))
        terminal = Terminal(portal, conversation, screen_for(live=live, color=ctx.color), backend, live=live)
        # Removed before the connection is closed.
        stack.callback(agentx.runtime.on("disconnected", lambda event: terminal.announce(describe_loss(event))))
        stack.callback(agentx.runtime.on("connected", lambda event: terminal.announce("Reconnected.")))
        return terminal.run() if message is None else terminal.answer(message)


def check_options(
    *,
    local: bool,
    url: str | None,
    session: str | None,
    model: str | None,
    agent: str | None,
    system: str | None,
    data_dir: str | None,
) -> None:
    """Refuses options that contradict each other."""
    if local and url is not None:
        raise click.UsageError("--local cannot be combined with --url.")
    if data_dir is not None and not local:
        raise click.UsageError("--data-dir requires --local.")
    if session is not None and model is not None:
        raise click.UsageError("Use --session or --model, not both: a session has its own model. /model changes it.")
    if session is not None and (agent is not None or system is not None):
        other = "--agent" if agent is not None else "--system"
        raise click.UsageError(f"Use --session or {other}, not both: a session has its own agent and system prompt.")
    if system is not None and not system.strip():
        raise click.UsageError("--system is empty.")


def screen_for(*, live: bool, color: bool | None) -> Screen:
    """The screen of a chat; only a terminal gets rendered Markdown."""
    markdown = Markdown(lambda: shutil.get_terminal_size().columns, styled=color is not False) if live else None
    return Screen(live=live, color=color, markdown=markdown)


def backend_of(server: tuple[str, Secret | None] | None, config: ServerConfig) -> ChatBackend:
    """Attachments and model names from the HTTP API of a server, or from this process."""
    if server is None:
        return ChatBackend(part_of=lambda file, _: part_of(file, None, None, ""), models=lambda: local_models(config))
    address, key = server
    return ChatBackend(
        part_of=lambda file, container_id: part_of(file, address, key, container_id), models=lambda: server_models(address, key)
    )


def server_models(address: str, key: Secret | None) -> Sequence[str]:
    """The default model of each provider of the server."""
    from agentvm.cli.api import Api

    with Api(address, key) as api:
        defaults = [(provider.get("name"), provider.get("defaultModel")) for provider in api.items("provider.list")]
    return [name if model is None else f"{name}/{model}" for name, model in defaults if isinstance(name, str)]


def local_models(config: ServerConfig) -> Sequence[str]:
    """The default model, the installed models and the configured providers."""
    from agentvm.cli.model import model_dir

    installed = sorted(f"local/{path.stem}" for path in model_dir().glob("*.gguf"))
    return list(dict.fromkeys([config.default_model, *installed, *config.providers]))


def resolve_session(name: str, address: str, key: Secret | None) -> str:
    """The id of a session given by an id, a prefix or `last`."""
    from agentvm.cli.api import Api
    from agentvm.cli.names import SESSION, id_of

    with Api(address, key) as api:
        return id_of(api, SESSION, name)


def part_of(file: Path, address: str | None, key: Secret | None, container_id: str) -> UserPart:
    """The file as a message part: uploaded to the server, or embedded in the message without one."""
    from agentvm.cli.api import Api
    from agentvm.cli.attachment import media_type_of, upload

    media_type = media_type_of(file)
    if address is None:
        data = base64.b64encode(file.read_bytes()).decode()
    else:
        with Api(address, key) as api:
            data = str(upload(api, file, container_id)["attachment"])
    if media_type.startswith("image/"):
        return ImagePart(data=data, media_type=media_type, name=file.name)
    return FilePart(data=data, media_type=media_type, filename=file.name)


def describe_loss(event: WireEvent) -> str:
    """The notice for a lost connection; it is final if the key was rejected."""
    reason = event.data.get("message")
    return "Connection lost; reconnecting…" if reason is None else f"Connection closed: {reason}."


async def begin(
    agentx: AgentX, container: str | None, session: str | None, agent: str | None, start: SessionStart, *, fresh: bool
) -> ChatSession:
    """Opens the chat session."""
    try:
        container_id = container or await default_container(agentx)
        if agent is not None:
            start = await choose_agent(agentx, container_id, agent, start)
        conversation = ChatSession(agentx, container_id=container_id, start=start)
        await conversation.open(session, fresh=fresh)
    except Unauthenticated:
        raise Unauthenticated(f"This server requires an API key. {KEY_REMEDY}") from None
    return conversation


async def default_container(agentx: AgentX) -> str:
    """The container of a chat without --container: `default`, unless the key is limited to others."""
    try:
        await agentx.containers.exists(DEFAULT_CONTAINER)
    except ContainerForbidden:
        containers = await agentx.containers.list()
        if not containers:
            raise click.UsageError("Your key is limited to certain containers: choose one with --container.") from None
        return containers[0]
    return DEFAULT_CONTAINER


def read_message() -> str:
    """Reads the message from stdin, before a session is opened."""
    message = sys.stdin.read().rstrip()
    if not message:
        raise click.UsageError("The input is empty. Provide a message, or run this command in a terminal.")
    return message


def server_url(url: str | None, port: int = DEFAULT_PORT) -> str:
    """The WebSocket URL; an HTTP URL is accepted too."""
    if url is None:
        return f"ws://127.0.0.1:{port}/ws"
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return parts._replace(scheme=scheme, path="/ws" if parts.path in ("", "/") else parts.path).geturl()


@asynccontextmanager
async def open_remote(url: str, key: Secret | None = None) -> AsyncIterator[AgentX]:
    """Connects to a server. Raises `ChannelClosed` with a remedy when none answers."""
    from agentvm.client.agentx import create_agentx
    from agentvm.client.remote import remote_runtime

    async with AsyncExitStack() as stack:
        try:
            agentx = await stack.enter_async_context(create_agentx(remote_runtime(url, key=key)))
        except ChannelClosed as error:
            raise ChannelClosed(f"{error}\n{server_remedy(url)}Or chat without a server: {program()} chat --local") from None
        except Unauthenticated as error:
            # The message for a missing key would be misleading for a rejected one.
            message = str(error)
            if message.startswith(("Authentication is needed", "Provide a valid API key")):
                message = "The server rejected this key"
            raise Unauthenticated(f"{message}. {KEY_REMEDY}") from None
        yield agentx


@asynccontextmanager
async def open_local(config: ServerConfig) -> AsyncIterator[AgentX]:
    """Opens a runtime in this process."""
    from agentvm.client.agentx import create_agentx
    from agentvm.server.local import local_runtime

    # A turn whose only client has left is not awaited.
    async with create_agentx(local_runtime(replace(config, system=replace(config.system, shutdown_seconds=0.0)))) as agentx:
        yield agentx
