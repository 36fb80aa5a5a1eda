import pytest

from agentvm.errors.resource import ResourceInvalid
from agentvm.model.resource import ResourceType
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS

SENTENCES: tuple[tuple[ResourceType, object, str], ...] = (
    ("prompts", {"text": 1}, "text: expected a string, got a whole number"),
    ("prompts", {}, "text is missing"),
    ("prompts", [], "it: expected an object, got an array"),
    ("prompts", {"txt": "hello"}, "there is no member txt; did you mean text?"),
    ("prompts", {"text": "", "zzz": 1}, "there is no member zzz; there are format, text, variables"),
    ("prompts", {"text": "", "format": "mustache"}, "format must be one of mustache-lite, plain, not 'mustache'"),
    ("tools", {"inputschema": {}}, "there is no member inputschema; did you mean inputSchema?"),
    ("sandboxes", {"runtime": "python", "limits": {"timeout": 1}}, "no member limits.timeout; did you mean timeoutMs?"),
    ("sandboxes", {"runtime": "python", "limits": {"processes": 0}}, "limits.processes: expected a whole number >= 1"),
    ("sandboxes", {"runtime": "python", "files": {"a": {"dta": ""}}}, "no member files.*.dta; did you mean data?"),
    ("sandboxes", {"runtime": "python", "files": {"a": {"data": "?"}}}, "files.*.data: invalid base64"),
    ("knowledge", {"documents": [{"id": "a", "text": ""}, {"titel": "b"}]}, "no member documents.1.titel; did you mean title?"),
    ("knowledge", {"documents": [{"text": ""}]}, "documents.0.id is missing"),
    ("agents", {"temperature": "hot"}, "temperature: expected a number or null, got a string"),
)


@pytest.mark.parametrize(("type_", "content", "sentence"), SENTENCES)
def test_what_does_not_fit_is_said_in_words_of_the_wire(type_: ResourceType, content: object, sentence: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(KINDS[type_], content)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"The content of {type_} does not fit: ")


def test_a_name_of_any_length_has_a_short_answer() -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(KINDS["prompts"], {"t" * 100_000: 1})
    assert len(str(caught.value)) < 500
