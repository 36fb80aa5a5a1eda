import pytest
from tests.config.fakes import layer

from agentvm.config.catalogue import SETTINGS
from agentvm.config.edits import own_keys
from agentvm.config.layers import Layer, ResolvedValue, SettingValue, merge, overlay
from agentvm.config.view import concerns_tenants, keys_of, tree, variable, view_setting, views
from agentvm.model.secret import Secret

FILE = layer(llm__apiKey=Secret("sk-planted"), limits__steps=5, llm__providers__backup__driver="openai")


def test_a_setting_tells_all_that_is_known_of_it() -> None:
    values = merge([FILE])
    view = view_setting("limits.steps", values["limits.steps"], [values["limits.steps"]], {}, of_tenant=False, pending=True)
    assert (view.value, view.layer, view.place, view.default) == (5, "file", "f:2", 25)
    assert (view.type, view.variable, view.restart_pending) == ("a whole number from 1 to 1000000", "AVM_LIMITS__STEPS", True)
    assert view.doc == SETTINGS["limits.steps"].doc
    unset = view_setting("llm.model", None, [], {}, of_tenant=False)
    assert (unset.value, unset.layer, unset.variable) == (None, None, "LLM_MODEL")
    with pytest.raises(KeyError):
        view_setting("nope", None, [], {}, of_tenant=False)


def test_a_secret_is_masked_and_a_tenant_learns_nothing_of_the_server() -> None:
    values = merge([FILE])
    assert "sk-planted" not in repr(views(values, lambda key: [], of_tenant=False)) + repr(tree(values, values))
    own = Layer("tenant", {"limits.steps": SettingValue(3, "change 1", "alice", 9)})
    sources = [
        ResolvedValue("default", SettingValue(25)),
        values["limits.steps"],
        ResolvedValue("tenant", own.values["limits.steps"]),
    ]
    view = view_setting("limits.steps", overlay(values, own)["limits.steps"], sources, {}, of_tenant=True)
    assert [(one.layer, one.value, one.place) for one in view.layers] == [("server", 5, None), ("tenant", 3, "change 1")]
    assert (view.actor, view.variable) == ("alice", None)
    assert keys_of(values, of_tenant=True) == list(own_keys())
    assert (concerns_tenants("llm.model"), concerns_tenants("system.host"), concerns_tenants("x")) == (True, False, False)


def test_names_of_the_operators_own_stand_where_they_were_declared() -> None:
    keys = keys_of(merge([FILE]), of_tenant=False)
    assert keys.index("llm.modelDir") < keys.index("llm.providers.backup.driver") < keys.index("llm.fallback")
    assert variable("llm.providers.anthropic.apiKey") == "ANTHROPIC_API_KEY"
    assert variable("billing.prices.openai/x") is None
