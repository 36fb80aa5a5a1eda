import pytest
from msgspec.structs import replace

from agentvm.model.account import ApiKey
from agentvm.model.ids import KeyId, TenantId


@pytest.mark.parametrize(
    ("expires_at", "revoked_at", "valid"),
    [(None, None, True), (6, None, True), (5, None, False), (6, 1, False), (None, 9, False)],
)
def test_a_key_is_valid_until_it_expires_or_is_revoked(expires_at: int | None, revoked_at: int | None, valid: bool) -> None:
    key = replace(
        ApiKey(key_id=KeyId("k"), tenant_id=TenantId("t"), name="n", created_by="x", created_at=1),
        expires_at=expires_at,
        revoked_at=revoked_at,
    )
    assert key.is_valid(5) is valid
