import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from msgspec.structs import replace
from tests.support.provider import Answer, ScriptedProvider, Stall, Wait, open_provider
from tests.tenants.fakes import ACME, NOW, FakeClock, World
from tests.tenants.test_authentication import refused

from agentvm.errors import ConfigInvalid
from agentvm.model.principal import EVERYTHING, MEMBER
from agentvm.tenants.oidc import DOCUMENT_MAX_BYTES, FRESH_MS, RETRY_MS, STALE_MS, Claims, Oidc, OidcSettings

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WEAK = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()

SECONDS = NOW // 1000
CLAIMS: dict[str, object] = {"aud": "agentvm", "exp": SECONDS + 600, "sub": "alice", "tenant": "acme"}


def public(key: Any, kid: str | None, **more: str) -> dict[str, Any]:
    algorithm = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    kind: Any = next((value for known, value in algorithm.items() if isinstance(key, known)), OKPAlgorithm)
    named = {} if kid is None else {"kid": kid}
    return {**kind.to_jwk(key.public_key(), as_dict=True), **named, **more}


def publish(*keys: dict[str, Any]) -> Answer:
    return Answer(steps=[json.dumps({"keys": keys}).encode()], content_type="application/json")


ALL = publish(public(RSA, "rsa", use="sig", alg="RS256"), public(EC, "ec"), public(ED, "ed"))


class Issuer:
    """An identity provider on loopback, and what verifies its tokens."""

    def __init__(self, provider: ScriptedProvider, **members: Any) -> None:
        self.provider, self.clock = provider, FakeClock()
        self.settings = OidcSettings(
            **{"issuer": provider.base_url, "audience": "agentvm", "jwks_url": f"{provider.base_url}/keys", **members}
        )
        self.oidc = Oidc(self.settings, self.clock)

    def sign(self, key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **claims: object) -> str:
        payload = {"iss": self.provider.base_url, **CLAIMS, **claims}
        headers = {} if kid is None else {"kid": kid}
        return jwt.encode({name: value for name, value in payload.items() if value is not None}, key, algorithm, headers)


With = Callable[[Issuer], Awaitable[None]]


async def with_issuer(act: With, *answers: Answer, **members: Any) -> None:
    async with open_provider() as provider:
        provider.play(*(answers or (ALL,)))
        with anyio.fail_after(60):
            await act(Issuer(provider, **members))


@pytest.mark.parametrize(("key", "algorithm", "kid"), [(RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed")])
async def test_a_signed_token_says_who_it_is(key: Any, algorithm: str, kid: str) -> None:
    async def act(issuer: Issuer) -> None:
        said = await issuer.oidc.verify(issuer.sign(key, algorithm, kid))
        assert said == Claims(tenant="acme", user="alice", expires_at=(SECONDS + 600) * 1000 + 30_000)

    await with_issuer(act)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other"}, "token_refused: InvalidIssuerError"),
        ({"iss": None}, "token_refused: MissingRequiredClaimError"),
        ({"aud": "other"}, "token_refused: InvalidAudienceError"),
        ({"aud": None}, "token_refused: MissingRequiredClaimError"),
        ({"exp": None}, "token_refused: MissingRequiredClaimError"),
        ({"exp": SECONDS - 31}, "expired"),
        ({"exp": "soon"}, "times_malformed"),
        ({"exp": True}, "times_malformed"),
        ({"exp": 1e300}, "times_malformed"),
        ({"nbf": SECONDS + 60}, "not_yet_good"),
        ({"nbf": -1}, "times_malformed"),
        ({"tenant": None}, "claims_missing"),
        ({"tenant": ["acme"]}, "claims_missing"),
        ({"sub": ""}, "claims_missing"),
        ({"sub": "x" * 201}, "claims_missing"),
    ],
)
async def test_claims_that_are_not_for_us_or_not_for_now_are_refused(claims: dict[str, Any], reason: str) -> None:
    async def act(issuer: Issuer) -> None:
        assert await issuer.oidc.verify(issuer.sign(**claims)) == reason

    await with_issuer(act)


async def test_half_a_minute_of_difference_between_clocks_is_forgiven() -> None:
    async def act(issuer: Issuer) -> None:
        for token in (issuer.sign(exp=SECONDS - 29), issuer.sign(nbf=SECONDS + 29)):
            assert isinstance(await issuer.oidc.verify(token), Claims)

    await with_issuer(act)


async def test_a_token_signed_by_a_shared_secret_or_by_nobody_is_refused_without_fetching_keys() -> None:
    async def act(issuer: Issuer) -> None:
        for token in (issuer.sign(b"s" * 32, "HS256"), issuer.sign(None, "none"), issuer.sign(RSA, "RS512")):
            assert await issuer.oidc.verify(token) == "algorithm_not_allowed"
        for token in ("", "a.b.c", "..", "eyJ.eyJ.x", "\ud800.a.b", "e30.e30.e30"):
            assert await issuer.oidc.verify(token) in {"token_malformed", "algorithm_not_allowed"}
        assert issuer.provider.requests == []

    await with_issuer(act)


async def test_a_token_is_verified_with_the_algorithm_of_the_key_it_names() -> None:
    async def act(issuer: Issuer) -> None:
        assert await issuer.oidc.verify(issuer.sign(RSA, "RS256", "ec")) == "token_refused: InvalidAlgorithmError"
        stranger = ed25519.Ed25519PrivateKey.generate()
        assert await issuer.oidc.verify(issuer.sign(stranger, "EdDSA", "ed")) == "token_refused: InvalidSignatureError"
        head, body, signature = issuer.sign().split(".")
        other = issuer.sign(sub="bob").split(".")[1]
        assert await issuer.oidc.verify(f"{head}.{other}.{signature}") == "token_refused: InvalidSignatureError"
        assert body != other

    await with_issuer(act)


async def test_keys_that_are_weak_or_not_for_signing_are_not_used() -> None:
    async def act(issuer: Issuer) -> None:
        assert await issuer.oidc.verify(issuer.sign(kid="enc")) == "signing_key_unknown"
        assert await issuer.oidc.verify(issuer.sign(WEAK, kid="weak")) == "token_refused: InvalidKeyError"

    with pytest.warns(jwt.InsecureKeyLengthWarning):  # The test signs with it.
        await with_issuer(
            act, publish(public(RSA, "enc", use="enc"), public(WEAK, "weak"), {"kty": "oct", "k": "AAAA", "kid": "o"})
        )


async def test_a_token_need_not_name_the_only_key() -> None:
    async def act(issuer: Issuer) -> None:
        assert isinstance(await issuer.oidc.verify(issuer.sign(kid=None)), Claims)

    await with_issuer(act, publish(public(RSA, None)))

    async def ambiguous(issuer: Issuer) -> None:
        assert await issuer.oidc.verify(issuer.sign(kid=None)) == "signing_key_unknown"

    await with_issuer(ambiguous)


async def test_keys_are_fetched_once_and_for_an_unknown_one_at_most_once_a_minute() -> None:
    async def act(issuer: Issuer) -> None:
        for _ in range(3):
            assert isinstance(await issuer.oidc.verify(issuer.sign(ED, "EdDSA", "ed")), Claims)
            assert await issuer.oidc.verify(issuer.sign(RSA, "RS256", "new")) == "signing_key_unknown"
        assert len(issuer.provider.requests) == 1
        issuer.clock.now += RETRY_MS
        assert isinstance(await issuer.oidc.verify(issuer.sign(RSA, "RS256", "new")), Claims)
        assert len(issuer.provider.requests) == 2

    await with_issuer(act, publish(public(ED, "ed")), publish(public(RSA, "new")))


async def test_a_key_the_provider_withdrew_is_good_for_an_hour() -> None:
    async def act(issuer: Issuer) -> None:
        token = issuer.sign(exp=SECONDS + 10_000)
        issuer.clock.now += 1
        assert isinstance(await issuer.oidc.verify(token), Claims)
        issuer.clock.now += FRESH_MS + 1
        assert await issuer.oidc.verify(token) == "signing_key_unknown"

    await with_issuer(act, ALL, publish(public(ED, "ed")))


async def test_while_the_provider_is_away_its_keys_are_good_for_a_day() -> None:
    async def act(issuer: Issuer) -> None:
        token = issuer.sign(exp=SECONDS + 10**6)
        assert isinstance(await issuer.oidc.verify(token), Claims)
        issuer.clock.now += STALE_MS
        assert isinstance(await issuer.oidc.verify(token), Claims)
        issuer.clock.now += 1
        assert await issuer.oidc.verify(token) == "signing_key_unknown"

    await with_issuer(act, ALL, Answer(status=503))


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500),
        Answer(status=302, headers={"location": "http://127.0.0.1:9/"}),
        Answer(steps=[b"no json"]),
        Answer(steps=[b'{"keys": []}']),
        Answer(steps=[b'{"keys": {}}']),
        Answer(steps=[b"[1]"]),
        Answer(steps=[b" " * (DOCUMENT_MAX_BYTES // 2), b" " * (DOCUMENT_MAX_BYTES // 2), b"{}"]),
    ],
)
async def test_whatever_the_provider_answers_a_token_is_only_refused(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    async def act(issuer: Issuer) -> None:
        assert await issuer.oidc.verify(issuer.sign()) == "signing_key_unknown"

    with caplog.at_level(logging.WARNING, logger="agentvm"):
        await with_issuer(act, answer)
    assert [record.getMessage() for record in caplog.records] == ["identity_provider_keys_not_fetched"]


async def test_a_provider_that_does_not_answer_is_not_waited_for_long() -> None:
    async def act(issuer: Issuer) -> None:
        assert await Oidc(issuer.settings, issuer.clock, patience=0.05).verify(issuer.sign()) == "signing_key_unknown"

    await with_issuer(act, Answer(steps=[b"{", Stall()]))


async def test_those_who_come_while_the_keys_are_fetched_share_the_fetch_even_if_the_first_hangs_up() -> None:
    go_on = anyio.Event()

    async def act(issuer: Issuer) -> None:
        said: list[object] = []

        async def ask() -> None:
            said.append(await issuer.oidc.verify(issuer.sign()))

        async with anyio.create_task_group() as others:
            async with anyio.create_task_group() as first:
                first.start_soon(issuer.oidc.verify, issuer.sign())
                await issuer.provider.wait_request()
                for _ in range(5):
                    others.start_soon(ask)
                first.cancel_scope.cancel()
                go_on.set()
        assert [isinstance(one, Claims) for one in said] == [True] * 5
        assert len(issuer.provider.requests) == 1

    await with_issuer(act, Answer(steps=[Wait(go_on), *ALL.steps]))


async def test_without_an_address_of_the_keys_the_issuer_is_asked() -> None:
    async with open_provider() as provider:
        described = {"issuer": provider.base_url, "jwks_uri": f"{provider.base_url}/their/keys", "other": 1}
        provider.play(Answer(steps=[json.dumps(described).encode()]), ALL)
        issuer = Issuer(provider, jwks_url=None)
        with anyio.fail_after(60):
            assert isinstance(await issuer.oidc.verify(issuer.sign()), Claims)
        assert [request.path for request in provider.requests] == ["/.well-known/openid-configuration", "/their/keys"]


@pytest.mark.parametrize(
    "change", [{"issuer": "https://other"}, {"jwks_uri": "http://example.org/keys"}, {"jwks_uri": "file:///x"}]
)
async def test_an_issuer_that_describes_another_or_sends_keys_in_the_open_is_not_believed(change: dict[str, str]) -> None:
    async with open_provider() as provider:
        described = {"issuer": provider.base_url, "jwks_uri": f"{provider.base_url}/keys", **change}
        provider.play(Answer(steps=[json.dumps(described).encode()]), ALL)
        issuer = Issuer(provider, jwks_url=None)
        with anyio.fail_after(60):
            assert await issuer.oidc.verify(issuer.sign()) == "signing_key_unknown"
        assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "members",
    [{"issuer": "http://example.org"}, {"issuer": "nothing"}, {"jwks_url": "http://example.org/keys"}, {"audience": ""}],
)
def test_settings_that_would_trust_anybody_are_refused(members: dict[str, str]) -> None:
    settings = OidcSettings(**{"issuer": "https://id.example.org", "audience": "agentvm", **members})
    with pytest.raises(ConfigInvalid):
        Oidc(settings, FakeClock())


async def test_who_the_provider_vouches_for_is_entered_at_first_sight() -> None:
    async def act(issuer: Issuer) -> None:
        world = World(oidc=issuer.oidc, clock=issuer.clock)
        token = issuer.sign()
        owner = await world.access.authenticate(token)
        (alice,) = world.store.users.values()
        assert (alice.external_id, alice.role, alice.tenant_id) == ("alice", "member", ACME)
        assert (owner.user_id, owner.key_id, owner.permissions) == (alice.user_id, None, MEMBER)
        assert (owner.containers, owner.expires_at) == (("user-alice",), (SECONDS + 600) * 1000 + 30_000)
        assert (await world.access.authenticate(issuer.sign(exp=SECONDS + 700))).user_id == alice.user_id
        asked = len(world.store.asked)
        assert await world.access.authenticate(token) == owner
        assert len(world.store.asked) == asked, "a token that was just good is remembered"
        issuer.clock.now = owner.expires_at or 0
        await refused(world, token, "expired")

    await with_issuer(act)


async def test_who_was_deleted_and_comes_again_is_somebody_else_with_nothing_of_theirs() -> None:
    async def act(issuer: Issuer) -> None:
        world = World(oidc=issuer.oidc, clock=issuer.clock)
        before = await world.access.authenticate(issuer.sign())
        assert before.user_id is not None
        await world.people.delete_user(ACME, before.user_id)
        after = await world.access.authenticate(issuer.sign())
        assert after.user_id != before.user_id
        assert set(after.containers or ()).isdisjoint(before.containers or ())

    await with_issuer(act)


async def test_two_first_requests_enter_one_user() -> None:
    async def act(issuer: Issuer) -> None:
        world = World(oidc=issuer.oidc, clock=issuer.clock)
        async with anyio.create_task_group() as tasks:
            for exp in range(5):
                tasks.start_soon(world.access.authenticate, issuer.sign(exp=SECONDS + 600 + exp))
        assert len(world.store.users) == 1

    await with_issuer(act)


async def test_a_token_for_a_tenant_that_is_unknown_or_suspended_is_refused_and_enters_nobody() -> None:
    async def act(issuer: Issuer) -> None:
        world = World(oidc=issuer.oidc, clock=issuer.clock)
        await refused(world, issuer.sign(tenant="nobody"))
        world.store.tenants[ACME] = replace(world.store.tenants[ACME], status="suspended")
        await refused(world, issuer.sign(), "suspended")
        assert world.store.users == {}

    await with_issuer(act)


async def test_a_user_who_is_suspended_is_refused_at_once_whatever_the_provider_says() -> None:
    async def act(issuer: Issuer) -> None:
        world = World(oidc=issuer.oidc, clock=issuer.clock)
        token = issuer.sign()
        await world.access.authenticate(token)
        (alice,) = world.store.users.values()
        await world.people.change_user(alice.tenant_id, alice.user_id, partial(replace, status="suspended"))
        await refused(world, token, "suspended")
        await refused(world, issuer.sign(exp=SECONDS + 900), "suspended")

    await with_issuer(act)


async def test_the_provider_may_say_the_role_but_none_beyond_the_tenant() -> None:
    async def act(issuer: Issuer) -> None:
        world = World(oidc=issuer.oidc, clock=issuer.clock)
        assert (await world.access.authenticate(issuer.sign(role="owner"))).permissions == EVERYTHING - {"system:admin"}
        viewer = await world.access.authenticate(issuer.sign(role="viewer"))
        assert all(permission.endswith(":read") for permission in viewer.permissions)
        for role in ("root", "system:admin", ["owner"]):
            assert await issuer.oidc.verify(issuer.sign(role=role)) == "role_unknown"

    await with_issuer(act, role_claim="role")


async def test_without_a_provider_no_token_is_looked_at() -> None:
    async def act(issuer: Issuer) -> None:
        await refused(World(), issuer.sign())
        assert issuer.provider.requests == []

    await with_issuer(act)


async def test_no_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def act(issuer: Issuer) -> None:
        world = World(oidc=issuer.oidc, clock=issuer.clock)
        good, bad = issuer.sign(), issuer.sign(aud="other")
        await world.access.authenticate(good)
        await refused(world, bad)
        everything = repr([vars(record) for record in caplog.records if record.name.startswith("agentvm.tenants")])
        assert "InvalidAudienceError" in everything
        for token in (good, bad):
            assert not any(part in everything for part in token.split(".")[1:])

    with caplog.at_level(logging.DEBUG, logger="agentvm"):
        await with_issuer(act)
