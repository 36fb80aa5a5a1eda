import pytest
from msgspec import UNSET, json

from agentvm.model.policy import EXPIRES_MAX_SECONDS, Approval, PolicyRule, check_rule, resolve_pointer


def rule(text: str) -> PolicyRule:
    return json.decode(text, type=PolicyRule)


def test_a_rule_is_read_as_the_documentation_writes_it() -> None:
    read = rule('{"tool": "github__*", "when": {"/repo": {"glob": "acme/*", "in": ["a"]}}, "do": "allow"}')
    assert read.when is not None
    assert (read.tool, read.do, read.when["/repo"].glob, read.when["/repo"].in_) == ("github__*", "allow", "acme/*", ("a",))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"do": "allow", "ask": {}}', "ask: it has no meaning beside `do: allow`"),
        (
            '{"do": "deny", "tier": "container"}',
            "tier: a call is decided about before its tier is chosen, so no call would match; rule with tools.tiers instead",
        ),
        ('{"do": "ask", "when": {"repo": {"eq": 1}}}', "when: 'repo' is not a JSON pointer, such as /repo"),
        ('{"do": "ask", "when": {"/a~2": {"eq": 1}}}', "when: '/a~2' is not a JSON pointer, such as /repo"),
        ('{"do": "ask", "when": {"/repo": {}}}', "when: the condition for '/repo' tests nothing"),
        ('{"do": "ask", "when": {"/repo": {"eq": null}}, "ask": {"audience": "admins"}}', None),
    ],
)
def test_a_rule_that_means_nothing_is_told_to_its_author(text: str, fault: str | None) -> None:
    assert check_rule(rule(text)) == fault


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("2h", 7_200), ("7d", 604_800), ("999999d", EXPIRES_MAX_SECONDS)]
)
def test_a_wait_lasts_as_long_as_it_says_and_a_year_at_most(text: str, seconds: int) -> None:
    assert Approval(expires=text).expires_seconds == seconds


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", {"a/b": [1, {"~": 2}]}),
        ("/a~1b/0", 1),
        ("/a~1b/1/~0", 2),
        ("/a~1b/2", UNSET),
        ("/a~1b/-1", UNSET),
        ("/c", UNSET),
        ("/a~1b/0/x", UNSET),
    ],
)
def test_a_pointer_finds_its_value_or_nothing(pointer: str, value: object) -> None:
    assert resolve_pointer({"a/b": [1, {"~": 2}]}, pointer) == value
