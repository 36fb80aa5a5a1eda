"""Versions and ranges against npm's own: what is not npm's is said here."""

import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings
from tests.provision import Unavailable
from tests.provision.node import HOME, existing
from tests.support.examples import examples

from agentvm.errors import InvalidInput
from agentvm.model.semver import RANGE_MAX, VERSION_MAX, Bump, Version, is_version, parse_range, parse_version

# Answers each line, a JSON array, with a line, so that one process serves thousands of cases.
ORACLE = """
const semver = require(process.argv[1]);
const answers = {
  order: (a, b) => semver.compare(a, b),
  valid: (a) => semver.valid(a) === null ? null : semver.parse(a).raw,
  range: (range, versions) => semver.validRange(range) === null ? null : versions.filter((v) => semver.satisfies(v, range)),
  best: (range, versions) => semver.maxSatisfying(versions, range),
  bump: (version, part) => semver.inc(version, part),
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const [what, ...rest] = JSON.parse(line);
  console.log(JSON.stringify(answers[what](...rest)));
});
"""

NUMBERS = st.sampled_from((0, 0, 0, 1, 1, 2, 3, 10, 99))
WORDS = st.one_of(st.integers(0, 12).map(str), st.sampled_from(("a", "alpha", "beta", "rc", "x", "-", "0a", "1-", "B")))
PRES = st.one_of(st.just(""), st.lists(WORDS, min_size=1, max_size=3).map(lambda words: "-" + ".".join(words)))
BUILDS = st.sampled_from(("", "", "+b", "+001.x"))
TRIPLES = st.tuples(NUMBERS, NUMBERS, NUMBERS).map(lambda numbers: ".".join(map(str, numbers)))
VERSIONS = st.builds(lambda triple, pre, build: triple + pre + build, TRIPLES, PRES, BUILDS)
LOOSE = st.one_of(NUMBERS.map(str), st.sampled_from(("x", "X", "*")))
PARTIAL = st.lists(LOOSE, min_size=1, max_size=3).map(".".join)
SIGNS = st.sampled_from(("", "^", "~", ">", ">=", "<", "<=", "=", "> ", "^ ", ">= "))
COMPARATORS = st.builds(lambda sign, version: sign + version, SIGNS, st.one_of(VERSIONS, PARTIAL))
RANGES = st.lists(COMPARATORS, min_size=1, max_size=3).map(" ".join)


Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def npm(node: Path) -> Iterator[Ask]:
    """Asks npm's own implementation."""
    try:
        module = existing(HOME / "lib" / "node_modules" / "npm" / "node_modules" / "semver")
    except Unavailable as error:
        pytest.skip(f"npm's semver: {error}")
    command = [str(node), "-e", ORACLE, str(module)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asks, answers = process.stdin, process.stdout

        def ask(*case: object) -> Any:
            asks.write(json.dumps(case) + "\n")
            asks.flush()
            return json.loads(answers.readline())

        yield ask
        process.stdin.close()


@settings(max_examples=examples(100, 2000))
@given(one=VERSIONS, other=VERSIONS)
def test_versions_have_the_rank_that_npm_gives_them(npm: Ask, one: str, other: str) -> None:
    a, b = parse_version(one), parse_version(other)
    assert (a > b) - (a < b) == npm("order", one, other)
    assert (a == b) is (npm("order", one, other) == 0)
    assert (a >= b, a <= b) == (not a < b, not a > b)


@settings(max_examples=examples(100, 3000))
@given(wanted=RANGES, versions=st.lists(VERSIONS, min_size=1, max_size=8))
# What chance finds once in thousands.
@example(wanted="<*", versions=["0.0.0", "1.2.3"])
@example(wanted=">x", versions=["0.0.0", "1.2.3"])
@example(wanted=">=0.0.0 >=0.0.0-a", versions=["0.0.0-b"])
@example(wanted="<1 >=1.0.0-a", versions=["1.0.0-b"])
@example(wanted=">1 >=2.0.0-a", versions=["2.0.0-b"])
def test_a_range_admits_what_npm_says(npm: Ask, wanted: str, versions: list[str]) -> None:
    admitted = npm("range", wanted, versions)
    try:
        known = parse_range(wanted)
    except InvalidInput:
        # A number after an x is refused by npm in most ranges, and by us in all.
        assert admitted is None or re.search(r"[\^~] *([0-9]+\.)?[xX*]\.([xX*]\.)?[0-9]", wanted)
        return
    assert [each for each in versions if known.admits(parse_version(each))] == admitted
    best = npm("best", wanted, versions)
    assert known.best(map(parse_version, versions)) == (None if best is None else parse_version(best))


@settings(max_examples=examples(100, 1000))
@given(version=VERSIONS, part=st.sampled_from(("major", "minor", "patch")))
def test_the_next_version_is_npms(npm: Ask, version: str, part: Bump) -> None:
    assert str(parse_version(version).bumped(part)) == npm("bump", version, part)


@settings(max_examples=examples(100, 1000))
@given(text=st.one_of(VERSIONS, st.text("0123456789.-+avx= ", max_size=14)))
def test_what_we_take_for_a_version_npm_does_too(npm: Ask, text: str) -> None:
    # npm forgives a leading v or =, and spaces around it; we do not, so that a version has one spelling.
    if is_version(text):
        assert npm("valid", text) == text
    elif npm("valid", text) is not None:
        assert text.strip(" ")[:1] in ("v", "=") or text != text.strip(" ")


@given(version=VERSIONS)
def test_a_version_is_written_without_its_build(version: str) -> None:
    assert str(parse_version(version)) == version.partition("+")[0]
    assert parse_version(str(parse_version(version))) == parse_version(version)
    assert hash(parse_version(version)) == hash(parse_version(version.partition("+")[0]))


@given(text=st.text())
def test_any_text_is_taken_or_refused(text: str) -> None:
    for parse in (parse_version, parse_range):
        with contextlib.suppress(InvalidInput):
            parse(text)


@given(wanted=RANGES)
def test_a_range_written_down_means_the_same(wanted: str) -> None:
    try:
        known = parse_range(wanted)
    except InvalidInput:
        return
    assert parse_range(known.text) == known


@pytest.mark.parametrize("text", ["", " ", "^", "1 || 2", "1 - 2", "a", "^1.2-rc", "~>1", "1..2", "01", "1.2.3\n", "==1"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a valid range"):
        parse_range(text)


@pytest.mark.parametrize("text", ["", "1", "1.2", "v1.2.3", "1.2.3 ", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3\n", "１.2.3"])
def test_what_is_no_version_is_refused(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(InvalidInput, match="not a valid version"):
        parse_version(text)


def test_versions_and_ranges_have_a_longest() -> None:
    longest = "1.0.0-" + "a" * (VERSION_MAX - 6)
    assert is_version(longest)
    assert not is_version(longest + "a")
    with pytest.raises(InvalidInput):
        parse_range(">=1 " * (RANGE_MAX // 4 + 1))


def test_a_version_compares_with_versions_only() -> None:
    with pytest.raises(TypeError):
        assert Version(1, 0, 0) < "1.0.1"
