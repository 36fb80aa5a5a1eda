import pytest

from agentvm.errors.resource import ResourceInvalid
from agentvm.resources.front_matter import FrontMatter, read_front_matter


def head(*lines: str) -> str:
    return "\n".join(["---", "name: pdf", "description: Reads PDF.", *lines, "---", "Body"])


def test_every_field_is_a_text_as_it_is_written() -> None:
    text = head(
        "license: MIT",
        "compatibility: Needs python 3.11",
        "metadata: {version: 1.0, on: yes}",
        "allowed-tools: read_file Bash(git add:*), run_python",
    )
    assert read_front_matter(text) == FrontMatter(
        name="pdf",
        description="Reads PDF.",
        license="MIT",
        compatibility="Needs python 3.11",
        metadata={"version": "1.0", "on": "yes"},
        allowed_tools=("read_file", "Bash(git add:*)", "run_python"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "---\r\nname: pdf\r\ndescription: Reads PDF.\r\n---\r\nBody",
        "\ufeff---\nname: pdf\ndescription: Reads PDF.\n---",
        "---\nname: pdf\ndescription: >\n  Reads\n  PDF.\n---\n---\nno: matter\n---\n",
    ],
)
def test_line_ends_marks_and_what_follows_do_not_matter(text: str) -> None:
    assert read_front_matter(text) == FrontMatter(name="pdf", description="Reads PDF.")


def test_a_list_of_tools_may_be_empty() -> None:
    assert read_front_matter(head("allowed-tools: [a, b, a]")).allowed_tools == ("a", "b")
    assert read_front_matter(head("allowed-tools: []")).allowed_tools == ()


@pytest.mark.parametrize("name", ["a--b", "-a", "a-", "Pdf", "a_b", "a.b", "../a", "a" * 65, "", "ä", "a b"])
def test_names_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(ResourceInvalid, match="not the name of a skill"):
        read_front_matter(f"---\nname: {name}\ndescription: x\n---\n")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Body only", "must begin with ---"),
        ("---\nname: pdf\ndescription: x\n", "must begin with ---"),
        ("---\nname: pdf\n---\n", "no description:"),
        ("---\ndescription: x\n---\n", "no name:"),
        ("---\nname: pdf\ndescription:\n---\n", "description: must have 1 to 1024 characters, not 0"),
        (f"---\nname: pdf\ndescription: {'x' * 1025}\n---\n", "not 1025"),
        (f"---\nname: pdf\n#{'x' * 17_000}\n---\n", "more than 16384"),
        ("---\n- a\n---\n", "must be fields"),
        ("---\nname: [\n---\n", "not YAML"),
        ("---\nname: !!python/object/new:os.system [x]\ndescription: x\n---\n", "name: must be a text"),
        ("---\n" + "[" * 8_000 + "\n---\n", "nested more than 8 levels"),
        ("---\na: &a [x]\nb: [*a, *a]\n---\n", "anchors"),
        ('---\nname: "\\UFFFFFFFF"\n---\n', "not YAML"),
        (head(f"compatibility: {'x' * 501}"), "compatibility: must have 1 to 500"),
        (head("model: large"), "no field 'model'"),
        (head("name: other"), "'name' twice"),
        (head("metadata: text"), "metadata: must be names"),
        (head("metadata: {a: [1]}"), "metadata: a must be a text"),
        (head("allowed-tools: {a: b}"), "allowed-tools: must be a text"),
        (head("allowed-tools: Bash(git"), "parenthesis"),
        (head("allowed-tools: ['']"), "not the name of a tool"),
        (head(f"allowed-tools: {' '.join(map(str, range(101)))}"), "more than 100 tools"),
        (head('license: "a\\x07"'), "control characters"),
    ],
)
def test_front_matter_that_cannot_be_is_explained(text: str, fault: str) -> None:
    with pytest.raises(ResourceInvalid) as refused:
        read_front_matter(text)
    assert fault in str(refused.value)
