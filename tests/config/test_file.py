from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.config.values import flat_values, plainly

from agentvm.config.catalogue import Value, plain
from agentvm.config.file import Problem, read_file, read_text, refuse, substitute
from agentvm.config.layers import nest
from agentvm.errors import ConfigInvalid
from agentvm.model.secret import Secret


def written(values: dict[str, Value]) -> str:
    """As a person would write it; `${` of a text is escaped."""

    def escaped(value: object) -> object:
        if isinstance(value, str):
            return value.replace("${", "$${")
        if isinstance(value, list):
            return [escaped(one) for one in value]
        return value

    flat = {key: value.reveal() if isinstance(value, Secret) else plain(value) for key, value in values.items()}
    return yaml.safe_dump(nest({key: escaped(value) for key, value in flat.items()}), allow_unicode=True)


@given(flat_values())
def test_what_was_written_is_read_as_it_was(values: dict[str, Value]) -> None:
    layer, problems = read_text(written(values).encode(), "f", {})
    assert problems == []
    assert {key: plainly(one.value) for key, one in layer.values.items()} == {key: plainly(one) for key, one in values.items()}
    assert all(one.place is not None and one.place.startswith("f:") for one in layer.values.values())


@given(flat_values(), st.data())
def test_a_file_that_was_spoilt_is_refused_with_its_lines_or_read(values: dict[str, Value], data: st.DataObject) -> None:
    text = bytearray(written(values).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    layer, problems = read_text(bytes(text), "f", {})
    for problem in problems:
        name, _, line = problem.place.partition(":")
        assert (name, 1 <= int(line) <= text.count(b"\n") + text.count(b"\r") + 2) == ("f", True)
        assert problem.text
    assert not (problems and layer.values and not isinstance(layer.values, dict))


def problems_of(text: str, **environ: str) -> list[str]:
    return [str(one) for one in read_text(text.encode(), "c.yaml", environ)[1]]


def test_everything_that_is_wrong_is_told_with_line_key_and_remedy() -> None:
    text = """
llm:
  apikey: sk-planted
  model: {a: 1}
system:
  port: eighty
  logLevel: loud
sytem:
  port: 1
limits: 5
"""
    assert problems_of(text) == [
        "c.yaml:3: llm.apikey: there is no such setting; did you mean llm.apiKey?",
        "c.yaml:4: llm.model: it is {'a': '1'}; it must be a text of 1 to 4096 characters",
        "c.yaml:6: system.port: it is 'eighty'; it must be a whole number from 0 to 65535",
        "c.yaml:7: system.logLevel: it is 'loud'; it must be one of: debug, info, warning, error",
        "c.yaml:8: sytem: there is no such setting; did you mean system?",
        "c.yaml:10: limits: it is a group of settings, each on a line of its own below it",
    ]


def test_a_value_that_is_secret_is_in_no_complaint() -> None:
    for text in ("llm: {apiKey: [sk-planted]}", "llm: {baseUrl: [http://sk-planted@x]}", "llm: {apiKey: {sk-planted: 1}}"):
        (problem,) = problems_of(text)
        assert "sk-planted" not in problem


def test_words_mean_what_their_setting_is() -> None:
    text = "system: {auth: on, port: '9000', dataDir: ~, allowOrigins: [a, b]}\nbilling: {allowUnpriced: no}\nllm:\n"
    layer, problems = read_text(text.encode(), "c", {})
    assert problems == []
    assert {key: one.value for key, one in layer.values.items()} == {
        "system.auth": "on",
        "system.port": 9000,
        "system.allowOrigins": ("a", "b"),
        "billing.allowUnpriced": "off",
    }


def test_variables_are_put_in_after_the_file_was_read() -> None:
    environ = {"KEY": "sk-1", "PORT": "9", "EVIL": "x\nsystem: {auth: off}", "EMPTY": ""}
    text = "llm: {apiKey: '${KEY}', model: 'a${MISSING:-b}c$${KEY}'}\nsystem: {port: '${PORT}', host: '${EMPTY:-h}'}\n"
    layer, problems = read_text(text.encode(), "c", environ)
    assert problems == []
    assert plainly(layer.values["llm.apiKey"].value) == ("secret", "sk-1")
    assert layer.values["llm.model"].value == "abc${KEY}"
    assert (layer.values["system.port"].value, layer.values["system.host"].value) == (9, "h")
    (evil,) = problems_of("llm: {model: '${EVIL}'}", **environ)
    assert "one line" in evil


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("llm:\n  apiKey: ${LLM_API_KEY}", "c.yaml:2: llm.apiKey: the environment variable LLM_API_KEY is not set"),
        ("llm: {model: '${EMPTY}'}", "EMPTY is not set"),
        ("llm: {model: '${}'}", "name of a variable"),
        ("llm: {model: '${1A}'}", "name of a variable"),
        ("llm: {apiKey: '${NOPE:-${OTHER}}'}", "without a further ${"),
        ("system: {allowOrigins: ['${NOPE}']}", "NOPE is not set"),
        ("billing: {prices: {openai/x: {input: '${NOPE}', output: 1}}}", "NOPE is not set"),
    ],
)
def test_a_variable_that_is_not_there_is_named(text: str, word: str) -> None:
    (problem,) = problems_of(text, EMPTY="")
    assert word in problem


@given(st.text(), st.dictionaries(st.sampled_from(["A", "B"]), st.text()))
def test_text_without_references_stays_as_it_is(text: str, environ: dict[str, str]) -> None:
    assert substitute(text.replace("${", "$${"), environ) == text


def test_a_variable_that_may_be_missing_with_nothing_instead_says_nothing() -> None:
    layer, problems = read_text(b"llm: {apiKey: '${NOPE:-}', model: '${NOPE:-}m'}", "c", {})
    assert (problems, set(layer.values)) == ([], {"llm.model"})
    assert problems_of("llm: {model: ''}") != []


def test_a_setting_that_is_said_as_a_tree_and_with_dots_is_said_twice() -> None:
    (problem,) = problems_of("llm.model: x\nllm:\n  model: y\n")
    assert problem == "c.yaml:3: llm.model: it is set twice, first at c.yaml:1"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    _, problems = read_file(tmp_path / "gone.yaml", {})
    assert "gone.yaml: cannot be read: No such file" in str(problems[0])
    assert read_file(tmp_path, {})[1] != []


def test_one_problem_is_a_line_and_several_are_a_list() -> None:
    refuse([])
    one = Problem("f:1", "a.b", "wrong")
    with pytest.raises(ConfigInvalid, match=r"^f:1: a\.b: wrong$"):
        refuse([one])
    with pytest.raises(ConfigInvalid) as refused:
        refuse([one, Problem("f:2", "", "worse")])
    assert str(refused.value) == "2 settings cannot be used:\n  f:1: a.b: wrong\n  f:2: worse"
