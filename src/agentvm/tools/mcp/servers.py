"""MCP servers — the tools of servers on the web and of programs that the operator lets run here.

A list of tools is read at most once a minute. A pinned tool runs only while the server describes it as it was pinned; others go
on. Nothing of the `mcp` package is imported before the first call.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import httpx2
from anyio.to_thread import run_sync

from agentvm.drivers.base import ToolSpec
from agentvm.errors import InvalidInput, ToolFailed
from agentvm.errors.tool import EgressRefused, McpConsentRequired
from agentvm.model.tier import Placed
from agentvm.resources.tool_entry import McpEntry
from agentvm.sharing.cache import Cache
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.tools.base import CallContext, Caller, CallTraits, ConsentRequired, Outcome, TraitsOfTool
from agentvm.tools.mcp.consent import McpCredentials, PendingConsent, TokenScope, client_metadata, read_pending
from agentvm.tools.mcp.listing import ListedTool, Listing, ListReading, examine
from agentvm.tools.mcp.pool import EVERYBODY, IDLE_SECONDS, McpPool, PoolKey
from agentvm.tools.mcp.settings import McpServerSettings
from agentvm.tools.safe_http import SafeHttp, parse_url
from agentvm.tools.sandbox_jobs import SandboxSpec
from agentvm.tools.secrets import Grantee

if TYPE_CHECKING:
    from agentvm.tools.mcp.connection import McpConnection
    from agentvm.tools.mcp.oauth import McpOAuth
    from agentvm.tools.mcp.stdio import StdioProcess

LIST_MIN_SECONDS = 60.0
LIST_MAX_SECONDS = 3_600.0
LIST_RETRY_SECONDS = 5.0
"""The soonest that a list is read again when the server says that it has changed."""
LISTS_MAX = 1_000

Launch = Callable[[str, McpServerSettings, Caller], AbstractAsyncContextManager["StdioProcess"]]
"""Starts the program of a server for a caller; leaving the context ends it, with everything it started."""


FindSandbox = Callable[[McpServerSettings], Awaitable[SandboxSpec]]
FindPlace = Callable[[McpEntry, Caller], Placed | None]
"""Finds the tier of the program that answers a caller; None for a server on the web."""


async def _no_sandbox(settings: McpServerSettings) -> SandboxSpec:
    return SandboxSpec()


def _no_place(entry: McpEntry, caller: Caller) -> Placed | None:
    return None


def server_grantee(server_id: str) -> Grantee:
    """Returns a server of the operator as grants of secrets know it."""
    return Grantee(f"stdio:{server_id}", f"stdio:{server_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """How users sign in to servers on the web."""

    credentials: McpCredentials
    redirect_uri: str
    clock: Callable[[], float]
    """Seconds since 1970."""
    client_metadata_url: str | None = None
    """The address of `client_document`; None for a server that others cannot reach by https."""
    anonymous: bool = False
    """Whether callers without a user may sign in, because the server has no users: all of them are one."""


@dataclass(slots=True)
class _Read:
    listing: Listing
    read_at: float
    fresh_until: float


class McpServers:
    """All MCP servers of this AgentVM."""

    def __init__(
        self,
        *,
        http: SafeHttp,
        pool: McpPool,
        launch: Launch,
        settings: Mapping[str, McpServerSettings],
        sandbox: FindSandbox = _no_sandbox,
        placed: FindPlace = _no_place,
        oauth: OAuthSettings | None = None,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._http, self._pool, self._launch, self.settings = http, pool, launch, settings
        self._sandbox, self.placed, self._oauth, self._clock = sandbox, placed, oauth, clock
        self._lists: Cache[tuple[str, object], _Read] = Cache(LISTS_MAX)
        self._reading: KeyedLock[PoolKey] = KeyedLock()

    def key(self, entry: McpEntry, caller: Caller) -> PoolKey:
        """Returns the connection that calls of this caller use; `ToolFailed` for a server that is not set up here."""
        if entry.server is None:
            return PoolKey(_address(entry), (caller.tenant_id, caller.user_id), caller.tenant_id)
        match self._server(entry.server).per:
            case "server":
                return PoolKey(f"stdio:{entry.server}", None, EVERYBODY)
            case "tenant":
                return PoolKey(f"stdio:{entry.server}", caller.tenant_id, caller.tenant_id)
            case "user":
                return PoolKey(f"stdio:{entry.server}", (caller.tenant_id, caller.user_id), caller.tenant_id)

    def _server(self, server_id: str) -> McpServerSettings:
        if server_id not in self.settings:
            raise ToolFailed(f"There is no MCP server {server_id} here; an operator can set it up in tools.mcpServers")
        return self.settings[server_id]

    def secrets(self, entry: McpEntry) -> tuple[str, ...]:
        """Returns the names of the secrets that a program finds in its environment."""
        return () if entry.server is None or entry.server not in self.settings else self.settings[entry.server].secrets

    async def hosts(self, entry: McpEntry) -> tuple[str, ...]:
        """Returns the hosts that a program can reach."""
        return () if entry.server is None else (await self._sandbox(self._server(entry.server))).hosts

    @asynccontextmanager
    async def lease(self, entry: McpEntry, caller: Caller) -> AsyncIterator["McpConnection"]:
        """Holds a connection for one call."""
        key = self.key(entry, caller)
        idle = IDLE_SECONDS if entry.server is None else self._server(entry.server).idle_seconds
        async with self._pool.lease(key, lambda: self._connect(key, entry, caller), idle_seconds=idle) as connection:
            yield connection

    async def _connect(self, key: PoolKey, entry: McpEntry, caller: Caller) -> "McpConnection":
        # Half a second of imports, which other sessions need not wait for.
        await run_sync(import_module, "agentvm.tools.mcp.connection")
        from agentvm.tools.mcp.connection import McpConnection, dial_process, dial_url  # noqa: PLC0415

        if entry.server is None:
            url = _address(entry)
            page = parse_url(url)
            if page.scheme != "https" and not self._http.allows_plain(page):
                raise EgressRefused(f"{page.host} is not called without https; an operator can allow its address")
            auth = None if self._oauth is None else await self._auth(self._oauth, TokenScope(caller, url))
            dial = dial_url(self._http, url, owner=caller.tenant_id, auth=auth)
        else:
            server_id, settings = entry.server, self._server(entry.server)
            dial = dial_process(lambda: self._launch(server_id, settings, caller), settings.max_bytes)
        shared = entry.server is not None and self._server(entry.server).per != "user"
        return McpConnection(key.server, dial, shared=shared, on_list_changed=lambda: self._changed(key.server))

    async def _auth(self, settings: OAuthSettings, scope: TokenScope) -> httpx2.Auth:
        from agentvm.tools.mcp.oauth import UserRequired  # noqa: PLC0415

        if not scope.caller.user_id and not settings.anonymous:
            return UserRequired()
        return await (await self._sign_in(settings)).auth(scope)

    async def _sign_in(self, settings: OAuthSettings) -> "McpOAuth":
        await run_sync(import_module, "agentvm.tools.mcp.oauth")
        from agentvm.tools.mcp.oauth import McpOAuth  # noqa: PLC0415

        return McpOAuth(
            settings.credentials,
            self._http,
            redirect_uri=settings.redirect_uri,
            client_metadata_url=settings.client_metadata_url,
            clock=settings.clock,
        )

    @property
    def client_document(self) -> dict[str, object] | None:
        """The description of this server as a client, which is at its `client_metadata_url`; None without one."""
        settings = self._oauth
        if settings is None or settings.client_metadata_url is None:
            return None
        return {"client_id": settings.client_metadata_url, **client_metadata(settings.redirect_uri)}

    async def consent(self, state: str, issuer: str | None) -> PendingConsent:
        """Returns the consent that a callback is about; `InvalidInput` if there is none, or not for this issuer."""
        return read_pending(None if self._oauth is None else await self._oauth.credentials.find_pending(state), issuer)

    async def finish(self, *, state: str, code: str, issuer: str | None, caller: Caller | None) -> TokenScope:
        """Exchanges the code of a callback; see `McpOAuth.finish`."""
        if self._oauth is None:
            raise InvalidInput("Signing in to MCP servers is not available on this server")
        return await (await self._sign_in(self._oauth)).finish(state=state, code=code, issuer=issuer, caller=caller)

    async def disconnect(self, scope: TokenScope) -> bool:
        """Forgets the tokens of a user for a server, and ends the connection that has them."""
        if self._oauth is None:
            return False
        forgotten = await (await self._sign_in(self._oauth)).forget(scope)
        caller = scope.caller
        self._pool.drop(PoolKey(scope.server, (caller.tenant_id, caller.user_id), caller.tenant_id))
        return forgotten

    async def list_tools(self, entry: McpEntry, caller: Caller) -> Listing:
        """Returns the tools that a server offers to a caller now: for publishing, and for pinning."""
        async with self.lease(entry, caller) as connection:
            return await self.listing(connection, entry, caller, max_age_seconds=LIST_RETRY_SECONDS)

    async def listing(
        self, connection: "McpConnection", entry: McpEntry, caller: Caller, *, max_age_seconds: float = LIST_MAX_SECONDS
    ) -> Listing:
        """Returns the tools that a server offers, read again when the list is too old."""
        key = self.key(entry, caller)
        if (listing := self._find_listing(key, max_age_seconds)) is not None:
            return listing
        async with self._reading.hold(key):
            # Somebody else may have read it meanwhile.
            if (listing := self._find_listing(key, max_age_seconds)) is not None:
                return listing
            reading = await connection.list_tools()
            listing = await run_sync(examine, reading.tools)
            self._lists.put((key.server, key.scope if reading.private else key.tenant_id), self._read(listing, reading))
            return listing

    def _find_listing(self, key: PoolKey, max_age_seconds: float) -> Listing | None:
        now = self._clock()
        # A list that is the same for everybody is kept once for a tenant: he trusts his own users with it.
        for scope in (key.tenant_id, key.scope):
            read = self._lists.get((key.server, scope))
            if read is not None and now < min(read.fresh_until, read.read_at + max_age_seconds):
                return read.listing
        return None

    def _read(self, listing: Listing, reading: ListReading) -> _Read:
        now = self._clock()
        return _Read(listing, now, now + min(max(reading.ttl_seconds, LIST_MIN_SECONDS), LIST_MAX_SECONDS))

    def _changed(self, server: str) -> None:
        def hasten(key: tuple[str, object], read: _Read) -> bool:
            if key[0] == server:
                read.fresh_until = min(read.fresh_until, read.read_at + LIST_RETRY_SECONDS)
            return False

        self._lists.drop_if(hasten)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool(TraitsOfTool):
    """One tool of a server, as an image has frozen it."""

    spec: ToolSpec
    servers: McpServers
    entry: McpEntry
    name: str
    """The server's own name of the tool."""
    traits: CallTraits
    pin: str | None = None
    """Digest of the tool when it was published; None for a server of a 1.x image, whose tools need an approval."""
    pinned: ListedTool | None = None
    """The tool as it was, to show the changes."""
    headers_allowed: bool = False
    """Whether the publisher accepts that arguments are copied into HTTP headers."""

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        """Calls the tool. `McpChanged` when it is no longer the pinned one."""
        if context.secrets is not None:
            # The process has them since it began: a grant that was taken back ends that, and results do not show them.
            await context.secrets.for_code(await self.servers.hosts(self.entry))
        if context.resumption is not None and not context.resumption.answers:
            # After a consent: its state is ours, and no business of the server.
            context = replace(context, resumption=None)
        try:
            async with self.servers.lease(self.entry, context.caller) as connection:
                if (placed := self.servers.placed(self.entry, context.caller)) is not None:
                    context.placed(placed)
                listing = await self.servers.listing(connection, self.entry, context.caller)
                self._check(listing)
                copies = self.name in listing.copying
                outcome = await connection.call(
                    self.name, input, context, keyed=self.repeat == "keyed", copies_to_headers=copies
                )
        except McpConsentRequired as required:
            return ConsentRequired(url=required.url, state=required.state, server=required.server)
        return outcome

    def _check(self, listing: Listing) -> None:
        if self.pin is not None:
            listing.pinned(self.name, self.pin, self.pinned)
        elif self.name not in listing.tools:
            raise ToolFailed(f"The MCP server has no tool {self.name}: {listing.unusable.get(self.name, 'it is not listed')}")
        if self.name in listing.copying and not self.headers_allowed:
            raise ToolFailed(f"{self.name} copies its arguments into HTTP headers, which its publisher has not accepted")


def _address(entry: McpEntry) -> str:
    assert entry.address is not None, "an entry names a server or an address"
    return entry.address.origin + entry.address.path
