"""OIDC — tokens of the operator's own identity provider, as an alternative to keys.

A token is a JWT that the provider signed: RS256, ES256 or EdDSA, by a key the provider publishes. Its claims name the tenant
(by slug) and the user (by the provider's id). Key locations in the token itself (`jku`, `jwk`, `x5u`) are ignored.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio
import httpx2
import jwt
import msgspec

from agentvm.errors import AgentVMError, ConfigInvalid, ToolFailed
from agentvm.log import get_logger
from agentvm.model.account import UserRole
from agentvm.model.address import is_loopback
from agentvm.model.base import Record
from agentvm.model.ids import Clock

logger = get_logger(__name__)

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""Asymmetric signatures only: with a shared secret (HS256) every verifier could also sign."""

LEEWAY_MS = 30_000
FRESH_MS = 3_600_000
"""After that the keys are fetched again, so that one the provider withdrew is not good for ever."""
STALE_MS = 24 * 3_600_000
"""Time for which cached keys are trusted while the provider cannot be reached."""
RETRY_MS = 60_000
"""Minimum time between two requests for the keys, for any tokens."""
REQUEST_TIMEOUT_SECONDS = 5.0
DOCUMENT_MAX_BYTES = 1_048_576
CLAIM_MAX = 200

_ROLES: dict[str, UserRole] = {"owner": "owner", "admin": "admin", "member": "member", "viewer": "viewer"}


class OidcSettings(Record):
    """The provider's settings. Without `jwks_url` the issuer is asked for it. `role_claim` takes precedence over the stored
    role."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    tenant_claim: str = "tenant"
    user_claim: str = "sub"
    role_claim: str | None = None


class Claims(Record):
    """The claims of a valid token. `expires_at` is in ms, the leeway included."""

    tenant: str
    user: str
    role: UserRole | None = None
    expires_at: int


class OidcIdentity(Record):
    """A person that the provider vouches for, by a token for this client. `claims` is None where the provider names no
    tenant."""

    subject: str
    name: str | None = None
    claims: Claims | None = None


class Endpoints(NamedTuple):
    """The addresses at which people sign in and codes become tokens."""

    authorization: str
    token: str


class _Discovery(Record, rename=None, forbid_unknown_fields=False):
    issuer: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""


Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the document at an address of the provider."""


class Oidc:
    """One identity provider, and the keys it publishes."""

    def __init__(
        self,
        settings: OidcSettings,
        clock: Clock,
        *,
        patience: float = REQUEST_TIMEOUT_SECONDS,
        fetch: Fetch | None = None,
    ) -> None:
        for url in (settings.issuer, settings.jwks_url):
            if url is not None and not _is_safe(url):
                raise ConfigInvalid(f"The identity provider's address {url} must start with https://")
        if not settings.audience:
            raise ConfigInvalid("OIDC needs an audience: without one, tokens for other services would be good here")
        self._settings, self._clock, self._patience = settings, clock, patience
        self._fetch = _fetch_directly if fetch is None else fetch
        self._endpoints: Endpoints | None = None
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = 0
        self._tried_at: int | None = None
        self._lock = anyio.Lock()

    @property
    def issuer(self) -> str:
        return self._settings.issuer

    async def endpoints(self) -> Endpoints:
        """Returns the addresses of the provider; `ToolFailed` when it does not name them, or cannot be reached."""
        if self._endpoints is None:
            try:
                with anyio.fail_after(self._patience):
                    discovery = await _discover(self._settings, self._fetch)
            except (AgentVMError, httpx2.HTTPError, ValueError, TimeoutError) as problem:
                raise ToolFailed(f"The identity provider {self.issuer} does not answer: {problem}") from None
            if not all(map(_is_safe, (discovery.authorization_endpoint, discovery.token_endpoint))):
                raise ToolFailed(f"The identity provider {self.issuer} names no safe addresses to sign in at")
            self._endpoints = Endpoints(discovery.authorization_endpoint, discovery.token_endpoint)
        return self._endpoints

    async def identify(self, token: str, *, client_id: str, nonce: str) -> OidcIdentity | str:
        """Returns the person of an ID token for this client, or the reason why it is not valid as one word."""
        payload = await self._decode(token, client_id)
        if isinstance(payload, str):
            return payload
        audience = payload.get("aud")
        is_shared = isinstance(audience, list) and len(audience) > 1
        if payload.get("azp", None if is_shared else client_id) != client_id:
            return "other_client"
        if not isinstance(payload.get("nonce"), str) or not hmac.compare_digest(str(payload["nonce"]), nonce):
            return "nonce_wrong"
        subject, claims = payload.get("sub"), self._read(payload)
        if not isinstance(subject, str) or not 0 < len(subject) <= CLAIM_MAX or not subject.isprintable():
            return "claims_missing"
        if isinstance(claims, str) and claims != "claims_missing":
            return claims
        names = [payload.get(name) for name in ("preferred_username", "email", "name")]
        fitting = (name for name in names if isinstance(name, str) and 0 < len(name) <= CLAIM_MAX and name.isprintable())
        return OidcIdentity(subject=subject, name=next(fitting, None), claims=None if isinstance(claims, str) else claims)

    async def verify(self, token: str) -> Claims | str:
        """Returns the claims, or the reason why the token is not valid as one word."""
        payload = await self._decode(token, self._settings.audience)
        return payload if isinstance(payload, str) else self._read(payload)

    async def _decode(self, token: str, audience: str) -> dict[str, object] | str:
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            return "token_malformed"
        if header.get("alg") not in ALGORITHMS:
            return "algorithm_not_allowed"
        kid = header.get("kid")
        key = await self._key(kid if isinstance(kid, str) else None)
        if key is None:
            return "signing_key_unknown"
        try:
            payload: dict[str, object] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=audience,
                issuer=self._settings.issuer,
                options={
                    "require": ["exp", "iss", "aud"],
                    "enforce_minimum_key_length": True,
                    # Checked below, by the clock that everything here goes by.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError) as problem:
            return f"token_refused: {type(problem).__name__}"
        return payload

    def _read(self, payload: dict[str, object]) -> Claims | str:
        settings, now = self._settings, self._clock()
        exp, nbf = _milliseconds(payload["exp"]), _milliseconds(payload.get("nbf", 0))
        if exp is None or nbf is None:
            return "times_malformed"
        expires_at = exp + LEEWAY_MS
        if expires_at <= now:
            return "expired"
        if nbf > now + LEEWAY_MS:
            return "not_yet_good"
        tenant, user = payload.get(settings.tenant_claim), payload.get(settings.user_claim)
        if not isinstance(tenant, str) or not isinstance(user, str) or not tenant or not 0 < len(user) <= CLAIM_MAX:
            return "claims_missing"
        if not user.isprintable():
            # The claim becomes the name of a user, which is shown on terminals and written to logs.
            return "user_unprintable"
        role = None
        if settings.role_claim is not None and (role_value := payload.get(settings.role_claim)) is not None:
            role = _ROLES.get(role_value) if isinstance(role_value, str) else None
            if role is None:
                return "role_unknown"
        return Claims(tenant=tenant, user=user, role=role, expires_at=expires_at)

    async def _key(self, kid: str | None) -> jwt.PyJWK | None:
        age = self._clock() - self._fetched_at
        if self._find(kid) is None or age > FRESH_MS:
            await self._refresh()
        if self._clock() - self._fetched_at > STALE_MS:
            return None
        return self._find(kid)

    def _find(self, kid: str | None) -> jwt.PyJWK | None:
        """A token need not name its key where there is only one."""
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    async def _refresh(self) -> None:
        """Fetches the keys, one request at a time, and not again within a minute. Keeps the old keys when the provider does
        not answer."""
        async with self._lock:
            now = self._clock()
            if self._tried_at is not None and 0 <= now - self._tried_at < RETRY_MS:
                return
            self._tried_at = now
            try:
                # Shielded: the caller may hang up, but others wait for the keys, and the next try is a minute away.
                with anyio.CancelScope(shield=True):
                    with anyio.fail_after(self._patience):
                        self._keys = await _fetch_keys(self._settings, self._fetch)
            except (AgentVMError, httpx2.HTTPError, httpx2.InvalidURL, jwt.PyJWTError, ValueError, TimeoutError) as problem:
                logger.warning(
                    "identity_provider_keys_not_fetched",
                    issuer=self._settings.issuer,
                    problem=f"{type(problem).__name__}: {problem}",
                )
                return
            self._fetched_at = now
            logger.info("identity_provider_keys_fetched", issuer=self._settings.issuer, keys=len(self._keys))


async def _discover(settings: OidcSettings, fetch: Fetch) -> _Discovery:
    document = await fetch(f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration")
    discovery = msgspec.json.decode(document, type=_Discovery)
    if discovery.issuer != settings.issuer or not _is_safe(discovery.jwks_uri):
        raise ValueError("the issuer's own description names another issuer, or an address without https")
    return discovery


async def _fetch_keys(settings: OidcSettings, fetch: Fetch) -> dict[str | None, jwt.PyJWK]:
    document = await fetch(settings.jwks_url or (await _discover(settings, fetch)).jwks_uri)
    published = jwt.PyJWKSet.from_dict(msgspec.json.decode(document, type=dict[str, object]))
    usable = (key for key in published.keys if key.algorithm_name in ALGORITHMS and key.public_key_use in {None, "sig"})
    return {key.key_id: key for key in usable}


async def _fetch_directly(url: str) -> bytes:
    async with httpx2.AsyncClient(timeout=REQUEST_TIMEOUT_SECONDS) as client, client.stream("GET", url) as response:
        if response.status_code != 200:
            raise ValueError(f"{url} answered {response.status_code}")
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > DOCUMENT_MAX_BYTES:
                raise ValueError(f"{url} answered more than {DOCUMENT_MAX_BYTES:,} bytes")
        return bytes(body)


def _milliseconds(seconds: object) -> int | None:
    """Returns ms for a time that a calendar can hold; a bool is an int in Python, and JSON has 1e999."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 1e11:
        return int(seconds * 1000)
    return None


def _is_safe(url: str) -> bool:
    """Without https an attacker on the network could replace the keys; only this machine is exempt."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        return False
    return parsed.scheme == "https" or (parsed.scheme == "http" and is_loopback(parsed.host))
