from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from agentvm.config.document import (
    DOCUMENT_BYTES_MAX,
    DocumentError,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    parse,
    parse_value,
    read_bytes,
)

SCALARS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029\ufeff"), max_size=8
)
TREES = st.dictionaries(
    SCALARS,
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3), max_leaves=8
    ),
    max_size=4,
)


def plain(node: Node) -> object:
    match node:
        case ScalarNode(text=text):
            return text
        case SequenceNode(items=items):
            return [plain(item) for item in items]
        case MappingNode(members=members):
            return {name: plain(child) for name, _, child in members}


@given(TREES, st.booleans())
def test_a_tree_that_is_written_is_read_as_it_was(tree: dict[str, object], flow: bool) -> None:
    written = yaml.safe_dump(tree, allow_unicode=True, default_flow_style=flow, default_style='"')
    assert plain(parse(written.encode())) == tree


@given(st.binary(max_size=200))
@example(b'a: "\\UFFFFFFFF"')
@example(b"a: \x00")
@example(b"\xff\xfe")
@example(b"[" * 5000)
@example(b"? [a]\n: b")
@example(b"a: &x 1\nb: *x")
@example(b"--- 1\n--- 2")
@example(b"%YAML 9.9\n---\na: 1")
@example(b"\t\ta: 1")
def test_whatever_a_file_holds_it_is_read_or_refused_with_a_line(content: bytes) -> None:
    refused = None
    try:
        assert isinstance(parse(content), MappingNode)
    except DocumentError as error:
        refused = error
    assert refused is None or 1 <= refused.line <= content.count(b"\n") + content.count(b"\r") + 2
    assert refused is None or refused.text


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\nb: 2\na: 3", 3, "twice"),
        ("a: 1\nb: &x 2", 2, "anchors"),
        ("a: 1\nb: *x", 2, "anchors"),
        ("a: !!python/name:os.system x", 1, "tags"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("1: a\n? [x]\n: y", 2, "text"),
        ("a: 1\n~: b", 2, "text"),
        ("- a", 1, "begins with a name"),
        ("just text", 1, "begins with a name"),
        ("a: 1\n b: 2", 2, "not YAML"),
        ("a: 'x", 1, "not YAML"),
        ("a: {" * 20, 1, "deeper"),
        ('a: 1\nb: "\\UFFFFFFFF"', 1, "escape"),
    ],
)
def test_what_a_configuration_does_not_need_is_refused(text: str, line: int, word: str) -> None:
    with pytest.raises(DocumentError) as refused:
        parse(text.encode())
    assert word in refused.value.text
    assert refused.value.line == line


def test_scalars_are_their_texts_and_null_is_nothing() -> None:
    tree = parse(b"a: on\nb: 0x10\nc: 1_000\nd: null\ne: ~\nf:\ng: 'null'\nh: \"\"\ni: |\n  x\n")
    assert plain(tree) == {
        "a": "on",
        "b": "0x10",
        "c": "1_000",
        "d": None,
        "e": None,
        "f": None,
        "g": "null",
        "h": "",
        "i": "x\n",
    }
    assert [line for _, line, _ in tree.members] == list(range(1, 10))
    for nothing in (b"", b"# only a comment\n", b"---\n", b"null"):
        assert plain(parse(nothing)) == {}


def test_a_file_that_is_too_large_is_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * (DOCUMENT_BYTES_MAX * 2))
    with pytest.raises(DocumentError, match="too many"):
        parse(read_bytes(path))
    parse(b"#" * DOCUMENT_BYTES_MAX)


@pytest.mark.parametrize("content", ["llm:\n\tmodel: x\n", "llm:\n  model: x\n\tprovider: y\n"])
def test_a_tab_is_told_as_one(content: str) -> None:
    with pytest.raises(DocumentError) as refused:
        parse(content.encode())
    assert (refused.value.line, refused.value.text) == (content.count("\n"), "there is a tab; indent with spaces")


def test_a_list_and_an_object_may_stand_alone() -> None:
    assert parse_value('["a", b]') == ["a", "b"]
    assert parse_value("{a: {b: 1}, c: }") == {"a": {"b": "1"}, "c": None}
    assert parse_value("") is None
    for broken in ("[a", "{a: 1", "[a] b", "\ud800"):
        with pytest.raises(DocumentError):
            parse_value(broken)
