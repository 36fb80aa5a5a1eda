from agentvm.config.catalogue import SETTINGS
from agentvm.config.load import VARIABLES
from agentvm.drivers.registry import KEY_VARIABLES

DERIVED = {"llm.provider", "llm.model", "llm.modelDir"}


def test_every_setting_is_documented_in_one_sentence() -> None:
    for key, declared in SETTINGS.items():
        assert declared.doc.endswith("."), key
        assert len(declared.doc) < 120, key


def test_a_setting_without_a_default_says_what_that_means_or_is_derived() -> None:
    for key, declared in SETTINGS.items():
        assert (declared.declaration.unset is not None) == (declared.default is None and key not in DERIVED), key


def test_a_secret_is_never_a_tenants_and_the_data_directory_cannot_be_changed() -> None:
    assert all(declared.declaration.tenant == "no" for declared in SETTINGS.values() if declared.is_secret)
    boot = {key for key, one in SETTINGS.items() if one.declaration.applies == "boot"}
    cluster = {"cluster.enabled", "cluster.name", "cluster.leaseSeconds", "cluster.nats"}
    assert boot == {"system.dataDir", "system.database", "system.serverKey", *cluster}
    assert {key for key, declared in SETTINGS.items() if declared.is_secret} == {
        "llm.apiKey", "llm.providers.*.apiKey", "system.adminKey", "system.database", "system.serverKey", "otel.headers",
        "tools.remote.key", "cluster.nats", "tools.search.apiKey", "tools.embedder.apiKey",
    }  # fmt: skip


def test_a_variable_and_a_flag_have_one_setting() -> None:
    variables = [declared.declaration.variable for declared in SETTINGS.values() if declared.declaration.variable]
    flags = [declared for declared in SETTINGS.values() if declared.declaration.flag]
    assert len(set(variables)) == len(variables)
    assert set(VARIABLES) == {*variables, *KEY_VARIABLES.values()}
    assert len({declared.declaration.flag for declared in flags}) == len({declared.name for declared in flags}) == len(flags)
