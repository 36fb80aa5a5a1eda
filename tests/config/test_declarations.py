from dataclasses import fields

from agentvm.config.catalogue import SETTINGS
from agentvm.config.declarations import Root, setting
from agentvm.config.load import VARIABLES
from agentvm.drivers.registry import KEY_VARIABLES
from agentvm.model.limits import Limits


def test_what_is_declared_can_be_read_back() -> None:
    meta = setting("Says what it is for.", "restart", tenant="lower", secret=True, variable="AVM_X")
    assert meta.description == "Says what it is for."
    assert meta.extra is not None
    about = meta.extra["about"]
    assert (about.applies, about.tenant, about.secret, about.variable) == ("restart", "lower", True, "AVM_X")


def test_the_defaults_are_those_of_the_limits() -> None:
    limits = Limits()
    for field in fields(Limits):
        default = getattr(limits, field.name)
        head, *tail = field.name.split("_")
        key = "limits." + head + "".join(part.capitalize() for part in tail)
        if field.name == "turn_cost":
            assert SETTINGS[key].default * 10**9 == default  # type: ignore[operator]
        elif field.name == "max_tokens":
            assert SETTINGS["defaults.maxTokens"].default == default
        elif field.name == "silence_seconds":
            assert SETTINGS["defaults.timeout"].default == default * 1000
        else:
            assert SETTINGS[key].default == default


def test_every_setting_says_what_it_is_for_in_one_sentence() -> None:
    for key, one in SETTINGS.items():
        assert one.doc.endswith("."), key
        assert len(one.doc) < 120, key


def test_what_is_secret_is_never_a_tenants_and_what_is_needed_first_cannot_be_changed() -> None:
    assert all(one.about.tenant == "no" for one in SETTINGS.values() if one.about.secret)
    assert {key for key, one in SETTINGS.items() if one.about.applies == "boot"} == {"system.dataDir", "system.serverKey"}
    assert {key for key, one in SETTINGS.items() if one.about.secret} == {
        "llm.apiKey", "llm.providers.*.apiKey", "system.adminKey", "system.serverKey", "otel.headers",
    }  # fmt: skip


def test_a_variable_has_one_setting() -> None:
    short = [one.about.variable for one in SETTINGS.values() if one.about.variable]
    assert len(set(short)) == len(short)
    assert set(VARIABLES) == {*short, *KEY_VARIABLES.values()}


def test_the_root_can_be_made_of_nothing() -> None:
    assert Root().llm.providers == {}
