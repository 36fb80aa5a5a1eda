import pytest

from agentvm.errors import Unprocessable
from agentvm.model.store_item import KEY_MAX_BYTES, NAMESPACE_MAX_BYTES, check_key, check_namespace


def test_labels_are_any_words_without_full_stops() -> None:
    assert check_namespace(("users", "北京 🦀", "*")) == ("users", "北京 🦀", "*")
    assert check_namespace((), is_prefix=True) == ()
    for labels in ((), ("",), ("a", ""), ("a.b",), ("a\0",), ("é" * (NAMESPACE_MAX_BYTES // 2 + 1),)):
        with pytest.raises(Unprocessable):
            check_namespace(labels)


def test_a_key_is_bounded_in_bytes() -> None:
    assert check_key("a.b/c d") == "a.b/c d"
    for key in ("", "a\n", "é" * (KEY_MAX_BYTES // 2 + 1)):
        with pytest.raises(Unprocessable):
            check_key(key)
