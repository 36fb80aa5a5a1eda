from decimal import Decimal

import pytest

from agentvm.config.build import conflicts
from agentvm.config.catalogue import Value
from agentvm.config.layers import Layer, LayerName, SettingValue, merge
from agentvm.model.secret import Secret


def told(values: dict[str, Value], layer: LayerName = "file") -> list[str]:
    given = {key: SettingValue(value, f"f:{line}") for line, (key, value) in enumerate(values.items(), 1)}
    return [str(one) for one in conflicts(merge([Layer(layer, given)]))]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"system.auth": "off", "system.host": "0.0.0.0"}, "f:1: system.auth: off is only for"),
        ({"system.oidc.audience": "us"}, "f:1: system.oidc.audience: "),
        ({"system.allowOrigins": ("*", "foo")}, "f:1: system.allowOrigins: 'foo' is not an origin"),
        ({"system.database": Secret("mysql://a/b")}, "f:1: system.database: it must be like postgresql://"),
        ({"system.database": Secret("postgresql://u:p@ss@h/b")}, "f:1: system.database: in a password write @ as %40"),
        ({"cluster.nats": Secret("nats://a:4222")}, "f:1: cluster.nats: it is between the nodes of a cluster"),
        (
            {
                "cluster.nats": Secret("http://a:4222"),
                "cluster.enabled": "on",
                "system.database": Secret("postgresql://h/b"),
                "system.serverKey": Secret("ab" * 32),
            },
            "f:1: cluster.nats: it is not a NATS URL",
        ),
        ({"llm.provider": "nosuch"}, "f:1: llm.provider: it is 'nosuch'; known providers: anthropic"),
        ({"llm.model": "nosuch/x"}, "f:1: llm.model: it is 'nosuch/x', and 'nosuch' is not a provider"),
        ({"llm.fallback": ("nosuch/x",)}, "f:1: llm.fallback: it names 'nosuch'"),
        ({"llm.providers.gw.model": "m"}, "f:1: llm.providers.gw: it has no driver"),
        ({"llm.providers.gw.driver": "opnai"}, "f:1: llm.providers.gw.driver: it is 'opnai'"),
        ({"llm.providers.openai.driver": "anthropic"}, "f:1: llm.providers.openai.driver: the provider is named after another"),
        ({"billing.tiers.docker": Decimal("1")}, "f:1: billing.tiers.docker: there is no such tier; there are inline"),
        ({"tools.network.allow": ("10.0.0.0/8", "inner")}, "f:1: tools.network.allow: 'inner' is neither a network"),
        ({"tools.search.url": "https://a.example"}, "tools.search.engine: it is missing"),
        ({"tools.search.engine": "brave"}, "tools.search.apiKey: brave needs a key"),
        ({"tools.search.engine": "searxng"}, "tools.search.url: searxng needs its address"),
        ({"tools.embedder.model": "m"}, "tools.embedder.url: it is missing"),
        ({"tools.embedder.url": "http://localhost:11434/v1"}, "tools.embedder.model: it is missing"),
        ({"tools.mcpServers.files.argv": ("node",)}, "f:1: tools.mcpServers.files.argv: it must begin with the whole path"),
    ],
)
def test_a_fault_names_its_setting_and_its_place(values: dict[str, Value], said: str) -> None:
    (fault,) = told(values)
    assert fault.startswith(said)


def test_one_fault_hides_no_other() -> None:
    faults = told({"llm.providers.gw.driver": "opnai", "llm.fallback": ("gw", "other"), "llm.provider": "nosuch"})
    assert [fault.partition(": ")[0] for fault in faults] == ["f:1", "f:3", "f:2"]


def test_what_is_changed_at_run_time_has_no_line() -> None:
    (fault,) = told({"llm.provider": "nosuch"}, "override")
    assert fault.startswith("llm.provider: it is 'nosuch'")


@pytest.mark.parametrize(
    "url", ["https://worker.example", "http://127.0.0.1:8080", "http://[::1]:80", "http://10.1.2.3", "http://localhost"]
)
def test_another_server_is_asked_over_tls_or_on_a_private_address(url: str) -> None:
    assert told({"tools.remote.url": url, "tools.remote.key": Secret("k")}) == []


@pytest.mark.parametrize(
    "url", ["http://worker.example", "http://8.8.8.8", "ftp://a", "https://user@host", "worker", "http://[x"]
)
def test_a_key_is_never_sent_unprotected(url: str) -> None:
    (fault,) = told({"tools.remote.url": url})
    assert "tools.remote.url" in fault
