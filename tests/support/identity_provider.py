"""An OpenID provider on loopback: discovery, keys, a page that signs everybody in, and codes that become tokens once."""

import base64
import hashlib
import secrets
import time
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from tests.support.web import Asked, Replied, Web, web

JSON = {"content-type": "application/json"}
CLIENT_ID, CLIENT_SECRET = "agentvm", "s3cret/+"
KEY = ec.generate_private_key(ec.SECP256R1())


@dataclass
class IdentityProvider:
    """Signs in the person `user`, with these claims."""

    user: str = "42"
    claims: dict[str, object] = field(default_factory=dict)
    secret: str | None = None
    web: Web | None = None
    now: float | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        assert self.web is not None
        return self.web.url("")

    def reply(self, asked: Asked) -> Replied:
        path, _, query = asked.target.partition("?")
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            return self._json(
                {
                    "issuer": self.issuer,
                    "jwks_uri": f"{self.issuer}/keys",
                    "authorization_endpoint": f"{self.issuer}/authorize",
                    "token_endpoint": f"{self.issuer}/token",
                    "scopes_supported": ["openid"],
                }
            )
        if path == "/keys":
            return self._json({"keys": [{**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k", "use": "sig"}]})
        if path == "/authorize":
            return Replied(303, b"", {"location": self.agree(query)})
        if path == "/token":
            return self._token(asked)
        return Replied(404, b"", {})

    def agree(self, query: str) -> str:
        """Signs the person in; returns the address that the browser is sent back to."""
        wanted = dict(urllib.parse.parse_qsl(query))
        assert (wanted["response_type"], wanted["client_id"]) == ("code", CLIENT_ID)
        assert wanted["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = wanted
        back = urllib.parse.urlencode({"code": code, "state": wanted["state"], "iss": self.issuer, "session_state": "x"})
        return f"{wanted['redirect_uri']}?{back}"

    def _token(self, asked: Asked) -> Replied:
        form = dict(urllib.parse.parse_qsl(asked.body.decode()))
        if self.secret is not None:
            pair = f"{CLIENT_ID}:{urllib.parse.quote(self.secret, safe='')}"
            if asked.headers.get("authorization") != f"Basic {base64.b64encode(pair.encode()).decode()}":
                return self._json({"error": "invalid_client"}, 401)
        begun = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if begun is None or base64.urlsafe_b64encode(digest).decode().rstrip("=") != begun["code_challenge"]:
            return self._json({"error": "invalid_grant"}, 400)
        assert form["redirect_uri"] == begun["redirect_uri"]
        now = int(self.now or time.time())
        payload = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": self.user,
            "exp": now + 300,
            "nonce": begun["nonce"],
            **self.claims,
        }
        return self._json({"id_token": jwt.encode(payload, KEY, "ES256", {"kid": "k"}), "token_type": "Bearer"})

    @staticmethod
    def _json(value: object, status: int = 200) -> Replied:
        return Replied(status, msgspec.json.encode(value), JSON)


@asynccontextmanager
async def identity_provider(**about: object) -> AsyncIterator[IdentityProvider]:
    provider = IdentityProvider(**about)  # type: ignore[arg-type]  # The fields of the provider.
    async with web(provider.reply) as opened:
        provider.web = opened
        yield provider
