import logging
import secrets

import anyio
import pytest
from msgspec.structs import replace
from tests.tenants.fakes import ACME, NOW, OPERATOR, World

from agentvm.errors import Refused, StoreFailed, Unauthenticated
from agentvm.model.account import User, UserRole
from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.model.secret import Secret
from agentvm.sharing.cache import Cache
from agentvm.tenants.authentication import READ_ATTEMPTS_MAX, RECENT_MS, UNKNOWN, Verified
from agentvm.tenants.keys import ALPHABET, make_key


async def refused(world: World, credential: str, why: str | None = None) -> None:
    """With a reason where the credential is one that was good once, and with the one text for everybody else."""
    with pytest.raises(Unauthenticated) as caught:
        await world.access.authenticate(credential)
    assert caught.value.details.get("reason") == why
    assert (str(caught.value) == UNKNOWN) == (why is None)


def wrong_secret(text: str) -> str:
    """A well-formed key with the same id and another secret."""
    number = 0
    for letter in text[4:16]:
        number = number * len(ALPHABET) + ALPHABET.index(letter)
    draws = iter([number, secrets.randbits(200)])
    forged = make_key(lambda bits: next(draws))[1].reveal()
    assert forged[:16] == text[:16]
    assert forged != text
    return forged


async def test_a_key_of_a_tenant_reaches_all_of_it() -> None:
    world = World()
    key, text = await world.key(permissions=["agent:use"])
    assert await world.access.authenticate(text) == Principal(
        tenant_id=ACME, key_id=key.key_id, permissions=frozenset({"agent:use"}), containers=None
    )


async def test_a_key_with_containers_reaches_those() -> None:
    world = World()
    _, text = await world.key(containers=["team-*"])
    owner = await world.access.authenticate(text)
    assert owner.reaches("team-1")
    assert not owner.reaches("user-alice")


async def test_a_users_key_reaches_what_they_are_bound_to_in_order() -> None:
    world = World()
    alice = world.add_user()
    world.store.bindings[alice.user_id] = [ContainerId("first"), ContainerId("second")]
    _, text = await world.key(user_id=alice.user_id)
    owner = await world.access.authenticate(text)
    assert (owner.user_id, owner.containers, owner.home) == (alice.user_id, ("first", "second"), "first")


async def test_a_user_is_added_with_a_container() -> None:
    world = World()
    alice = User(user_id=UserId("a"), tenant_id=ACME, external_id="alice", role="member", created_at=NOW, updated_at=NOW)
    await world.access.add_user(alice)
    _, text = await world.key(user_id=alice.user_id)
    assert (await world.access.authenticate(text)).containers == ("user-alice",)
    assert world.store.bindings[alice.user_id] == ["user-alice"]


async def test_who_was_unbound_from_their_last_container_stays_out_of_it() -> None:
    world = World()
    alice = world.add_user()
    _, text = await world.key(user_id=alice.user_id)
    assert await world.people.unbind(ACME, alice.user_id, ContainerId("user-alice"))
    for _ in range(2):
        assert (await world.access.authenticate(text)).containers == ()
        _, text = await world.key(user_id=alice.user_id)
    assert world.store.bindings[alice.user_id] == []


async def test_a_user_named_like_a_pattern_reaches_nobody_elses_container() -> None:
    world = World()
    star = world.add_user("*")
    _, text = await world.key(user_id=star.user_id)
    owner = await world.access.authenticate(text)
    assert not owner.reaches("user-alice")
    assert owner.home is not None


async def test_a_container_named_like_a_pattern_is_bound_as_a_name() -> None:
    world = World()
    alice = world.add_user()
    world.store.bindings[alice.user_id] = [ContainerId("user-*")]
    _, text = await world.key(user_id=alice.user_id)
    owner = await world.access.authenticate(text)
    assert owner.reaches("user-*")
    assert not owner.reaches("user-bob")


async def test_a_users_key_may_name_some_of_the_containers_they_are_bound_to() -> None:
    world = World()
    alice = world.add_user()
    for name in ("only-this", "team-1", "team-2"):
        await world.people.bind(ACME, alice.user_id, ContainerId(name))
    _, text = await world.key(user_id=alice.user_id, containers=["only-this", "elsewhere"])
    assert (await world.access.authenticate(text)).containers == ("only-this",)
    _, text = await world.key(user_id=alice.user_id, containers=["team-*"])
    assert (await world.access.authenticate(text)).containers == ("team-1", "team-2")


async def test_unbinding_a_user_holds_for_keys_that_name_the_container() -> None:
    world = World()
    alice = world.add_user()
    await world.people.bind(ACME, alice.user_id, ContainerId("project-x"))
    _, text = await world.key(user_id=alice.user_id, containers=["project-x"])
    assert (await world.access.authenticate(text)).reaches("project-x")
    await world.people.unbind(ACME, alice.user_id, ContainerId("project-x"))
    assert not (await world.access.authenticate(text)).reaches("project-x")


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", frozenset(name for name in EVERYTHING if name.endswith(":read"))),
        ("member", MEMBER),
        ("admin", EVERYTHING - {"system:admin"}),
        ("owner", EVERYTHING - {"system:admin"}),
    ],
)
async def test_a_users_role_caps_what_their_key_says(role: UserRole, allowed: frozenset[str]) -> None:
    world = World()
    someone = world.add_user(role=role)
    _, text = await world.key(user_id=someone.user_id, permissions=EVERYTHING)
    assert (await world.access.authenticate(text)).permissions == allowed


@pytest.mark.parametrize(
    "credential", ["", "x", "avm_", "Bearer x", "a.b.c", "\ud800", "ü" * 56, "x" * 100_000, "avmws_" + "x" * 32]
)
async def test_what_is_no_credential_is_refused_without_asking_the_database(credential: str) -> None:
    world = World()
    await refused(world, credential)
    assert world.store.asked == []


async def test_a_key_nobody_has_is_refused() -> None:
    await refused(World(), make_key(secrets.randbits)[1].reveal())


async def test_a_wrong_secret_is_refused_also_while_the_right_one_is_remembered() -> None:
    world = World()
    _, text = await world.key()
    await refused(world, wrong_secret(text))
    await world.access.authenticate(text)
    await refused(world, wrong_secret(text))
    await world.access.authenticate(text)


async def test_an_unknown_id_and_a_wrong_secret_go_the_same_way() -> None:
    world = World()
    _, text = await world.key()

    async def way(credential: str) -> tuple[int, list[str]]:
        world.store.asked.clear()
        world.compared = 0
        await refused(world, credential)
        return world.compared, list(world.store.asked)

    unknown = await way(make_key(secrets.randbits)[1].reveal())
    assert unknown == (2, ["find_key"])
    assert await way(wrong_secret(text)) == unknown
    await world.access.authenticate(text)
    assert await way(wrong_secret(text)) == unknown, "not even that somebody just used it"


async def test_an_expired_key_is_refused_even_if_it_is_remembered() -> None:
    world = World()
    _, text = await world.key(expires_at=NOW + 1000)
    assert (await world.access.authenticate(text)).expires_at == NOW + 1000
    world.clock.now += 999
    await world.access.authenticate(text)
    world.clock.now += 1
    await refused(world, text, "expired")


async def test_a_key_of_a_tenant_that_is_suspended_elsewhere_is_refused_within_thirty_seconds() -> None:
    world = World()
    _, text = await world.key()
    await world.access.authenticate(text)
    world.store.tenants[ACME] = replace(world.store.tenants[ACME], status="suspended")
    await world.access.authenticate(text)
    world.clock.now += RECENT_MS
    await refused(world, text, "suspended")


async def test_a_good_key_is_looked_up_once_in_thirty_seconds() -> None:
    world = World()
    _, text = await world.key()
    world.store.asked.clear()
    for _ in range(5):
        await world.access.authenticate(text)
    assert world.store.asked.count("find_key") == 1
    world.clock.now += RECENT_MS
    await world.access.authenticate(text)
    assert world.store.asked.count("find_key") == 2


async def test_the_memory_of_good_keys_is_bounded() -> None:
    recent = Cache[str, Verified](3, age_ms=RECENT_MS)
    world = World(recent=recent)
    for _ in range(5):
        await world.access.authenticate((await world.key())[1])
    assert len(recent) == 3


async def test_a_right_that_ends_during_a_look_up_is_not_remembered() -> None:
    world = World()
    key, text = await world.key()
    arrived, go_on = world.store.hold("get_tenant")
    outcome: list[str] = []

    async def ask() -> None:
        try:
            await world.access.authenticate(text)
            outcome.append("in")
        except Unauthenticated:
            outcome.append("out")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await arrived.wait()  # The key has been read, and was good.
            await world.access.revoke(ACME, key.key_id)
            go_on.set()
    assert outcome == ["out"]
    await refused(world, text, "revoked")


async def test_a_ws_token_gives_the_same_rights_once() -> None:
    world = World()
    _, text = await world.key(permissions=["agent:use"], expires_at=NOW + 90_000)
    owner = await world.access.authenticate(text)
    token = await world.access.ws_token(owner)
    assert await world.access.authenticate(token) == owner
    await refused(world, token)


async def test_of_two_that_bring_the_same_ws_token_one_wins() -> None:
    world = World()
    owner = await world.access.authenticate((await world.key())[1])
    token = await world.access.ws_token(owner)
    outcome: list[str] = []

    async def ask() -> None:
        try:
            await world.access.authenticate(token)
            outcome.append("in")
        except Unauthenticated:
            outcome.append("out")

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask)
    assert sorted(outcome) == ["in"] + ["out"] * 9


async def test_a_ws_token_ends_with_the_key_it_was_asked_with() -> None:
    world = World()
    key, text = await world.key(expires_at=NOW + 10_000)
    owner = await world.access.authenticate(text)
    late, revoked = await world.access.ws_token(owner), await world.access.ws_token(owner)
    world.clock.now += 10_000
    await refused(world, late, "expired")
    world.clock.now = NOW
    await world.access.revoke(ACME, key.key_id)
    await refused(world, revoked)


async def test_uses_are_written_together_and_not_with_the_request() -> None:
    world = World()
    other = world.add_tenant(TenantId("ten_b"), "b")
    first, text = await world.key()
    second, more = await world.access.issue(other.tenant_id, name="k", granter=OPERATOR)
    for _ in range(3):
        await world.access.authenticate(text)
    world.clock.now += 5
    await world.access.authenticate(text)
    await world.access.authenticate(more.reveal())
    assert world.store.touched == []
    await world.access.flush_used()
    assert sorted(world.store.touched) == sorted([((first.key_id, NOW + 5),), ((second.key_id, NOW + 5),)])
    await world.access.flush_used()
    assert len(world.store.touched) == 2


async def test_uses_that_could_not_be_written_are_written_the_next_time() -> None:
    world = World()
    key, text = await world.key()
    await world.access.authenticate(text)
    world.store.failing["touch"] = StoreFailed("disk full")
    with pytest.raises(StoreFailed):
        await world.access.flush_used()
    world.store.failing.clear()
    await world.access.flush_used()
    assert world.store.touched == [((key.key_id, NOW),)]


async def test_a_failing_database_is_not_taken_for_a_wrong_key() -> None:
    world = World()
    _, text = await world.key()
    world.store.failing["find_key"] = StoreFailed("disk failed")
    with pytest.raises(StoreFailed):
        await world.access.authenticate(text)


async def test_the_log_says_why_by_the_keys_id_and_never_holds_a_credential(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.DEBUG, logger="agentvm"):
        key, text = await world.key()
        token = await world.access.ws_token(await world.access.authenticate(text))
        await world.access.authenticate(token)
        await world.access.revoke(ACME, key.key_id)
        stranger = make_key(secrets.randbits)[1].reveal()
        for credential in (text, token, stranger, "my-own-password", text[:-1] + "!"):
            await refused(world, credential, "revoked" if credential is text else None)
    told = [vars(record) for record in caplog.records if record.getMessage() == "authentication_refused"]
    assert [(one["reason"], one["key_id"]) for one in told] == [
        ("revoked", key.key_id),
        ("ticket_unknown", None),
        ("key_unknown", stranger[4:16]),
        ("malformed", None),
        ("malformed", None),
    ]
    everything = repr([vars(record) for record in caplog.records])
    for secret in (text.split("_")[2], token[6:], stranger.split("_")[2], "my-own-password"):
        assert secret not in everything


def restless(world: World, tenant_id: TenantId) -> None:
    """Whenever a key is compared, somebody's rights in that tenant change."""
    compare = world.access._matches

    def matches(pepper: bytes, secret: Secret, stored: bytes) -> bool:
        world.access.forget(tenant_id, lambda principal: False)
        return compare(pepper, secret, stored)

    world.access._matches = matches


async def test_rights_that_change_in_one_tenant_keep_nobody_of_another_waiting() -> None:
    world = World()
    other = world.add_tenant(TenantId("ten_b"), "b").tenant_id
    _, text = await world.key()
    restless(world, other)
    await world.access.authenticate(text)
    assert world.store.asked.count("find_key") == 1


async def test_who_cannot_be_looked_at_in_peace_is_told_to_try_again() -> None:
    world = World()
    _, text = await world.key()
    restless(world, ACME)
    with pytest.raises(Refused, match="try again"):
        await world.access.authenticate(text)
    assert world.store.asked.count("find_key") == READ_ATTEMPTS_MAX


async def test_binding_nobody_or_what_is_bound_makes_nobody_look_again() -> None:
    world = World()
    alice = world.add_user()
    await world.people.bind(ACME, alice.user_id, ContainerId("c"))
    _, text = await world.key(user_id=alice.user_id)
    await world.access.authenticate(text)
    world.store.asked.clear()
    assert not await world.people.bind(ACME, UserId("nobody"), ContainerId("c"))
    assert await world.people.bind(ACME, alice.user_id, ContainerId("c"))
    await world.access.authenticate(text)
    assert "find_key" not in world.store.asked


async def test_the_holder_of_a_key_is_told_why_it_is_not_good_and_a_stranger_is_not() -> None:
    world = World()
    revoked, text = await world.key()
    await world.access.revoke(ACME, revoked.key_id)
    await refused(world, text, "revoked")
    await refused(world, wrong_secret(text))
    _, late = await world.key(expires_at=world.clock() + 1)
    world.clock.now += 1
    await refused(world, late, "expired")
    await refused(world, wrong_secret(late))
    _, other = await world.key()
    world.store.tenants[ACME] = replace(world.store.tenants[ACME], status="suspended")
    await refused(world, other, "suspended")
    await refused(world, wrong_secret(other))
