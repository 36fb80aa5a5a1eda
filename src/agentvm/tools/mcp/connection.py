"""MCP connection — one negotiated session with one server, for one person or for all that its operator lets share it.

The session runs in its own task, so that a call can be cancelled without harm to the others. Its end has one cause, which every
waiting call is told. The SDK negotiates and frames; its checks of results are not used, since they would run a stranger's
patterns on the event loop.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter

from agentvm.errors import AgentVMError, ToolFailed, from_code, shorten
from agentvm.errors.tool import McpConsentRequired
from agentvm.log import get_logger
from agentvm.tools.base import (
    ANSWER_TIMEOUT_SECONDS,
    CallContext,
    CallProgress,
    ConsentRequired,
    InputRequired,
    Outcome,
    Resumption,
    plain_text,
)
from agentvm.tools.mcp.listing import ListedTool, ListReading
from agentvm.tools.mcp.results import answers, call_result, input_required, question, url_questions
from agentvm.tools.mcp.stdio import LINE_MAX_BYTES, StdioProcess, stdio_transport
from agentvm.tools.safe_http import SafeHttp
from agentvm.version import VERSION

logger = get_logger(__name__)
# The SDK logs what servers say, and what they are sent.
logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)

DIAL_SECONDS = 900.0
"""Time in which the streams to a server must be open: the packages of a program are installed before it is started."""
HANDSHAKE_SECONDS = 30.0
CLOSE_SECONDS = 2.0
ABANDONED_MAX = 3
"""Requests in a row that a server may leave unanswered before it is replaced."""
KEY_META = "agentvm/key"
_PAGES_MAX = 20
_RETRIES_MAX = 5
"""Times that a server may ask to be called again without a question."""
_STDERR_TIMEOUT_SECONDS = 1.0
_MESSAGE_MAX = 500

_CALLED: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.InputRequiredResult | types.CallToolResult
)
Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
OpenProcess = Callable[[], AbstractAsyncContextManager[StdioProcess]]
Dial = Callable[[], AbstractAsyncContextManager[Streams]]
"""Opens the streams to a server; leaving them ends the process, if one was started."""


def dial_process(open_process: OpenProcess, max_bytes: int = LINE_MAX_BYTES) -> Dial:
    """Dials a server that is a program. The end of its stderr is logged, since it is shown nowhere else."""

    @asynccontextmanager
    async def dial() -> AsyncIterator[Streams]:
        async with open_process() as process:
            try:
                async with stdio_transport(process, max_bytes=max_bytes) as streams:
                    yield streams
            finally:
                if tail := process.stderr_tail.strip():
                    logger.info("mcp.server_stderr", tail=plain_text(tail)[-_MESSAGE_MAX:])

    return dial


def dial_url(
    http: SafeHttp,
    url: str,
    *,
    owner: str | None = None,
    auth: httpx2.Auth | None = None,
    headers: Mapping[str, str] | None = None,
    max_bytes: int = LINE_MAX_BYTES,
) -> Dial:
    """Dials a server on the web for a tenant, through the checked transport. Redirects to another origin are not followed."""

    @asynccontextmanager
    async def dial() -> AsyncIterator[Streams]:
        async with http.client(owner=owner, redirects=0, max_bytes=max_bytes, auth=auth) as client:
            client.headers.update(headers or {})
            async with streamable_http_client(url, http_client=client, max_sse_event_size=max_bytes) as streams:
                yield streams

    return dial


class McpConnection:
    """A session and the calls on it. `ready` and `ended` are each set once; `failure` is the cause of an end not asked for."""

    def __init__(self, name: str, dial: Dial, *, shared: bool, on_list_changed: Callable[[], None]) -> None:
        self.name = name
        self.ready, self.ended = anyio.Event(), anyio.Event()
        self.failure: AgentVMError | None = None
        self.version: str | None = None
        self._dial, self._shared, self._on_list_changed = dial, shared, on_list_changed
        self._closing = anyio.Event()
        self._scope = anyio.CancelScope()
        self._session: ClientSession | None = None
        self._calls: dict[object, CallContext] = {}
        self._abandoned = 0
        self._headers_known = False

    @property
    def usable(self) -> bool:
        return not self.ended.is_set() and not self._closing.is_set() and self._abandoned < ABANDONED_MAX

    async def run(self) -> None:
        """Negotiates and holds the session until it is closed or fails."""
        client = Client(
            self._open_streams(),
            mode="auto",
            cache=None,
            client_info=types.Implementation(name="agentvm", version=VERSION),
            elicitation_callback=self._elicit,
            message_handler=self._receive,
        )
        try:
            with self._scope:
                self._scope.deadline = anyio.current_time() + DIAL_SECONDS
                async with client:
                    self._session, self.version = client.session, client.protocol_version
                    self._scope.deadline = float("inf")
                    self.ready.set()
                    await self._closing.wait()
            if self._scope.cancelled_caught and not self._closing.is_set():
                self.failure = ToolFailed(f"{self.name} did not introduce itself within {HANDSHAKE_SECONDS:g} seconds")
        except* Exception as group:  # noqa: BLE001 - Protects the other servers.
            # A stranger's messages in a library's hands: whatever they bring about ends this session and no other.
            self.failure = _cause(self.name, group)
        finally:
            self._session = None
            self.ended.set()
            self.ready.set()

    @asynccontextmanager
    async def _open_streams(self) -> AsyncIterator[Streams]:
        async with self._dial() as streams:
            if not self._closing.is_set():
                self._scope.deadline = anyio.current_time() + HANDSHAKE_SECONDS
            yield streams

    def close(self) -> None:
        """Ends the session; it has `CLOSE_SECONDS` to say goodbye."""
        self._closing.set()
        self._scope.deadline = min(self._scope.deadline, anyio.current_time() + CLOSE_SECONDS)
        if self._session is None:
            self._scope.cancel()

    def kill(self) -> None:
        """Ends the session at once."""
        self._closing.set()
        self._scope.cancel()

    async def list_tools(self) -> ListReading:
        """Reads the whole list."""
        tools: list[ListedTool] = []
        cursor, ttl_ms, private = None, 0, False
        for _ in range(_PAGES_MAX):
            request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
            try:
                with self._answered():
                    page = await self._open_session().send_request(request, types.ListToolsResult)
            except MCPError as error:
                raise await self._explained(error) from None
            except ValueError:
                raise ToolFailed(f"{self.name} lists its tools in a form that is not MCP") from None
            tools += map(_listed, page.tools)
            ttl_ms, private = page.ttl_ms, private or page.cache_scope == "private"
            cursor = page.next_cursor
            if cursor is None:
                return ListReading(tuple(tools), ttl_ms / 1000, private)
        raise ToolFailed(f"{self.name} lists its tools on more than {_PAGES_MAX} pages")

    async def call(
        self, tool: str, input: Mapping[str, object], context: CallContext, *, keyed: bool, copies_to_headers: bool = False
    ) -> Outcome:
        """Calls a tool. Questions and a missing consent are outcomes; a state that the server dropped is requested again."""
        if copies_to_headers and not self._headers_known:
            # The session learns which arguments become headers.
            await self._open_session().list_tools()
            self._headers_known = True
        try:
            outcome = await self._send(tool, input, context, keyed, context.resumption)
            for _ in range(_RETRIES_MAX):
                if not isinstance(outcome, InputRequired) or outcome.questions:
                    return outcome
                # The server wants to be called again with its state, and asks nobody anything.
                outcome = await self._send(tool, input, context, keyed, Resumption(answers={}, state=outcome.state))
            raise ToolFailed(f"{self.name} asks to be called again and again")
        except MCPError as error:
            if context.resumption is None or not _lost_state(error):
                return await self._refused(error)
        try:
            return await self._send(tool, input, context, keyed, None)
        except MCPError as error:
            return await self._refused(error)

    async def _send(
        self, tool: str, input: Mapping[str, object], context: CallContext, keyed: bool, resumption: Resumption | None
    ) -> Outcome:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            context.progress(
                CallProgress(progress=progress, total=total, message=message and plain_text(message)[:_MESSAGE_MAX])
            )

        meta = {KEY_META: context.key} if keyed else {}
        request = types.CallToolRequest(
            params=types.CallToolRequestParams.model_validate({"name": tool, "arguments": dict(input), "_meta": meta})
        )
        if resumption is not None:
            request.params.input_responses = dict(answers(resumption.answers))
            request.params.request_state = resumption.state
        number = object()
        self._calls[number] = context
        try:
            with self._answered():
                result = await self._open_session().send_request(request, _CALLED, progress_callback=on_progress)
        except ValueError:
            raise ToolFailed(f"{self.name} answers in a form that is not MCP") from None
        finally:
            del self._calls[number]
        return input_required(result) if isinstance(result, types.InputRequiredResult) else call_result(result)

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Counts consecutive requests that were cancelled without an answer, including those for the list of tools."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            self._abandoned += 1
            raise
        except (MCPError, ValueError):
            # A refusal is an answer, and so is one that cannot be read.
            self._abandoned = 0
            raise
        self._abandoned = 0

    async def _refused(self, error: MCPError) -> Outcome:
        if error.code == types.URL_ELICITATION_REQUIRED and (required := url_questions(error.data)) is not None:
            return required
        failure = await self._explained(error)
        if isinstance(failure, McpConsentRequired):
            return ConsentRequired(url=failure.url, state=failure.state, server=failure.server)
        raise failure from None

    async def _explained(self, error: MCPError) -> AgentVMError:
        """Returns the error for the caller: of a session that has ended, the cause of its end."""
        # Servers use the same number for errors of their own.
        if (error.code, error.message) != (types.CONNECTION_CLOSED, "Connection closed"):
            return ToolFailed(f"{self.name} refused the call: {shorten(plain_text(error.message))}")
        with anyio.move_on_after(_STDERR_TIMEOUT_SECONDS):
            await self.ended.wait()
        return self.ending()

    def ending(self) -> AgentVMError:
        """Returns the cause of the end, as an error of its own for each who waited."""
        if self.failure is None:
            return ToolFailed(f"{self.name} was closed")
        if isinstance(self.failure, McpConsentRequired):
            return self.failure
        return from_code(self.failure.code, str(self.failure))

    def _open_session(self) -> ClientSession:
        if self._session is None:
            raise self.ending()
        return self._session

    async def _elicit(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answers a server of an older generation, which asks while the call is open and cannot wait for days."""
        # Of several calls it is not known whose question this is, and the answer may be private.
        if not self._shared and len(self._calls) == 1:
            (call,) = self._calls.values()
            with anyio.move_on_after(ANSWER_TIMEOUT_SECONDS):
                try:
                    answer = await call.ask(question(params))
                except ToolFailed:
                    return types.ElicitResult(action="decline")
                return types.ElicitResult(action=answer.action, content=answer.content)
        return types.ElicitResult(action="decline")

    async def _receive(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_list_changed()


def _listed(tool: types.Tool) -> ListedTool:
    annotations = tool.annotations
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=None if annotations is None else annotations.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


def _lost_state(error: MCPError) -> bool:
    return isinstance(error.data, Mapping) and error.data.get("reason") == "invalid_request_state"


def _cause(name: str, group: BaseExceptionGroup[BaseException]) -> AgentVMError:
    """Returns the one error that explains a failed session: ours, if there is one, else the library's in plain words."""
    leaves = list(_leaves(group))
    for leaf in leaves:
        if isinstance(leaf, AgentVMError):
            return leaf
    for leaf in leaves:
        if isinstance(leaf, MCPError) and leaf.code != types.CONNECTION_CLOSED:
            return ToolFailed(f"{name} refused the connection: {shorten(plain_text(leaf.message))}")
        if isinstance(leaf, OAuthFlowError):
            return ToolFailed(f"{name} could not be signed in to: {shorten(plain_text(str(leaf)))}")
    logger.info("mcp.connection_failed", server=name, errors=[type(leaf).__name__ for leaf in leaves])
    return ToolFailed(f"{name} does not speak MCP, or closed the connection")


def _leaves(group: BaseExceptionGroup[BaseException]) -> "list[BaseException]":
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
