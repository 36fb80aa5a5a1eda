from typing import Any

import pytest
from hypothesis import given
from tests.config.values import flat_values, plainly

from agentvm.config import edits
from agentvm.config.catalogue import Value, plain
from agentvm.config.edits import EDIT_KEYS_MAX, PROBLEMS_MAX, check_server, check_tenant, own_keys, read_edit
from agentvm.config.layers import merge, nest
from agentvm.errors import AccessDenied, InvalidInput
from agentvm.model.secret import Secret


@given(flat_values())
def test_a_tree_and_dotted_keys_say_the_same(values: dict[str, Value]) -> None:
    flat = {key: value.reveal() if isinstance(value, Secret) else plain(value) for key, value in values.items()}
    dotted, tree = read_edit(flat, ()), read_edit(nest(flat), ())
    wanted = {key: plainly(value) for key, value in values.items()}
    for found in (dotted, tree):
        assert {key: None if value is None else plainly(value) for key, value in found.items()} == wanted


def test_nothing_takes_back_one_or_all_below() -> None:
    known = ["limits.steps", "limits.inbox", "llm.providers.a.model", "system.port"]
    assert read_edit({"limits": None, "llm.providers.a": None}, known) == dict.fromkeys(
        ["limits.steps", "limits.inbox", "llm.providers.a.model"]
    )
    assert read_edit({"system.port": None}, ()) == {"system.port": None}


def test_all_that_is_wrong_is_told_without_what_is_secret() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_edit({"llm": {"apiKey": ["sk-planted"], "modle": 1}, "limits": [], "system.port": "x"}, ())
    assert len(str(refused.value).split("; it must")) >= 2
    problems = refused.value.details["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 4
    assert "sk-planted" not in str(refused.value)


def test_a_change_has_a_bound() -> None:
    rate = {"input": 1, "output": 1}
    with pytest.raises(InvalidInput, match="at most"):
        read_edit({f"billing.prices.m{number}": rate for number in range(EDIT_KEYS_MAX + 1)}, ())


@pytest.mark.parametrize(("keys", "looked_for"), [(EDIT_KEYS_MAX, PROBLEMS_MAX), (EDIT_KEYS_MAX + 1, 0)])
def test_the_nearest_settings_of_a_few_unknown_ones_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, keys: int, looked_for: int
) -> None:
    asked = list[str]()

    def unknown(key: str) -> str:
        asked.append(key)
        return "there is no such setting"

    monkeypatch.setattr(edits, "unknown", unknown)
    with pytest.raises(InvalidInput):
        read_edit({f"nope{number}": 1 for number in range(keys)}, ())
    assert len(asked) == looked_for


def test_a_tree_is_read_no_further_than_the_bound() -> None:
    class Endless(dict[str, object]):
        read = 0

        def items(self) -> Any:
            for number in range(EDIT_KEYS_MAX * 10):
                self.read = number + 1
                yield f"nope{number}", 1

    tree = Endless()
    with pytest.raises(InvalidInput, match="at most"):
        read_edit(tree, ())
    assert tree.read == EDIT_KEYS_MAX + 1


def test_what_is_needed_first_cannot_be_changed() -> None:
    check_server({"system.port": 1})
    with pytest.raises(InvalidInput, match="the file, a variable or a flag"):
        check_server({"system.dataDir": "x"})
    with pytest.raises(InvalidInput, match="no such setting"):
        check_server({"nope": "x"})


def test_a_tenant_may_lower_what_protects_the_server() -> None:
    system = merge(())
    check_tenant({"limits.steps": 25, "limits.repeats": None, "defaults.maxTokens": 10**6, "llm.model": "x"}, system)
    with pytest.raises(InvalidInput, match="allows 25"):
        check_tenant({"limits.steps": 26}, system)
    with pytest.raises(AccessDenied, match="can be set by the operator only"):
        check_tenant({"llm.apiKey": Secret("k")}, system)
    assert set(own_keys()) == {
        "llm.provider", "llm.model", "defaults.timeout", "defaults.maxTokens", "limits.steps", "limits.turnTokens",
        "limits.turnCost", "limits.repeats", "limits.turnSeconds", "limits.toolOutput", "limits.toolCalls",
        "limits.toolParallel", "limits.toolSeconds", "limits.attachmentBytes",
        "limits.agentCalls", "limits.agentDepth", "limits.agentParallel",
        "limits.importBytes", "limits.sessionFiles", "limits.sessionFilesBytes", "limits.attachmentsPerMessage",
        "limits.fileVersions",
        "limits.messageBytes", "limits.inlineBytes", "sessions.titles",
        "compaction.by", "compaction.share", "compaction.keep", "compaction.maxTokens", "compaction.model", "memory.by",
        "retention.sessionDays", "retention.archivedDays", "retention.rewoundDays", "retention.messageDays",
        "retention.statelessDays",
        "tools.tiers.allow", "tools.tiers.walls", "tools.policy", "tools.answerByText",
    }  # fmt: skip
