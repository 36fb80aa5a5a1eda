"""Rules about tool calls as they are written: each fault names its rule and member."""

from pathlib import Path

import pytest

from agentvm.config.catalogue import InvalidValue, convert, find, plain
from agentvm.config.load import load
from agentvm.config.policy import read_policy
from agentvm.errors import ConfigInvalid
from agentvm.model.policy import RULES_MAX, Policy, PolicyRule


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("allow", "a list of rules"),
        ({"do": "allow"}, "a list of rules"),
        ([{"do": "allow"}, {}], "rule 2: .*`do`"),
        ([{"do": "perhaps"}], "rule 1, do: invalid enum value$"),
        ([{"do": "ask"}] * 2 + [{"do": "ask", "effect": "burn"}], "rule 3, effect"),
        ([{"do": "ask", "colour": 1}], "rule 1: .*`colour`"),
        ([{"do": "ask", "ask": {"audience": "everybody"}}], "rule 1, ask.audience"),
        ([{"do": "ask", "ask": {"expires": "7 days"}}], "rule 1, ask.expires"),
        ([{"do": "deny", "ask": {}}], "rule 1, ask: it has no meaning beside `do: deny`"),
        ([{"do": "deny", "when": {"repo": {"eq": 1}}}], "rule 1, when: 'repo' is not a JSON pointer"),
        ([{"do": "deny", "when": {"/repo": {}}}], "rule 1, when: the condition for '/repo' tests nothing"),
        ([{"do": "allow"}] * (RULES_MAX + 1), f"may have {RULES_MAX}"),
        (["allow"], "rule 1"),
    ],
)
def test_a_faulty_rule_is_refused_by_its_number_and_member(rules: object, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_policy(rules)


def test_rules_are_read_from_text_and_shown_as_they_are_read() -> None:
    setting = find("tools.policy")
    assert setting is not None
    asked = "ask: {audience: admins, notSender: true}"
    written = f'[{{tool: "github__*", when: {{"/repo": {{glob: "acme/*", in: [a, b]}}}}, do: ask, {asked}}}]'
    policy = convert(setting, written, text=True)
    assert isinstance(policy, Policy)
    assert plain(policy) == [
        {
            "do": "ask",
            "tool": "github__*",
            "when": {"/repo": {"glob": "acme/*", "in": ["a", "b"]}},
            "ask": {"audience": "admins", "notSender": True},
        }
    ]
    assert convert(setting, plain(policy)) == policy
    compared = convert(setting, '[{do: deny, when: {"/n": {in: [5, true, null, five]}, "/m": {gt: 7, ne: 1.5}}}]', text=True)
    assert plain(compared) == [{"do": "deny", "when": {"/n": {"in": [5, True, None, "five"]}, "/m": {"gt": 7, "ne": 1.5}}}]
    assert read_policy([{"do": "allow"}]) == Policy(rules=(PolicyRule(do="allow"),))
    with pytest.raises(InvalidValue, match="rule 1"):
        convert(setting, "[{do: nothing}]", text=True)


def test_rules_stand_in_a_file_and_a_fault_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.yaml"
    rules = ("{effect: destructive, do: ask, ask: {audience: admins}}", '{do: deny, when: {"/n": {in: [1]}}}')
    path.write_text("tools:\n  policy:\n" + "".join(f"    - {rule}\n" for rule in rules))
    config = load(path, environ={})
    assert config.tools.policy is not None
    assert [rule.do for rule in config.tools.policy.rules] == ["ask", "deny"]
    path.write_text("tools:\n  policy:\n    - {effect: burn, do: ask}\n")
    with pytest.raises(ConfigInvalid, match="rule 1, effect"):
        load(path, environ={})
