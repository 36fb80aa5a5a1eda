"""Accounts conformance — what the store must do on every engine with tenants, users, keys, quotas, secrets, audit.

Money is in `tests.conformance.ledger`.
"""

from functools import partial

from msgspec import structs

from agentvm.errors import Conflict, NotFound
from agentvm.model.account import ApiKey, AuditEntry, Quota, Tenant, User
from agentvm.model.exchange import extent
from agentvm.model.ids import ContainerId, KeyId, TenantId, UserId
from agentvm.storage.sql.store import Store
from tests.conformance.log import chunk, write
from tests.conformance.records import HOME, IMAGE, SESSION, image, message
from tests.conformance.store import ACME, ODD, RIVAL, raises, settle
from tests.conformance.summaries import summary

ALICE, BOB = UserId("u_alice"), UserId("u_bob")


def tenant(tenant_id: TenantId = ACME, slug: str | None = None, *, now: int = 1) -> Tenant:
    return Tenant(tenant_id=tenant_id, slug=slug or tenant_id, name=f"name of {tenant_id}", created_at=now, updated_at=now)


def user(user_id: str = ALICE, name: str | None = None, *, of: TenantId = ACME) -> User:
    external_id = name or f"name of {user_id}"
    return User(user_id=UserId(user_id), tenant_id=of, external_id=external_id, created_at=1, updated_at=1)


def key(key_id: str = "k1", *, of: TenantId = ACME, user_id: UserId | None = None, now: int = 1) -> ApiKey:
    return ApiKey(key_id=KeyId(key_id), tenant_id=of, name="ci", user_id=user_id, created_by="root", created_at=now)


def audited(action: str = "key.create", *, of: TenantId = ACME, at: int = 1) -> AuditEntry:
    return AuditEntry(at=at, tenant_id=of, actor="root", action=action, target="k1", result="ok")


async def check_a_tenant_comes_back_as_it_was(store: Store) -> None:
    directory = store.directory
    assert await directory.get_tenant(ACME) is None
    assert await directory.find_tenant("acme-inc") is None
    full = structs.replace(tenant(slug="acme-inc"), description="about", status="suspended", plan="gold", updated_at=2)
    await directory.add_tenant(full)
    await directory.add_tenant(tenant(RIVAL))
    assert await directory.get_tenant(ACME) == full
    assert await directory.find_tenant("acme-inc") == full
    assert await directory.find_tenant("acme") is None
    assert await directory.find_tenant("ACME-INC") is None


async def check_two_tenants_share_neither_id_nor_slug(store: Store) -> None:
    directory = store.directory
    await directory.add_tenant(tenant(slug="a"))
    await directory.add_tenant(tenant(RIVAL, "b"))
    assert await raises(Conflict, directory.add_tenant(tenant(ACME, "c")))
    assert await raises(Conflict, directory.add_tenant(tenant(TenantId("third"), "a")))
    assert await raises(Conflict, directory.change_tenant(RIVAL, partial(structs.replace, slug="a")))
    assert [each.slug for each in await directory.list_tenants()] == ["a", "b"]
    assert await directory.get_tenant(TenantId("third")) is None


async def check_tenants_are_listed_page_by_page(store: Store) -> None:
    for slug in ("c", "a", "d", "b"):
        await store.directory.add_tenant(tenant(TenantId(f"t_{slug}"), slug))
    assert [each.slug for each in await store.directory.list_tenants()] == ["a", "b", "c", "d"]
    assert [each.slug for each in await store.directory.list_tenants(limit=2)] == ["a", "b"]
    assert [each.slug for each in await store.directory.list_tenants(after="b", limit=9)] == ["c", "d"]


async def check_a_tenant_is_changed_but_not_its_age(store: Store) -> None:
    directory = store.directory
    await directory.add_tenant(tenant())
    await directory.add_tenant(tenant(RIVAL))
    changed = structs.replace(tenant(slug="new"), name="n", description="d", status="suspended", plan="p", updated_at=5)
    given = structs.replace(changed, created_at=99)
    assert await directory.change_tenant(ACME, lambda _: given) == (tenant(), given)
    assert await directory.get_tenant(ACME) == changed
    assert await directory.find_tenant("acme") is None
    assert await directory.get_tenant(RIVAL) == tenant(RIVAL)
    assert await directory.change_tenant(TenantId("gone"), structs.replace) is None


async def check_a_deleted_tenant_leaves_only_its_records_of_the_past(store: Store) -> None:
    for each in (ACME, RIVAL):
        await _fill(store, each)
    assert await store.directory.delete_tenant(ACME, now=9) is True
    assert await store.directory.delete_tenant(ACME, now=10) is False
    assert await store.directory.get_tenant(ACME) is None
    assert await store.directory.find_tenant(ACME) is None
    assert await store.directory.list_tenants() == (tenant(RIVAL),)
    assert await store.directory.change_tenant(ACME, structs.replace) is None
    assert await store.directory.find_key(KeyId("key of acme")) is None
    ours, theirs = store.accounts(ACME), store.accounts(RIVAL)
    assert (await ours.users.list(), await ours.users.bound(ALICE)) == ((), ())
    assert (await ours.keys.list(), await ours.quotas.list(), await ours.secrets.list()) == ((), (), ())
    assert len(await ours.audit.list()) == 1
    assert [len(each) for each in (await theirs.users.list(), await theirs.keys.list(), await theirs.quotas.list())] == [1] * 3
    assert await theirs.secrets.get("s") == b"rival"
    assert await theirs.users.bound(ALICE) == (HOME,)


async def check_nothing_is_added_to_a_deleted_tenant(store: Store) -> None:
    await store.directory.add_tenant(tenant())
    await store.directory.delete_tenant(ACME, now=9)
    ours = store.accounts(ACME)
    assert await raises(NotFound, ours.users.add(user()))
    assert await raises(NotFound, ours.keys.add(key(), b"d"))
    assert await raises(NotFound, ours.quotas.put(Quota(metric="containers"), now=9))
    assert await raises(NotFound, ours.secrets.put("s", b"x", now=9))
    # Its id would lead to its containers; its slug leads nowhere.
    assert await raises(Conflict, store.directory.add_tenant(tenant(slug="fresh")))
    await store.directory.add_tenant(tenant(TenantId("heir"), ACME))
    found = await store.directory.find_tenant(ACME)
    assert found is not None
    assert found.tenant_id == "heir"


async def check_a_user_comes_back_as_they_were(store: Store) -> None:
    users = store.accounts(ACME).users
    full = structs.replace(user(name="al"), display_name="Alice", role="admin", status="suspended", updated_at=2)
    await users.add(full)
    assert await users.get(ALICE) == full
    assert await users.find("al") == full
    assert (await users.get(BOB), await users.find("bo")) == (None, None)
    changed = structs.replace(full, display_name=None, role="viewer", status="active", updated_at=3)
    given = structs.replace(changed, external_id="ignored", created_at=99)
    assert await users.change(ALICE, lambda _: given) == (full, given)
    assert await users.get(ALICE) == changed
    assert await users.change(UserId(BOB), structs.replace) is None


async def check_two_users_of_a_tenant_share_neither_id_nor_name(store: Store) -> None:
    users = store.accounts(ACME).users
    for user_id, name in (("3", "c"), ("1", "a"), ("2", "b")):
        await users.add(user(user_id, name))
    assert await raises(Conflict, users.add(user("1", "d")))
    assert await raises(Conflict, users.add(user("4", "a")))
    assert [each.external_id for each in await users.list()] == ["a", "b", "c"]
    assert [each.external_id for each in await users.list(limit=1)] == ["a"]
    assert [each.external_id for each in await users.list(after="a", limit=1)] == ["b"]


async def check_a_user_is_bound_to_containers_in_order(store: Store) -> None:
    users = store.accounts(ACME).users
    assert await users.bind(ALICE, HOME) is False
    for each in (user(ALICE), user(BOB)):
        await users.add(each)
    for name in ("z", "a", "m", "z"):
        assert await users.bind(ALICE, ContainerId(name)) is True
    assert await users.bind(BOB, ContainerId("a")) is True
    assert await users.bound(ALICE) == ("z", "a", "m")
    assert await users.unbind(ALICE, ContainerId("a")) is True
    assert await users.unbind(ALICE, ContainerId("a")) is False
    assert (await users.bound(ALICE), await users.bound(BOB)) == (("z", "m"), ("a",))


async def check_a_deleted_user_can_do_nothing_more(store: Store) -> None:
    ours = store.accounts(ACME)
    for who in (ALICE, BOB):
        await ours.users.add(user(who))
        await ours.users.bind(who, HOME)
        await ours.keys.add(key(f"key of {who}", user_id=who), b"d")
        await ours.quotas.put(Quota(metric="containers", user_id=who), now=1)
    await ours.keys.add(key("tenant's", now=5), b"d")
    assert await ours.users.delete(ALICE, now=9) is True
    assert await ours.users.delete(ALICE, now=10) is False
    assert await ours.users.get(ALICE) is None
    assert await ours.users.bind(ALICE, HOME) is False
    assert [each.key_id for each in await ours.keys.list()] == ["tenant's", f"key of {BOB}"]
    assert await store.directory.find_key(KeyId(f"key of {ALICE}")) is None
    assert [each.user_id for each in await ours.quotas.list()] == [BOB]
    assert await raises(NotFound, ours.keys.add(key("new", user_id=ALICE), b"d"))
    # The same id again starts without what the first one had.
    await ours.users.add(user(ALICE))
    assert (await ours.users.bound(ALICE), await ours.users.bound(BOB)) == ((), (HOME,))


async def check_a_key_comes_back_as_it_was(store: Store) -> None:
    keys = store.accounts(ACME).keys
    assert await store.directory.has_keys() is False
    await store.accounts(ACME).users.add(user())
    plain = key("plain", now=1)
    bound = structs.replace(key("none", now=2), containers=())
    full = structs.replace(key("full", user_id=ALICE, now=2), permissions=("a", "b"), containers=("x-*",), expires_at=7)
    for each in (plain, bound, full):
        await keys.add(each, each.key_id.encode())
    assert [await keys.get(each.key_id) for each in (plain, bound, full)] == [plain, bound, full]
    assert await store.directory.find_key(full.key_id) == (full, b"full")
    assert await store.directory.find_key(KeyId("FULL")) is None
    assert await keys.list() == (full, bound, plain)
    assert await keys.list(user_id=ALICE) == (full,)
    assert await raises(Conflict, keys.add(plain, b"other"))
    assert await store.directory.find_key(plain.key_id) == (plain, b"plain")


async def check_a_key_ends_once_and_no_later(store: Store) -> None:
    keys = store.accounts(ACME).keys
    await keys.add(key("k1", now=1), b"d")
    for at, expires_at in ((50, 50), (40, 40), (60, 40)):
        assert await keys.rotate(KeyId("k1"), key(f"after {at}"), b"d", now=5, ends_at=at) is True
        assert await keys.get(KeyId("k1")) == structs.replace(key("k1"), expires_at=expires_at)
        assert await keys.revoke(KeyId(f"after {at}"), 6) is True
    assert await store.directory.has_keys() is True
    for now in (7, 8):
        assert await keys.revoke(KeyId("k1"), now) is True
    ended = structs.replace(key("k1"), expires_at=40, revoked_at=7)
    assert await keys.get(KeyId("k1")) == ended
    assert await store.directory.find_key(KeyId("k1")) == (ended, b"d")
    assert await store.directory.has_keys() is False
    assert await keys.revoke(KeyId("gone"), 9) is False


async def check_the_last_use_of_keys_only_moves_on(store: Store) -> None:
    keys = store.accounts(ACME).keys
    for name in ("a", "b", "c"):
        await keys.add(key(name), b"d")
    await keys.touch([(KeyId("a"), 5), (KeyId("b"), 6), (KeyId("gone"), 7)])
    await keys.touch([(KeyId("a"), 9), (KeyId("b"), 3)])
    await keys.touch([])
    assert {each.key_id: each.last_used_at for each in await keys.list()} == {"a": 9, "b": 6, "c": None}


async def check_a_quota_replaces_the_one_of_the_same_metric_and_user(store: Store) -> None:
    quotas = store.accounts(ACME).quotas
    for hard in (1, 2):
        await quotas.put(Quota(metric="containers", hard=hard, soft=0), now=hard)
        await quotas.put(Quota(metric="containers", hard=hard, user_id=ALICE), now=hard)
    await quotas.put(Quota(metric="connections"), now=3)
    own, other = Quota(metric="containers", hard=2, soft=0), Quota(metric="connections")
    of_alice = Quota(metric="containers", hard=2, user_id=ALICE)
    assert await quotas.list() == (other, own, of_alice)
    assert await quotas.remove("containers", None) is True
    assert await quotas.remove("containers", None) is False
    assert await quotas.remove("containers", BOB) is False
    assert await quotas.list() == (other, of_alice)


async def check_storage_is_what_all_that_is_said_and_images_take(store: Store) -> None:
    ours, theirs = store.accounts(ACME).quotas, store.accounts(RIVAL).quotas
    assert (await ours.storage_bytes(), await ours.count_containers()) == (0, 0)
    home = await settle(store, image(), image("img_2"))
    await settle(store, container="second")
    await settle(store, image(), tenant=RIVAL)
    snapshot, ours_before = await theirs.storage_bytes(), await ours.storage_bytes()
    # A snapshot that two images share counts once, and each image by itself.
    assert ours_before > snapshot > 0
    assert (await ours.count_containers(), await theirs.count_containers()) == (2, 1)
    await store.commit([write(text="m1")])
    with_message = await ours.storage_bytes()
    await store.commit([write(log=chunk(1, 3))])
    await home.log(SESSION).record(messages=[message("m2", "x" * 1000)], now=2)
    assert with_message > ours_before
    assert await ours.storage_bytes() > with_message + len(chunk(1, 3).body) + 1000
    assert await theirs.storage_bytes() == snapshot
    before = await ours.storage_bytes()
    await store.tenant(ACME).drafts("ann", None).save(SESSION, "phone", "字" * 10, 3)
    assert await ours.storage_bytes() == before + 30
    recalled = await home.log(SESSION).recall()
    covered = extent(recalled.messages, 1)
    assert covered is not None
    assert await home.log(SESSION).add_summary(summary("s1", covered), covered, recalled)
    assert before + 30 < await ours.storage_bytes() < await store.size_bytes()
    await home.delete_image(IMAGE)
    assert await ours.storage_bytes() < ours_before


async def check_a_secret_is_kept_as_it_was_sealed(store: Store) -> None:
    secrets = store.accounts(ACME).secrets
    assert await secrets.get("a") is None
    await secrets.put("b", b"\x00\xff", now=1)
    await secrets.put("a", b"old", now=2)
    await secrets.put("a", b"", now=3)
    assert (await secrets.get("a"), await secrets.get("b")) == (b"", b"\x00\xff")
    assert await secrets.list() == (("a", 3), ("b", 1))
    assert await secrets.remove("a") is True
    assert await secrets.remove("a") is False
    assert await secrets.list() == (("b", 1),)


async def check_the_audit_log_is_read_newest_first_page_by_page(store: Store) -> None:
    audit = store.accounts(ACME).audit
    full = structs.replace(audited("b", at=1), address="::1", request_id="r")
    for entry in (audited("a", at=9), full, audited("a", at=5)):
        await audit.add(entry)
    listed = await audit.list()
    assert [entry for _, entry in listed] == [audited("a", at=5), full, audited("a", at=9)]
    numbers = [number for number, _ in listed]
    assert numbers == sorted(numbers, reverse=True)
    assert await audit.list(limit=1) == listed[:1]
    assert await audit.list(before=numbers[0], limit=1) == listed[1:2]
    assert await audit.list(before=numbers[2]) == ()
    assert await audit.list(action="a", before=numbers[0]) == listed[2:]


async def check_accounts_of_tenants_never_mix(store: Store) -> None:
    """The same ids and names in both; what is done through one leaves the other as it was."""
    for each in (ACME, RIVAL):
        await _fill(store, each)
    ours, theirs = store.accounts(ACME), store.accounts(RIVAL)
    own_key, foreign_key = KeyId("key of acme"), KeyId("key of rival")
    assert await ours.keys.get(foreign_key) is None
    assert await ours.keys.revoke(foreign_key, 9) is False
    assert await ours.keys.rotate(foreign_key, key("thief"), b"d", now=1, ends_at=9) is False
    await ours.keys.touch([(foreign_key, 9)])
    assert await raises(Conflict, ours.keys.add(key(foreign_key), b"stolen"))
    assert await store.directory.find_key(foreign_key) == (key(foreign_key, of=RIVAL, user_id=ALICE), b"rival")
    assert [each.key_id for each in await ours.keys.list(user_id=ALICE)] == [own_key]
    await ours.users.change(ALICE, partial(structs.replace, display_name="ours"))
    await ours.users.unbind(ALICE, HOME)
    await ours.quotas.remove("containers", ALICE)
    await ours.secrets.remove("s")
    await ours.users.delete(ALICE, now=9)
    await ours.audit.add(audited("more"))
    assert await theirs.users.list() == (user(of=RIVAL),)
    assert (await theirs.users.get(ALICE), await theirs.users.find(user().external_id)) == (user(of=RIVAL), user(of=RIVAL))
    assert await theirs.users.bound(ALICE) == (HOME,)
    assert await theirs.keys.list() == (key(foreign_key, of=RIVAL, user_id=ALICE),)
    assert await theirs.quotas.list() == (Quota(metric="containers", hard=5, user_id=ALICE),)
    assert (await theirs.secrets.get("s"), await theirs.secrets.list()) == (b"rival", (("s", 1),))
    assert [entry for _, entry in await theirs.audit.list()] == [audited(of=RIVAL)]
    assert await theirs.audit.list(action="more") == ()


async def check_the_scope_decides_the_tenant_not_the_record(store: Store) -> None:
    ours, theirs = store.accounts(ACME), store.accounts(RIVAL)
    await ours.users.add(user(of=RIVAL))
    await ours.keys.add(key(of=RIVAL), b"d")
    await ours.audit.add(audited(of=RIVAL))
    assert await ours.users.list() == (user(of=ACME),)
    assert await store.directory.find_key(KeyId("k1")) == (key(of=ACME), b"d")
    assert [entry for _, entry in await ours.audit.list()] == [audited(of=ACME)]
    assert (await theirs.users.list(), await theirs.keys.list(), await theirs.audit.list()) == ((), (), ())


async def check_odd_names_of_accounts_are_only_text(store: Store) -> None:
    for odd in ODD:
        of, who = TenantId(odd), UserId(odd)
        await store.directory.add_tenant(tenant(of))
        theirs = store.accounts(of)
        await theirs.users.add(user(odd, odd, of=of))
        await theirs.users.bind(who, ContainerId(odd))
        await theirs.keys.add(structs.replace(key(odd, of=of, user_id=who), containers=(odd,)), b"d")
        await theirs.quotas.put(Quota(metric=odd, user_id=who), now=1)
        await theirs.secrets.put(odd, odd.encode(), now=1)
        await theirs.audit.add(audited(odd, of=of))
        assert await store.directory.find_tenant(odd) == tenant(of)
        assert await theirs.users.list() == (user(odd, odd, of=of),)
        assert await theirs.users.bound(who) == (odd,)
        assert [each.containers for each in await theirs.keys.list(user_id=who)] == [(odd,)]
        assert await theirs.quotas.list() == (Quota(metric=odd, user_id=who),)
        assert await theirs.secrets.get(odd) == odd.encode()
        assert [entry.action for _, entry in await theirs.audit.list(action=odd)] == [odd]


async def _fill(store: Store, of: TenantId) -> None:
    """One thing of each kind; but for the key's id, which is unique, the same in every tenant."""
    await store.directory.add_tenant(tenant(of))
    accounts = store.accounts(of)
    await accounts.users.add(user(of=of))
    await accounts.users.bind(ALICE, HOME)
    await accounts.keys.add(key(f"key of {of}", of=of, user_id=ALICE), of.encode())
    await accounts.quotas.put(Quota(metric="containers", hard=5, user_id=ALICE), now=1)
    await accounts.secrets.put("s", of.encode(), now=1)
    await accounts.audit.add(audited(of=of))
