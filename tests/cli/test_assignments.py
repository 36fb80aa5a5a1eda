"""What `avm config set` was given, as changes; tests/cli/test_config.py gives it to a server."""

import io

import click
import pytest

from agentvm.cli.assignments import read_assignments


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["limits.steps", "9"], {"limits.steps": 9}),
        (["limits.steps=9", "limits.inbox=3"], {"limits.steps": 9, "limits.inbox": 3}),
        (["llm.model", "gguf?a=b"], {"llm.model": "gguf?a=b"}),
        (["llm.model=a=b"], {"llm.model": "a=b"}),
        (["llm.fallback", "[]"], {"llm.fallback": []}),
        (["llm.fallback", '["local", gw/x]'], {"llm.fallback": ["local", "gw/x"]}),
        (["llm.fallback", "gw, local"], {"llm.fallback": ["gw", "local"]}),
        (
            ["billing.prices.openai/m2", "{input: 1, output: 2.5}"],
            {"billing.prices.openai/m2": {"input": "1", "output": "2.5"}},
        ),
        (
            ["llm.providers.gw", "{driver: openai, timeout: 5}"],
            {"llm.providers.gw.driver": "openai", "llm.providers.gw.timeout": 5},
        ),
        (["llm", "{providers: {gw: {driver: openai}}}"], {"llm.providers.gw.driver": "openai"}),
    ],
)
def test_a_value_a_pair_and_an_object_are_all_understood(words: list[str], changes: dict[str, object]) -> None:
    assert read_assignments(words) == changes


@pytest.mark.parametrize(
    "words",
    [
        ["llm.providers.gw.driver=openai", "llm.providers.gw.apiKey"],
        ["llm.providers.gw.apiKey", "llm.providers.gw.driver=openai"],
        ["llm.providers.gw.driver=openai", "llm.providers.gw.apiKey=-"],
        ["llm.providers.gw", "{driver: openai, apiKey: '-'}"],
    ],
)
def test_a_secret_among_others_comes_from_stdin(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("sk-1\n"))
    assert read_assignments(words) == {"llm.providers.gw.driver": "openai", "llm.providers.gw.apiKey": "sk-1"}


def test_several_secrets_are_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["llm.providers.a.apiKey", "llm.providers.b.apiKey=-"]
    monkeypatch.setattr("sys.stdin", io.StringIO("sk-a\nsk-b\n"))
    assert read_assignments(words) == {"llm.providers.a.apiKey": "sk-a", "llm.providers.b.apiKey": "sk-b"}
    monkeypatch.setattr("sys.stdin", io.StringIO("sk-a\n"))
    with pytest.raises(click.UsageError, match="2 lines"):
        read_assignments(words)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["llm.providers.gw", "{driver: openai, apiKey: sk-planted}"], "Provide it on stdin"),
        (["llm.provider=x", "llm.apiKey=sk-planted"], "Provide it on stdin"),
        (["limits.steps", "5", "6"], "KEY=VALUE"),
        (["limits.steps=5", "limits.steps=6"], "specified twice"),
        (["limits.steps=5", "limits.step=6"], "did you mean limits.steps"),
        (["limits.steps=5", "limits.inbox"], "requires a value"),
        (["llm.providers.gw", "{drivr: openai}"], "did you mean llm.providers.gw.driver"),
        (["llm.providers.gw", "{driver"], "not YAML"),
        (["llm.fallback", "[a"], "a list of texts"),
        (["llm.fallback", "[{a: b}]"], "a list of texts"),
    ],
)
def test_a_slip_is_named_and_no_secret_with_it(words: list[str], word: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        read_assignments(words)
    assert word in str(refused.value)
    assert "sk-planted" not in str(refused.value)
