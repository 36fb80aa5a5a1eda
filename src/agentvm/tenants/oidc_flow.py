"""OIDC flow — signs a browser in at the operator's identity provider: authorization code with PKCE.

All that the way back needs is sealed into a cookie, so that clients cannot fill the server's memory by beginning. The cookie
binds the way back to the browser that has begun; a state is good once and for ten minutes. The provider's answer is taken only
with the nonce of the beginning in a token that it has signed.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import string
import urllib.parse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from agentvm.errors import AgentVMError, Conflict, Unauthenticated
from agentvm.log import get_logger
from agentvm.model.account import User
from agentvm.model.base import Record
from agentvm.model.ids import DEFAULT_TENANT, Clock
from agentvm.model.principal import Principal
from agentvm.model.secret import Secret
from agentvm.sharing.cache import Cache
from agentvm.storage.sql.store import Store
from agentvm.tenants.access import Access
from agentvm.tenants.oidc import CLAIM_MAX, Oidc, OidcIdentity
from agentvm.tenants.vault import Vault

logger = get_logger(__name__)

SECRET_NAME = "oidc.clientSecret"
"""The name of the client's secret in the vault of the operator's tenant; a public client has none."""
SIGN_IN_MS = 10 * 60 * 1000
USED_MAX = 10_000
NEXT_MAX = 2_000
SCOPES = "openid profile email"
_SCOPE, _NAME = "server", "oidc.flow"

Post = Callable[[str, bytes, tuple[tuple[str, str], ...]], Awaitable[tuple[int, bytes]]]
"""Sends a form with secret headers to an address of the provider; returns status and body."""


class OidcClient(Record):
    """The server as the provider knows it. `name` is the provider's, and shown to people."""

    client_id: str
    name: str
    session_hours: int


class _Begun(Record):
    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    next: str
    keep: bool
    invitation: str | None = None
    expires_at: int


class _Tokens(Record, rename=None):
    id_token: str


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person that the provider vouches for, and the page they come from."""

    principal: Principal
    next: str
    keep: bool


class OidcFlow:
    """Signs people in. `post` goes through the checked transport."""

    def __init__(
        self, oidc: Oidc, client: OidcClient, *, vault: Vault, access: Access, store: Store, clock: Clock, post: Post
    ) -> None:
        self._oidc, self.client, self._vault, self._access = oidc, client, vault, access
        self._store, self._clock, self._post = store, clock, post
        self._used: Cache[str, bool] = Cache(USED_MAX, age_ms=SIGN_IN_MS)

    async def start(self, origin: str, *, next_page: str, keep: bool, invitation: str | None) -> tuple[str, Secret]:
        """Returns the address at the provider to go to, and the content of the cookie that the way back needs."""
        endpoints = await self._oidc.endpoints()
        if invitation is not None:
            await self._access.invitations.find(invitation)
        begun = _Begun(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(64),
            redirect_uri=f"{origin}/v1/auth/oidc/callback",
            next=own_page(next_page),
            keep=keep,
            invitation=invitation,
            expires_at=self._clock() + SIGN_IN_MS,
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": begun.redirect_uri,
            "scope": SCOPES,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in endpoints.authorization else "?"
        sealed = self._vault.seal(_SCOPE, _NAME, Secret(msgspec.json.encode(begun).decode()))
        cookie = base64.urlsafe_b64encode(sealed).decode().rstrip("=")
        return f"{endpoints.authorization}{joint}{urllib.parse.urlencode(query)}", Secret(cookie)

    async def finish(self, cookie: str, fields: dict[str, str]) -> SignedIn | str:
        """Returns the person that the provider has authenticated, or the code of the reason to refuse them."""
        begun = self._begun(cookie)
        now = self._clock()
        if begun is None or begun.expires_at <= now or not _is_same(begun.state, fields.get("state", "")):
            return "state"
        if self._used.get(begun.state, now):
            return "state"
        self._used.put(begun.state, True, now)
        if fields.get("iss", self._oidc.issuer) != self._oidc.issuer:
            return "state"
        if "error" in fields or not fields.get("code"):
            return "denied"
        try:
            identity = await self._exchange(begun, fields["code"])
            return identity if isinstance(identity, str) else await self._sign_in(begun, identity)
        except Unauthenticated as error:
            reason = str((error.details or {}).get("reason", ""))
            return "invitation" if reason.startswith("invitation") else "suspended"
        except Conflict:
            return "taken"
        except AgentVMError as error:
            logger.warning("oidc_provider_failed", code=error.code, error=str(error))
            return "provider"

    def _begun(self, cookie: str) -> _Begun | None:
        try:
            sealed = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
            return msgspec.json.decode(self._vault.unseal(_SCOPE, _NAME, sealed).reveal(), type=_Begun)
        except (AgentVMError, binascii.Error, ValueError):
            return None

    async def _exchange(self, begun: _Begun, code: str) -> OidcIdentity | str:
        endpoints = await self._oidc.endpoints()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun.redirect_uri,
            "client_id": self.client.client_id,
            "code_verifier": begun.verifier,
        }
        secret = await self._vault.get(DEFAULT_TENANT, SECRET_NAME)
        headers: tuple[tuple[str, str], ...] = ()
        if secret is not None:
            quoted = ":".join(urllib.parse.quote(part, safe="") for part in (self.client.client_id, secret.reveal()))
            headers = (("Authorization", f"Basic {base64.b64encode(quoted.encode()).decode()}"),)
        status, body = await self._post(endpoints.token, urllib.parse.urlencode(form).encode(), headers)
        if status != 200:
            logger.info("oidc_code_refused", status=status)
            return "provider"
        try:
            token = msgspec.json.decode(body, type=_Tokens).id_token
        except (msgspec.ValidationError, msgspec.DecodeError):
            return "provider"
        identity = await self._oidc.identify(token, client_id=self.client.client_id, nonce=begun.nonce)
        if isinstance(identity, str):
            logger.info("oidc_token_refused", reason=identity)
            return "nonce" if identity == "nonce_wrong" else "provider"
        return identity

    async def _sign_in(self, begun: _Begun, identity: OidcIdentity) -> SignedIn | str:
        user = await self._user(begun, identity)
        if user is None:
            return "unknown"
        principal = await self._access.vouch(user, self.client.name, self._clock() + self.client.session_hours * 3_600_000)
        return SignedIn(principal, begun.next, begun.keep)

    async def _user(self, begun: _Begun, identity: OidcIdentity) -> User | None:
        account = (self._oidc.issuer, identity.subject)
        if begun.invitation is not None:
            invitation = await self._access.invitations.find(begun.invitation)
            name = invitation.external_id or identity.name or identity.subject
            return await self._access.invitations.accept(invitation, name[:CLAIM_MAX], account)
        bound = await self._store.directory.find_identity(*account)
        if bound is not None:
            return await self._store.accounts(bound[0]).users.get(bound[1])
        return None if identity.claims is None else await self._access.user_of_claims(identity.claims)


def _is_same(state: str, other: str) -> bool:
    return hmac.compare_digest(state.encode(), other.encode(errors="replace"))


def own_page(page: str) -> str:
    """Returns a path of this server to continue with; `/` for anything that could lead elsewhere."""
    parts = urllib.parse.urlsplit(page if len(page) <= NEXT_MAX and page.isprintable() else "")
    is_own = page.startswith("/") and not page.startswith(("//", "/\\")) and not parts.netloc and "\\" not in page
    if not is_own or parts.path != page.partition("?")[0].partition("#")[0]:
        return "/"
    # A header holds no other letters.
    return urllib.parse.quote(page, safe=string.printable)
