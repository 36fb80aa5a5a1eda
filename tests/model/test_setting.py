import dataclasses
from typing import Annotated

from agentvm.model.secret import Secret
from agentvm.model.setting import Group, Text, camel, declared_settings, flatten, setting
from agentvm.model.settings import LlmSettings, ProviderSettings, Settings


def test_one_line_declares_a_setting() -> None:
    """Key, variable, flag, default, documentation and validation of a new setting come from the one field."""
    doc = setting("The color of the logo.", "restart", tenant="any", variable="AVM_COLOR", flag="--color")
    brand = dataclasses.make_dataclass("Brand", [("logo_color", Annotated[Text, doc], "red")], bases=(Group,), frozen=True)
    (color,) = declared_settings(brand, "brand.")
    assert (color.key, color.default, color.doc, color.kind) == ("brand.logoColor", "red", "The color of the logo.", str)
    assert (color.declaration.applies, color.declaration.tenant) == ("restart", "any")
    assert (color.declaration.variable, color.declaration.flag) == ("AVM_COLOR", "--color")
    assert dict(flatten(brand(), "brand.")) == {"brand.logoColor": "red"}


def test_values_are_flattened_under_their_keys() -> None:
    settings = Settings(llm=LlmSettings(providers={"gw": ProviderSettings(api_key=Secret("k"), timeout=5)}))
    values = dict(flatten(settings))
    assert (values["llm.providers.gw.timeout"], values["limits.steps"]) == (5, 25)
    assert "llm.model" not in values
    assert {key for key in values if "*" not in key} == set(values)


def test_the_kind_of_a_setting_is_its_bare_type() -> None:
    kinds = {declared.key: declared for declared in declared_settings(Settings)}
    assert (kinds["llm.apiKey"].kind, kinds["llm.apiKey"].is_secret) == (Secret, True)
    assert (kinds["llm.fallback"].is_list, kinds["llm.model"].kind) == (True, str)
    assert kinds["system.auth"].options == ("on", "off", "auto")
    assert (kinds["llm.providers.*.timeout"].bounds, kinds["system.port"].bounds) == ((1, 86_400_000), (0, 65_535))


def test_a_repr_has_neither_addresses_nor_secrets_nor_what_is_not_set() -> None:
    provider = ProviderSettings(base_url="http://me:planted@host", api_key=Secret("planted"), model="m")
    assert repr(provider) == "ProviderSettings(model='m', api_key=Secret('***'))"


def test_names_are_camel_case_in_files() -> None:
    assert (camel("steps"), camel("attachments_per_message")) == ("steps", "attachmentsPerMessage")
