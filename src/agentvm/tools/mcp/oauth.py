"""MCP OAuth — signs a user in to a server, with one provider and one storage for each (tenant, user, server).

The SDK discovers, registers, refreshes and adds the token. Its own consent would hold a call open until the user comes back.
Here the call ends with `McpConsentRequired`, all that the callback needs is stored, and whichever process it reaches exchanges
the code.
"""

import base64
import hashlib
import secrets
import urllib.parse
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel

from agentvm.errors import InvalidInput, ToolFailed, shorten
from agentvm.errors.tool import McpConsentRequired
from agentvm.tools.base import Caller, plain_text
from agentvm.tools.mcp.consent import (
    CONSENT_SECONDS,
    McpCredentials,
    McpGrant,
    PendingConsent,
    TokenScope,
    client_metadata,
    new_state,
    read_pending,
)
from agentvm.tools.safe_http import Outgoing, SafeHttp, parse_url

_TOKEN_MAX_BYTES = 256 * 1024
_REVOCATION_SECONDS = 5.0
_EARLY_SECONDS = 30.0
"""Time before its end at which a token is renewed."""


class _Storage:
    """The SDK's storage, bound to one scope: no call on it can reach the tokens of another user."""

    def __init__(self, scope: TokenScope, credentials: McpCredentials, clock: Callable[[], float]) -> None:
        self._scope, self._credentials, self._clock = scope, credentials, clock

    async def grant(self) -> McpGrant:
        blob = await self._credentials.load(self._scope)
        return McpGrant() if blob is None else msgspec.json.decode(blob, type=McpGrant)

    async def keep(self, **changes: object) -> None:
        grant = msgspec.structs.replace(await self.grant(), **changes)
        await self._credentials.save(self._scope, msgspec.json.encode(grant))

    async def get_tokens(self) -> OAuthToken | None:
        tokens = (await self.grant()).tokens
        return None if tokens is None else OAuthToken.model_validate(tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self.keep(tokens=_dumped(tokens), expires_at=expiry(tokens.expires_in, self._clock()))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client = (await self.grant()).client
        return None if client is None else OAuthClientInformationFull.model_validate(client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self.keep(client=_dumped(client_info))


class McpOAuth:
    """Signs users in. `redirect_uri` is the address of this server's callback; a `client_metadata_url`, at which this server
    describes itself, makes registration unnecessary."""

    def __init__(
        self,
        credentials: McpCredentials,
        http: SafeHttp,
        *,
        redirect_uri: str,
        client_metadata_url: str | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._credentials, self._http, self._clock = credentials, http, clock
        self._redirect_uri, self._client_metadata_url = redirect_uri, client_metadata_url

    async def auth(self, scope: TokenScope) -> httpx2.Auth:
        """Returns the authentication that adds the user's token to the requests of one connection."""
        storage = _Storage(scope, self._credentials, self._clock)
        grant = await storage.grant()

        async def consent(url: str) -> None:
            await self._ask(scope, provider, url)

        async def never() -> AuthorizationCodeResult:
            raise ToolFailed("Another call waits for the user's consent")

        provider = OAuthClientProvider(
            scope.server,
            OAuthClientMetadata.model_validate(client_metadata(self._redirect_uri)),
            storage,
            redirect_handler=consent,
            callback_handler=never,
            client_metadata_url=self._client_metadata_url,
        )
        # A new process knows neither when a stored token ends nor where it is renewed, and would ask the user again.
        context = provider.context
        context.token_expiry_time = grant.expires_at
        if grant.metadata is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(grant.metadata)
        if grant.resource_metadata is not None:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(grant.resource_metadata)
        auth: httpx2.Auth = provider
        return auth

    async def _ask(self, scope: TokenScope, provider: OAuthClientProvider, url: str) -> None:
        """Stores the wait, and ends the connection with the address at which the user consents."""
        self._check_page(url)
        context = provider.context
        client, metadata = context.client_info, context.oauth_metadata
        if client is None:
            raise ToolFailed(f"{shorten(scope.server)} returned no client registration for AgentVM")
        verifier, state = secrets.token_urlsafe(64), new_state(scope.caller.tenant_id)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        base, _, query = url.partition("?")
        # The SDK's own state and challenge stand in the address; their secrets would be lost with this process.
        params = {**dict(urllib.parse.parse_qsl(query)), "state": state, "code_challenge": challenge}
        token_endpoint = None if metadata is None else metadata.token_endpoint
        pending = PendingConsent(
            tenant_id=scope.caller.tenant_id,
            user_id=scope.caller.user_id,
            server=scope.server,
            verifier=verifier,
            redirect_uri=self._redirect_uri,
            token_endpoint=str(token_endpoint or urllib.parse.urljoin(scope.server, "/token")),
            issuer=None if metadata is None else str(metadata.issuer),
            issuer_required=bool(metadata and metadata.authorization_response_iss_parameter_supported),
            resource=params.get("resource"),
            client=_dumped(client),
            metadata=None if metadata is None else _dumped(metadata),
            resource_metadata=_dumped_or_none(context.protected_resource_metadata),
            scope=context.client_metadata.scope,
        )
        await self._credentials.put_pending(state, msgspec.json.encode(pending), self._clock() + CONSENT_SECONDS)
        raise McpConsentRequired(scope.server, f"{base}?{urllib.parse.urlencode(params)}", state)

    def _check_page(self, url: str) -> None:
        page = parse_url(url)
        if page.scheme != "https" and not self._http.allows_plain(page):
            raise ToolFailed("The MCP server sends people to a page that is not https")

    async def finish(self, *, state: str, code: str, issuer: str | None, caller: Caller | None) -> TokenScope:
        """Exchanges the code that a callback brought, and stores the tokens.

        `caller` is the person at the browser, if known: a consent must not be stored for the sender of a link.
        """
        pending = read_pending(await self._credentials.take_pending(state), issuer)
        scope = pending.token_scope
        if caller is not None and caller != scope.caller:
            raise InvalidInput("This consent was requested from another user")
        tokens = await self._exchange(pending, code)
        storage = _Storage(scope, self._credentials, self._clock)
        await storage.keep(
            tokens=_dumped(tokens),
            expires_at=expiry(tokens.expires_in, self._clock()),
            client=pending.client,
            metadata=pending.metadata,
            resource_metadata=pending.resource_metadata,
        )
        return scope

    async def _exchange(self, pending: PendingConsent, code: str) -> OAuthToken:
        client = OAuthClientInformationFull.model_validate(pending.client)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "client_id": client.client_id or "",
            "code_verifier": pending.verifier,
        }
        if pending.resource is not None:
            form["resource"] = pending.resource
        headers = []
        if client.client_secret and client.token_endpoint_auth_method == "client_secret_post":
            form["client_secret"] = client.client_secret
        elif client.client_secret and client.token_endpoint_auth_method == "client_secret_basic":
            quoted = ":".join(urllib.parse.quote(part, safe="") for part in (client.client_id or "", client.client_secret))
            headers.append(("Authorization", f"Basic {base64.b64encode(quoted.encode()).decode()}"))
        request = Outgoing(
            method="POST",
            url=parse_url(pending.token_endpoint),
            headers=(("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")),
            has_secrets=True,
            secret_headers=tuple(headers),
            content=urllib.parse.urlencode(form).encode(),
        )
        fetched = await self._http.send(request, owner=pending.tenant_id, max_bytes=_TOKEN_MAX_BYTES)
        if fetched.status not in (200, 201):
            raise ToolFailed(f"{request.url.host} refused the consent: {shorten(plain_text(fetched.text))}")
        try:
            tokens = OAuthToken.model_validate_json(fetched.body)
        except ValueError:
            raise ToolFailed(f"{request.url.host} returned an invalid token response") from None
        if tokens.scope is None:
            tokens.scope = pending.scope
        return tokens

    async def forget(self, scope: TokenScope) -> bool:
        """Forgets a user's consent, so that the next call asks again; revokes its tokens where that is offered."""
        grant = await _Storage(scope, self._credentials, self._clock).grant()
        await self._credentials.forget(scope)
        endpoint = (grant.metadata or {}).get("revocation_endpoint")
        tokens = grant.tokens or {}
        token = tokens.get("refresh_token") or tokens.get("access_token")
        if endpoint and token and grant.client:
            form = {"token": str(token), "client_id": str(grant.client.get("client_id") or "")}
            request = Outgoing(
                method="POST",
                url=parse_url(str(endpoint)),
                headers=(("Content-Type", "application/x-www-form-urlencoded"),),
                has_secrets=True,
                content=urllib.parse.urlencode(form).encode(),
            )
            with suppress(ToolFailed):
                await self._http.send(
                    request, owner=scope.caller.tenant_id, max_bytes=_TOKEN_MAX_BYTES, timeout_seconds=_REVOCATION_SECONDS
                )
        return bool(tokens)


class UserRequired(httpx2.Auth):
    """Refuses the sign-in of a caller without a user: no other credential stands in for a missing one."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        if response.status_code in (401, 403):
            raise ToolFailed(
                f"{request.url.host} requires its users to sign in, and this call is not made for a user; use the key of a user"
            )


def expiry(expires_in: int | None, now: float) -> float | None:
    return None if expires_in is None else now + max(0.0, expires_in - _EARLY_SECONDS)


def _dumped(model: BaseModel) -> dict[str, object]:
    return model.model_dump(mode="json", exclude_none=True)


def _dumped_or_none(model: BaseModel | None) -> dict[str, object] | None:
    return None if model is None else _dumped(model)
