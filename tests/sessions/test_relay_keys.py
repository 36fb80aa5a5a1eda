import pytest

from agentvm.errors import Conflict, InvalidInput, Unprocessable
from agentvm.model.ids import TenantId
from agentvm.sessions.relay_keys import KEY_MAX, RelayKeys

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


def test_keys_are_bounded_in_length_and_number() -> None:
    keys = RelayKeys(most=2)
    for key in ("", "x" * (KEY_MAX + 1)):
        with pytest.raises(InvalidInput):
            keys.take(ONE, None, key, b"")
    for key in ("a", "b", "c"):
        keys.take(ONE, None, key, b"")
    keys.take(ONE, None, "a", b"")
