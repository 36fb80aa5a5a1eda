import msgspec
import pytest

from agentvm.errors import InvalidInput
from agentvm.tools.base import Caller
from agentvm.tools.mcp.consent import PendingConsent, TokenScope, read_pending

PENDING = PendingConsent(
    tenant_id="acme", user_id="alice", server="https://mcp.example/mcp", verifier="v", redirect_uri="https://avm.example/cb",
    token_endpoint="https://as.example/token", issuer="https://as.example", issuer_required=False, resource=None, client={},
    metadata=None, resource_metadata=None,
)  # fmt: skip
ALICE = TokenScope(Caller("acme", "alice"), "https://mcp.example/mcp")


def test_a_wait_knows_whose_it_is() -> None:
    assert PENDING.token_scope == ALICE


def test_an_issuer_is_compared_as_it_is_written() -> None:
    stored = msgspec.json.encode(PENDING)
    assert read_pending(stored, "https://as.example") == PENDING
    for other in ("https://as.example/", "https://AS.example", "https://as.example:443"):
        with pytest.raises(InvalidInput, match="another authorization server"):
            read_pending(stored, other)
