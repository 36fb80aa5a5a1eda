import json

import jsonschema_rs
import yaml
from hypothesis import given
from tests.config.test_file import written
from tests.config.values import flat_values

from agentvm.config.catalogue import SETTINGS, Value
from agentvm.config.file import read_text
from agentvm.config.schema import config_schema


@given(flat_values())
def test_what_may_be_written_is_valid(values: dict[str, Value]) -> None:
    tree = yaml.safe_load(written(values)) or {}
    assert [error.message for error in jsonschema_rs.iter_errors(config_schema(), tree)] == []


def test_slips_references_and_words_are_told_apart() -> None:
    schema = config_schema()
    good = {"system": {"port": "${PORT}", "auth": True}, "llm": {"providers": {"b": {"driver": "openai"}}}}
    assert jsonschema_rs.is_valid(schema, good)
    wrong: list[dict[str, object]] = [
        {"sytem": {}},
        {"system": {"port": 70000}},
        {"llm": {"providers": {"b": {"key": "x"}}}},
        {"limits": {"steps": 0}},
        {"limits": {"turnCost": "9abc"}},
        {"limits": {"turnCost": 10**12}},
        {"limits": {"steps": "${"}},
        {"llm": {"fallback": [""]}},
        {"llm": {"providers": {"Big": {"driver": "openai"}}}},
        {"billing": {"prices": {"two words": {"input": 1, "output": 1}}}},
    ]
    for bad in wrong:
        assert not jsonschema_rs.is_valid(schema, bad)
        # As those who read the file.
        assert read_text(json.dumps(bad).encode(), "f", {})[1]


def test_every_setting_is_in_it_with_its_sentence() -> None:
    text = str(config_schema())
    for setting in SETTINGS.values():
        assert repr(setting.doc) in text or setting.doc in text
