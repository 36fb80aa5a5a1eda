import string
from collections.abc import Iterable

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings
from tests.support.examples import examples

from agentvm.errors import InvalidInput
from agentvm.errors.resource import ResourceUriInvalid
from agentvm.model.resource import (
    TYPES,
    URI_MAX,
    ResourceId,
    ResourceUri,
    ResourceVersion,
    VersionId,
    canonical,
    check_name,
    check_tag,
    digest_of,
    is_digest,
    is_reference,
    latest_of,
    parse_type,
    parse_uri,
    select,
    version_digest,
)
from agentvm.model.semver import parse_range, parse_version

OWNERS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True).filter(lambda name: ".." not in name)
NUMBERS = st.integers(0, 12)
VERSIONS = st.builds(
    lambda numbers, pre, build: ".".join(map(str, numbers)) + pre + build,
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
    st.sampled_from(("", "", "-rc.1", "-a", "-Beta.2")),
    st.sampled_from(("", "+b1")),
)
RANGES = st.sampled_from(("^1.2.0", "~1.2", "1.x", "1", "1.2", "*", ">=1.2.3 <2", "<=3", "^1.0.0-a"))
TAGS = st.sampled_from(("latest", "stable", "beta", "x1", "v-2"))
DIGESTS = st.binary(max_size=4).map(digest_of)
SELECTORS = st.one_of(VERSIONS, RANGES, TAGS, DIGESTS)
FRAGMENTS = st.text(string.ascii_letters + string.digits + "/@:.é", min_size=1, max_size=9)
URIS = st.builds(
    ResourceUri,
    type=st.sampled_from(TYPES),
    name=NAMES,
    owner=st.none() | OWNERS,
    selector=st.none() | SELECTORS,
    fragment=st.none() | FRAGMENTS,
)


@given(uri=URIS)
def test_a_uri_is_read_as_it_is_written(uri: ResourceUri) -> None:
    assert parse_uri(str(uri)) == uri
    assert str(parse_uri(str(uri))) == str(uri)


@given(uri=URIS, singular=st.booleans())
def test_large_letters_and_singular_types_mean_the_same(uri: ResourceUri, singular: bool) -> None:
    head, _, _ = str(uri).partition("@")
    text = head.partition("#")[0].upper()
    if singular and uri.type != "knowledge":
        text = text.replace(uri.type.upper(), uri.type.upper().removesuffix("ES" if uri.type == "sandboxes" else "S"), 1)
    assert str(parse_uri(text)) == head.partition("#")[0]


@settings(max_examples=examples(50, 500))
@given(text=st.one_of(st.text(), st.text("resource:/promts@#.-^~><= 019ax\x00é"), st.text().map("resource://prompts/".__add__)))
@example("resource://prompts/a@")
@example("resource://prompts/a#")
@example("resource://prompts/ı")
@example("RESOURCE://PROMPTS/İ")
@example("resource://prompts/a@1.2.3-\ud800")
@example("resource://prompts/a@" + "9" * 400)
def test_any_text_is_a_uri_or_refused_as_one(text: str) -> None:
    try:
        uri = parse_uri(text)
    except ResourceUriInvalid:
        return
    assert parse_uri(str(uri)) == uri
    assert str(uri).startswith("resource://")


@pytest.mark.parametrize(
    "text",
    [
        "", "prompts/a", "https://prompts/a", "resource:/prompts/a", "resource://", "resource://prompts", "resource://prompts/",
        "resource://prompts//a", "resource://prompts/o/", "resource://prompts/o/p/q", "resource://models/a",
        "resource://prompts/a b",
        "resource://prompts/a..b", "resource://prompts/.a", "resource://prompts/a-", "resource://prompts/-/a", "resource://prompts/a%20b",
        "resource://prompts/a@", "resource://prompts/a@1 || 2", "resource://prompts/a@sha256:12", "resource://prompts/a#",
        "resource://prompts/a#b#c", "resource://prompts/a#b c", "resource://prompts/a\n", "resource://prompts/ä",
        "resource://prompts/" + "a" * 129, "resource://prompts/" + "a" * 64 + "/b", "resource://prompts/a#" + "b" * URI_MAX,
    ],
)  # fmt: skip
def test_what_is_no_uri_is_refused(text: str) -> None:
    with pytest.raises(ResourceUriInvalid):
        parse_uri(text)


def test_whatever_begins_like_a_reference_is_one() -> None:
    assert [is_reference(text) for text in ("resource://", "RESOURCE://x", "resource:x", "", 7, None)] == [True, True] + [
        False
    ] * 4


def test_only_a_version_or_a_digest_names_one_version_for_ever() -> None:
    exact = {"1.2.3": True, "1.2.3-rc": True, digest_of(b""): True, "^1": False, "1.2": False, "latest": False, None: False}
    for selector, is_exact in exact.items():
        assert ResourceUri(type="prompts", name="a", selector=selector).is_exact is is_exact


@pytest.mark.parametrize("tag", ["latest", "", "x", "1", "Stable", "a" * 33, "a.b", "-a"])
def test_what_cannot_be_a_tag_is_refused(tag: str) -> None:
    with pytest.raises(InvalidInput, match="tag"):
        check_tag(tag)


@pytest.mark.parametrize("name", ["", "A", "a..b", ".a", "a_", "a/b", "a b", "a" * 129])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        check_name(name)


def test_names_tags_and_types_that_are_good_are_taken() -> None:
    assert (check_name("sales-v2.1_x"), check_tag("stable"), check_name("a" * 128)) == ("sales-v2.1_x", "stable", "a" * 128)
    assert [parse_type(text) for text in ("Prompt", "SANDBOXES", "knowledge")] == ["prompts", "sandboxes", "knowledge"]
    with pytest.raises(InvalidInput, match="prompts, tools"):
        parse_type("model")


def test_a_digest_is_of_the_meaning_and_not_of_the_packing() -> None:
    one = version_digest("prompts", {"a": 1, "b": [2]}, {"x": {}}, {"p": "u", "q": "v"})
    assert one == version_digest("prompts", {"b": [2], "a": 1}, {"x": {}}, {"q": "v", "p": "u"})
    assert is_digest(one)
    others = [
        version_digest("tools", {"a": 1, "b": [2]}, {"x": {}}, {"p": "u", "q": "v"}),
        version_digest("prompts", {"a": 1, "b": [3]}, {"x": {}}, {"p": "u", "q": "v"}),
        version_digest("prompts", {"a": 1, "b": [2]}, None, {"p": "u", "q": "v"}),
        version_digest("prompts", {"a": 1, "b": [2]}, {"x": {}}, {"p": "u"}),
    ]
    assert len({one, *others}) == 5
    assert canonical({"b": 1, "a": {"d": 1, "c": "é"}}) == '{"a":{"c":"é","d":1},"b":1}'.encode()


def version(text: str, *, yanked: bool = False, digest: str = "d") -> ResourceVersion:
    return ResourceVersion(
        version_id=VersionId(text),
        resource_id=ResourceId("r"),
        version=text,
        digest=digest_of(digest.encode()),
        size=0,
        created_by="u",
        created_at=1,
        yanked_at=1 if yanked else None,
    )


HISTORIES = st.lists(
    st.builds(version, VERSIONS, yanked=st.booleans(), digest=st.sampled_from("abc")),
    max_size=9,
    unique_by=lambda each: parse_version(each.version),
)


def naive_latest(versions: Iterable[ResourceVersion]) -> ResourceVersion | None:
    """Written for being obvious: the highest release, or else the highest of what is left."""
    living = [each for each in versions if each.yanked_at is None]
    released = [each for each in living if not parse_version(each.version).pre]
    best = None
    for each in released or living:
        if best is None or parse_version(each.version) > parse_version(best.version):
            best = each
    return best


def naive_select(versions: list[ResourceVersion], tags: dict[str, str], selector: str | None) -> ResourceVersion | None:
    if selector in (None, "latest"):
        return naive_latest(versions)
    assert selector is not None
    if selector.startswith("sha256:"):
        same = [each for each in versions if each.digest == selector]
        return naive_latest(same) or (same[0] if same else None)
    exact = tags.get(selector, selector)
    for each in versions:
        if each.version.partition("+")[0] == exact.partition("+")[0]:
            return None if selector in tags and each.yanked_at is not None else each
    if selector[0].isalpha() or (selector.partition("+")[0].count(".") == 2 and selector[0].isdigit() and "x" not in selector):
        return None
    inside = [each for each in versions if each.yanked_at is None and parse_range(selector).admits(parse_version(each.version))]
    return max(inside, key=lambda each: parse_version(each.version), default=None)


@given(versions=HISTORIES)
def test_the_latest_is_the_highest_release_that_is_not_withdrawn(versions: list[ResourceVersion]) -> None:
    assert latest_of(versions) == naive_latest(versions)


@settings(max_examples=examples(50, 500))
@given(
    versions=HISTORIES,
    selector=st.none() | SELECTORS | st.sampled_from("abc").map(lambda text: digest_of(text.encode())),
    named=st.booleans(),
    data=st.data(),
)
def test_a_selector_means_what_a_naive_reader_thinks(
    versions: list[ResourceVersion], selector: str | None, named: bool, data: st.DataObject
) -> None:
    targets = [each.version for each in versions]
    tags = data.draw(st.dictionaries(st.sampled_from(("stable", "beta")), st.sampled_from(targets))) if targets else {}
    if targets and named:
        selector = data.draw(st.sampled_from(targets))
    assert select(versions, tags, selector) == naive_select(versions, tags, selector)
