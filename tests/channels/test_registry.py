from importlib.metadata import EntryPoint

import pytest

from agentvm.channels import registry
from agentvm.channels.telegram import Telegram
from agentvm.errors import InvalidInput


def test_kinds_have_fields_for_a_form_and_settings_are_checked() -> None:
    kind = registry.describe(Telegram)
    assert [(field.name, field.is_secret, field.required) for field in kind.fields] == [
        ("token", True, True),
        ("address", False, False),
        ("webhookSecret", True, False),
    ]
    checked = registry.check_settings("telegram", {"token": "t"})
    assert checked == {"token": "t", "address": "https://api.telegram.org"}
    for kind_name, settings, text in (
        ("telegran", {}, "did you mean telegram"),
        ("telegram", {}, "token"),
        ("telegram", {"token": "t", "adress": "x"}, "did you mean address"),
        ("telegram", {"token": ""}, "length"),
    ):
        with pytest.raises(InvalidInput, match=text):
            registry.check_settings(kind_name, settings)


def test_a_plug_in_is_found_and_a_broken_one_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("mine", "tests.channels.test_registry:Mine", registry.GROUP),
        EntryPoint("broken", "tests.channels.nowhere:Gone", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry.adapters.cache_clear()
    try:
        assert registry.find_adapter("mine") is Mine
        assert "broken" not in registry.adapters()
    finally:
        registry.adapters.cache_clear()


class Mine(Telegram):
    name = "mine"
