"""An authorization server and an MCP server that wants its tokens, both on this machine."""

import base64
import hashlib
import secrets
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from tests.support.web import Asked, Replied, Web, web

JSON = {"content-type": "application/json"}
TOOLS = [{"name": "whoami", "inputSchema": {"type": "object"}}, {"name": "scope", "inputSchema": {"type": "object"}}]


def json(value: object, status: int = 200) -> Replied:
    return Replied(status, msgspec.json.encode(value), JSON)


@dataclass
class AuthorizationServer:
    """OAuth 2.1 with PKCE, registration, rotating refresh tokens, and a browser that consents at once."""

    lifetime: int = 3600
    names_issuer: bool = True
    secret: str | None = None
    """Given to clients that register, who then have to authenticate with it."""
    page: str | None = None
    """The address at which users are said to consent; that of this server when unset."""
    knows_documents: bool = False
    """Whether clients are known by the document at the address that is their id."""
    web: Web | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    """Access tokens, and the users they are for."""
    refreshes: dict[str, str] = field(default_factory=dict)
    registered: list[dict[str, object]] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        assert self.web is not None
        return self.web.url("")

    def reply(self, asked: Asked) -> Replied:
        path = asked.target.partition("?")[0]
        if path.startswith("/.well-known/oauth-authorization-server"):
            return json(self._metadata())
        form = dict(urllib.parse.parse_qsl(asked.body.decode()))
        if path == "/register":
            client: dict[str, object] = msgspec.json.decode(asked.body)
            client |= {"client_id": f"client-{len(self.registered)}"}
            if self.secret is not None:
                client |= {"client_secret": self.secret, "token_endpoint_auth_method": "client_secret_basic"}
            self.registered.append(client)
            return json(client, 201)
        if path == "/token":
            return self._token(asked, form)
        return Replied(404)

    def _metadata(self) -> dict[str, object]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": self.page or f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": self.names_issuer,
            "client_id_metadata_document_supported": self.knows_documents,
        }

    def _token(self, asked: Asked, form: dict[str, str]) -> Replied:
        if self.secret is not None:
            expected = base64.b64encode(f"{form.get('client_id')}:{self.secret}".encode()).decode()
            if asked.headers.get("authorization") != f"Basic {expected}":
                return json({"error": "invalid_client"}, 401)
        if form.get("grant_type") == "refresh_token":
            user = self.refreshes.pop(form["refresh_token"], None)
        else:
            user = self._redeemed(form)
        if user is None:
            return json({"error": "invalid_grant"}, 400)
        access, refresh = f"{user}-{secrets.token_hex(8)}", secrets.token_hex(8)
        self.tokens[access], self.refreshes[refresh] = user, user
        return json({"access_token": access, "token_type": "Bearer", "expires_in": self.lifetime, "refresh_token": refresh})

    def _redeemed(self, form: dict[str, str]) -> str | None:
        code = self.codes.pop(form.get("code", ""), None)
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).decode().rstrip("=")
        )
        bound = ("client_id", "redirect_uri", "resource")
        if code is None or code["code_challenge"] != challenge or any(code.get(name) != form.get(name) for name in bound):
            return None
        return code["user"]

    def consent(self, url: str, user: str) -> dict[str, str]:
        """Consents in the browser of a user; returns the parameters of the callback."""
        page = urllib.parse.urlsplit(url)
        assert f"{page.scheme}://{page.netloc}" == self.issuer
        params = dict(urllib.parse.parse_qsl(page.query))
        assert params["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = {**params, "user": user}
        return {"code": code, "state": params["state"]} | ({"issuer": self.issuer} if self.names_issuer else {})


@dataclass
class McpWeb:
    """A stateless MCP server of 2026-07-28 behind that authorization server. Its tool says whose token was used."""

    authorization: AuthorizationServer
    web: Web | None = None
    seen: list[tuple[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        assert self.web is not None
        return self.web.url("/mcp")

    def reply(self, asked: Asked) -> Replied:
        if asked.target.startswith("/.well-known/oauth-protected-resource"):
            return json({"resource": self.url, "authorization_servers": [self.authorization.issuer]})
        user = self.authorization.tokens.get(asked.headers.get("authorization", "").removeprefix("Bearer "))
        if user is None:
            assert self.web is not None
            where = self.web.url("/.well-known/oauth-protected-resource/mcp")
            return Replied(401, headers={"www-authenticate": f'Bearer resource_metadata="{where}"'})
        message = msgspec.json.decode(asked.body)
        self.seen.append((message["method"], user))
        return json(
            {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **self._result(message, user)}}
        )

    def _result(self, message: dict[str, object], user: str) -> dict[str, object]:
        match message["method"]:
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
            case "tools/list":
                return {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
            case _:
                return {"content": [{"type": "text", "text": user}]}


@asynccontextmanager
async def oauth_servers(authorization: AuthorizationServer) -> AsyncIterator[McpWeb]:
    """Serves both."""
    server = McpWeb(authorization)
    async with web(authorization.reply) as authorization.web, web(server.reply) as server.web:
        yield server
