import msgspec
import pytest
from tests.conformance.store import ACME, RIVAL

from agentvm.errors import Conflict
from agentvm.model.secret_grant import SecretGrant
from agentvm.storage.sql.accounts import grants as module
from agentvm.storage.sql.store import Store

GRANT = SecretGrant(
    secret="A", tool="resource://tools/x", grantee="res_1", use="header", hosts=("a.org",), granted_by="u", granted_at=4
)


async def test_a_grant_is_found_by_the_id_of_its_tool_and_its_use(store: Store) -> None:
    grants = store.accounts(ACME).grants
    await grants.put(GRANT)
    await grants.put(msgspec.structs.replace(GRANT, hosts=("b.org", "c.org"), granted_at=5))
    assert await grants.get("A", "res_1", "header") == msgspec.structs.replace(GRANT, hosts=("b.org", "c.org"), granted_at=5)
    assert await grants.get("A", "res_1", "query") is None
    assert await grants.get("A", "resource://tools/x", "header") is None
    assert await store.accounts(RIVAL).grants.get("A", "res_1", "header") is None


async def test_grants_of_a_tool_end_by_its_name_or_its_id_for_one_use_or_all(store: Store) -> None:
    grants = store.accounts(ACME).grants
    env = msgspec.structs.replace(GRANT, use="env", hosts=())
    other = msgspec.structs.replace(GRANT, tool="resource://tools/y", grantee="res_2")
    for grant in (GRANT, env, other):
        await grants.put(grant)
    assert await store.accounts(RIVAL).grants.remove("A", GRANT.tool, "res_1", None) is False
    assert await grants.remove("A", GRANT.tool, None, "query") is False
    assert await grants.remove("A", GRANT.tool, None, "env") is True
    assert await grants.list() == (GRANT, other)
    assert await grants.remove("A", "resource://tools/renamed", "res_2", None) is True
    assert await grants.list() == (GRANT,)


async def test_a_secret_takes_its_own_grants_along(store: Store) -> None:
    accounts = store.accounts(ACME)
    await accounts.secrets.put("A", b"x", 1)
    await accounts.secrets.put("B", b"x", 1)
    await accounts.grants.put(GRANT)
    of_other = msgspec.structs.replace(GRANT, secret="B")
    await accounts.grants.put(of_other)
    await accounts.secrets.put("A", b"y", 2)
    assert len(await accounts.grants.list()) == 2
    await accounts.secrets.remove("A")
    assert await accounts.grants.list() == (of_other,)


async def test_the_number_of_grants_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRANTS_MAX", 2)
    grants = store.accounts(ACME).grants
    await grants.put(GRANT)
    await grants.put(msgspec.structs.replace(GRANT, secret="B"))
    with pytest.raises(Conflict, match="at most 2 grants"):
        await grants.put(msgspec.structs.replace(GRANT, secret="C"))
    await grants.put(msgspec.structs.replace(GRANT, hosts=()))
    assert len(await grants.list()) == 2
