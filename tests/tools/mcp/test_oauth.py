import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
import pytest
from tests.support.mcp_process import Launcher
from tests.support.oauth import AuthorizationServer, McpWeb, oauth_servers
from tests.tools.mcp.memory_credentials import MemoryCredentials

from agentvm.drivers.base import ToolSpec
from agentvm.errors import InvalidInput, ToolFailed
from agentvm.errors.tool import EgressRefused, McpConsentRequired
from agentvm.model.public_address import AddressRules
from agentvm.resources.tool_entry import parse_mcp
from agentvm.tools.base import CallContext, Caller, CallResult, CallTraits, ConsentRequired, Outcome
from agentvm.tools.mcp.consent import CONSENT_SECONDS, TokenScope
from agentvm.tools.mcp.oauth import McpOAuth, expiry
from agentvm.tools.mcp.pool import McpPool
from agentvm.tools.mcp.servers import McpServers, McpTool, OAuthSettings
from agentvm.tools.safe_http import SafeHttp

LOOPBACK = AddressRules.parse(["127.0.0.0/8"])
REDIRECT = "https://avm.example/v1/mcp/callback"
CLIENT = "https://avm.example/v1/mcp/client"
ALICE, BOB, EVE = Caller("acme", "alice"), Caller("acme", "bob"), Caller("globex", "alice")


@dataclass
class Site:
    """The MCP server with its authorization server, and what an AgentVM keeps when it restarts."""

    mcp: McpWeb
    now: float = 1_800_000_000.0
    credentials: MemoryCredentials = field(init=False)

    def __post_init__(self) -> None:
        self.credentials = MemoryCredentials(lambda: self.now)

    @asynccontextmanager
    async def started(self) -> AsyncIterator["Started"]:
        """One process of AgentVM, from its start to its end."""
        settings = OAuthSettings(
            credentials=self.credentials, redirect_uri=REDIRECT, clock=lambda: self.now, client_metadata_url=CLIENT
        )
        async with SafeHttp(LOOPBACK) as http, McpPool() as pool:
            servers = McpServers(http=http, pool=pool, launch=Launcher(), settings={}, oauth=settings)
            oauth = McpOAuth(self.credentials, http, redirect_uri=REDIRECT, clock=lambda: self.now)
            yield Started(self, servers, oauth)


@dataclass
class Started:
    site: Site
    servers: McpServers
    oauth: McpOAuth

    async def call(self, caller: Caller) -> Outcome:
        tool = McpTool(
            spec=ToolSpec(name="whoami", description="x", input_schema={}), servers=self.servers,
            entry=parse_mcp(self.site.mcp.url), name="whoami", traits=CallTraits(),
        )  # fmt: skip
        return await tool.run({}, CallContext(key="k", caller=caller, deadline=0))

    async def consented(self, caller: Caller, user: str) -> TokenScope:
        required = await self.call(caller)
        assert isinstance(required, ConsentRequired)
        callback = self.site.mcp.authorization.consent(required.url, user)
        return await self.oauth.finish(
            code=callback["code"], state=callback["state"], issuer=callback.get("issuer"), caller=caller
        )


@asynccontextmanager
async def site(authorization: AuthorizationServer | None = None) -> AsyncIterator[Site]:
    with anyio.fail_after(60):
        async with oauth_servers(authorization or AuthorizationServer()) as mcp:
            yield Site(mcp)


def said(user: str) -> CallResult:
    return CallResult(type="text", value=user)


async def test_a_user_consents_and_is_not_asked_again_not_even_by_another_process() -> None:
    async with site() as made:
        async with made.started() as process:
            scope = await process.consented(ALICE, "alice@example")
            assert scope == TokenScope(ALICE, made.mcp.url)
            assert await process.call(ALICE) == said("alice@example")
        async with made.started() as process:
            assert await process.call(ALICE) == said("alice@example")
        assert len(made.mcp.authorization.registered) == 1


async def test_where_the_server_is_known_by_its_document_it_does_not_register() -> None:
    async with site(AuthorizationServer(knows_documents=True)) as made:
        async with made.started() as process:
            required = await process.call(ALICE)
            assert isinstance(required, ConsentRequired)
            assert urllib.parse.parse_qs(urllib.parse.urlsplit(required.url).query)["client_id"] == [CLIENT]
            document = process.servers.client_document
            assert document is not None
            assert (document["client_id"], document["redirect_uris"]) == (CLIENT, [REDIRECT])
            callback = made.mcp.authorization.consent(required.url, "alice@example")
        async with made.started() as process:
            await process.oauth.finish(**callback, caller=ALICE)
            assert await process.call(ALICE) == said("alice@example")
        assert made.mcp.authorization.registered == []


async def test_the_consent_may_be_finished_by_another_process_after_a_restart() -> None:
    async with site() as made:
        async with made.started() as process:
            required = await process.call(ALICE)
        assert isinstance(required, ConsentRequired)
        callback = made.mcp.authorization.consent(required.url, "alice@example")
        async with made.started() as process:
            await process.oauth.finish(**callback, caller=ALICE)
            assert await process.call(ALICE) == said("alice@example")


async def test_tokens_of_two_users_never_cross_under_concurrency() -> None:
    async with site() as made, made.started() as process:
        await process.consented(ALICE, "alice@example")
        await process.consented(BOB, "bob@example")
        assert isinstance(await process.call(EVE), ConsentRequired), "a user of the same name in another tenant"
        await process.consented(EVE, "eve@example")
        expected = {ALICE: "alice@example", BOB: "bob@example", EVE: "eve@example"}
        results: list[tuple[Caller, Outcome]] = []

        async def one(caller: Caller) -> None:
            results.append((caller, await process.call(caller)))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                for caller in expected:
                    tasks.start_soon(one, caller)
        assert len(results) == 60
        assert all(outcome == said(expected[caller]) for caller, outcome in results)


async def test_an_expired_token_is_renewed_without_the_user_also_by_another_process() -> None:
    async with site() as made:
        async with made.started() as process:
            await process.consented(ALICE, "alice@example")
        made.mcp.authorization.tokens.clear()
        blob = await made.credentials.load(TokenScope(ALICE, made.mcp.url))
        assert blob is not None
        grant = msgspec.json.decode(blob)
        await made.credentials.save(TokenScope(ALICE, made.mcp.url), msgspec.json.encode(grant | {"expiresAt": 1.0}))
        async with made.started() as process:
            assert await process.call(ALICE) == said("alice@example")
        renewed = await made.credentials.load(TokenScope(ALICE, made.mcp.url))
        assert renewed is not None
        assert msgspec.json.decode(renewed)["tokens"]["access_token"] != grant["tokens"]["access_token"]


async def test_a_revoked_token_asks_the_user_again() -> None:
    async with site() as made, made.started() as process:
        await process.consented(ALICE, "alice@example")
        made.mcp.authorization.tokens.clear()
        assert isinstance(await process.call(ALICE), ConsentRequired)
        await process.oauth.forget(TokenScope(ALICE, made.mcp.url))
        assert await made.credentials.load(TokenScope(ALICE, made.mcp.url)) is None


@pytest.mark.parametrize("names_issuer", [True, False])
async def test_a_callback_that_is_stale_foreign_or_mixed_up_is_refused(names_issuer: bool) -> None:
    async with site(AuthorizationServer(names_issuer=names_issuer)) as made, made.started() as process:

        async def callback() -> dict[str, str]:
            required = await process.call(ALICE)
            assert isinstance(required, ConsentRequired)
            return made.mcp.authorization.consent(required.url, "alice@example")

        good: dict[str, Any] = {"issuer": None, "caller": ALICE}
        wrongs: tuple[dict[str, Any], ...] = (
            {"state": "guessed"},
            {"caller": BOB},
            {"caller": EVE},
            {"issuer": "https://evil.example"},
            *([{"issuer": None}] if names_issuer else []),
        )
        for wrong in wrongs:
            with pytest.raises(InvalidInput):
                await process.oauth.finish(**{**good, **await callback(), **wrong})
        with pytest.raises(ToolFailed, match="refused the consent"):
            await process.oauth.finish(**{**good, **await callback(), "code": "guessed"})
        late = await callback()
        made.now += CONSENT_SECONDS + 1
        with pytest.raises(InvalidInput, match="expired"):
            await process.oauth.finish(**{**good, **late})
        once = await callback()
        await process.oauth.finish(**{**good, **once})
        with pytest.raises(InvalidInput, match="used already"):
            await process.oauth.finish(**{**good, **once})
        assert await process.call(ALICE) == said("alice@example")


async def test_a_client_with_a_secret_authenticates_with_it() -> None:
    async with site(AuthorizationServer(secret="plain")) as made, made.started() as process:
        await process.consented(ALICE, "alice@example")
        assert await process.call(ALICE) == said("alice@example")


async def test_a_server_that_needs_consent_says_so_to_whoever_lists_its_tools() -> None:
    async with site() as made, made.started() as process:
        with pytest.raises(McpConsentRequired) as error:
            await process.servers.list_tools(parse_mcp(made.mcp.url), ALICE)
        assert str(error.value.details["url"]).startswith(made.mcp.authorization.issuer)
        assert "state=" not in str(error.value)


async def test_metadata_that_leads_inside_is_refused() -> None:
    async with site() as made:
        inner = AddressRules.parse([f"127.0.0.1:{made.mcp.web.port}"]) if made.mcp.web else AddressRules()
        settings = OAuthSettings(credentials=made.credentials, redirect_uri=REDIRECT, clock=lambda: made.now)
        async with SafeHttp(inner) as http, McpPool() as pool:
            servers = McpServers(http=http, pool=pool, launch=Launcher(), settings={}, oauth=settings)
            with pytest.raises(EgressRefused):
                await servers.list_tools(parse_mcp(made.mcp.url), ALICE)


@pytest.mark.parametrize("page", ["http://login.example/authorize", "http://192.0.2.1/authorize"])
async def test_nobody_is_sent_to_a_page_without_tls_to_consent(page: str) -> None:
    async with site(AuthorizationServer(page=page)) as made, made.started() as process:
        with pytest.raises(ToolFailed, match="not https"):
            await process.call(ALICE)


async def test_a_call_that_is_made_for_nobody_is_refused_and_signs_nobody_in() -> None:
    async with site() as made, made.started() as process:
        await process.consented(ALICE, "alice@example.org")
        with pytest.raises(ToolFailed, match="this call is not made for a user"):
            await process.call(Caller("acme", ""))
        assert len(made.mcp.authorization.registered) == 1


def test_a_token_is_renewed_before_its_end() -> None:
    assert expiry(None, 100) is None
    assert expiry(3600, 100) == 3670
    assert expiry(1, 100) == 100
