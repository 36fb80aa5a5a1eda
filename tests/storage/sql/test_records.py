"""The columns of a record are the fields of its struct, and what is written is read back."""

import msgspec
import pytest

from agentvm.model.account import ApiKey, Tenant
from agentvm.model.ids import ContainerId, ImageId, KeyId, SessionId, TenantId, TurnId
from agentvm.model.ledger import LedgerEntry, Wallet
from agentvm.model.turn import Turn
from agentvm.model.usage import Usage
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.sql.records import Columns, TenantScope

pytestmark = pytest.mark.anyio

KEY = ApiKey(key_id=KeyId("k"), tenant_id=TenantId("t"), name="n", permissions=("a", "b"), created_by="u", created_at=1)
USAGE = Usage(input_tokens=1, output_tokens=2, estimated=True)
ENTRY = LedgerEntry(
    key="k", at=1, tenant_id=TenantId("t"), container_id=ContainerId("c"), image_id=ImageId("i"), session_id=SessionId("s"),
    turn_id=TurnId("u"), driver="d", model="m", usage=USAGE, price=5,
)  # fmt: skip


def test_the_columns_are_the_fields_in_their_order() -> None:
    tenant = Columns(Tenant)
    assert tenant.names == tuple(field.name for field in msgspec.structs.fields(Tenant))
    assert tenant.text == ", ".join(tenant.names)
    assert tenant.marks.count("?") == len(tenant.names)
    assert "tenant_id" not in Columns(Tenant, without=("tenant_id",)).names


def test_tuples_are_json_and_nothing_stays_nothing() -> None:
    columns = Columns(ApiKey)
    row = dict(zip(columns.names, columns.encode(KEY), strict=True))
    assert (row["permissions"], row["containers"]) == (b'["a","b"]', None)
    assert columns.decode(tuple(row.values())) == KEY


def test_truth_values_are_numbers() -> None:
    assert Columns(Wallet).encode(Wallet(prepaid=True)) == (0, 0, 1)
    assert Columns(Wallet).decode((3, 2, 1)) == Wallet(credited=3, spent=2, prepaid=True)


def test_a_struct_is_json_unless_it_is_inline() -> None:
    assert "usage" in Columns(Turn).names
    whole = Columns(LedgerEntry)
    inline = Columns(LedgerEntry, inline="usage")
    assert "usage" not in inline.names
    assert {"input_tokens", "estimated"} <= set(inline.names)
    assert inline.decode(inline.encode(ENTRY)) == ENTRY
    assert msgspec.json.decode(whole.encode(ENTRY)[whole.names.index("usage")], type=Usage) == USAGE


async def test_a_scope_reads_all_rows_the_first_and_none() -> None:
    async with open_database(None) as database:
        scope = TenantScope(database, TenantId("t"))
        put = "INSERT INTO secrets (tenant_id, name, sealed, updated_at) VALUES (?, ?, ?, 1)"
        for name in ("b", "a"):
            assert await scope._execute(put, ("t", name, b"\0"))
        names = "SELECT name FROM secrets WHERE tenant_id = ? ORDER BY name"
        assert await scope._all(lambda row: str(row[0]), names, ("t",)) == ("a", "b")
        assert await scope._first(lambda row: str(row[0]), names, ("t",)) == "a"
        assert await scope._first(lambda row: str(row[0]), names, ("other",)) is None
        assert not await scope._execute("DELETE FROM secrets WHERE tenant_id = ?", ("other",))
