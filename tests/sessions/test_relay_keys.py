import pytest

from agentvm.errors import Conflict, Unprocessable
from agentvm.model.ids import TenantId
from agentvm.sessions.relay_keys import RelayKeys

ONE, TWO = TenantId("one"), TenantId("two")


def test_a_key_is_taken_once_by_each_tenant_until_it_is_freed() -> None:
    keys = RelayKeys()
    keys.take(ONE, None, "k", b"a")
    keys.take(TWO, None, "k", b"a")
    with pytest.raises(Conflict):
        keys.take(ONE, None, "k", b"a")
    with pytest.raises(Unprocessable):
        keys.take(ONE, None, "k", b"b")
    keys.free(ONE, None, "k")
    keys.take(ONE, None, "k", b"b")


def test_keys_are_bounded_in_number() -> None:
    keys = RelayKeys(keys_max=2)
    for key in ("a", "b", "c"):
        keys.take(ONE, None, key, b"")
    keys.take(ONE, None, "a", b"")


def test_a_tenant_with_many_keys_pushes_out_only_its_own() -> None:
    keys = RelayKeys(keys_max=2)
    keys.take(TWO, None, "k", b"")
    for key in ("a", "b", "c", "d"):
        keys.take(ONE, None, key, b"")
    with pytest.raises(Conflict):
        keys.take(TWO, None, "k", b"")


def test_the_tenants_that_are_remembered_are_bounded() -> None:
    keys = RelayKeys(tenants_max=1)
    keys.take(ONE, None, "k", b"")
    keys.take(TWO, None, "k", b"")
    keys.take(ONE, None, "k", b"")
