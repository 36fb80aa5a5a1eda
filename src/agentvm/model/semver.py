"""Semantic versions and their ranges, with the rules of npm.

A version is `1.2.3`, `1.2.3-rc.1` or `1.2.3+build`; its build does not affect its rank. A range is `^1.2.3`, `~1.2.3`, `1`,
`1.2`, `1.x`, `*`, or comparators that hold together: `>=1.2.3 <2`. Unions (`||`) and hyphens (`1 - 2`) are not supported. A
prerelease is in a range only if the range itself names a prerelease of the same three numbers: `^1.2.3` does not include
`1.3.0-beta`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering
from typing import Literal

from agentvm.errors import InvalidInput, shorten

Bump = Literal["patch", "minor", "major"]

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_WORD = r"(?:0|[1-9][0-9]{0,8}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_PRE = rf"(?:-(?P<pre>{_WORD}(?:\.{_WORD})*))?"
_BUILD = r"(?:\+(?P<build>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
_VERSION = re.compile(rf"(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER}){_PRE}{_BUILD}")
_LOOSE = rf"(?:{_NUMBER}|[xX*])"
_COMPARATOR = re.compile(
    rf"(?P<sign>\^|~|>=|<=|>|<|=)?(?P<major>{_LOOSE})(?:\.(?P<minor>{_LOOSE})(?:\.(?P<patch>{_LOOSE}){_PRE}{_BUILD})?)?"
)
VERSION_MAX = 128
RANGE_MAX = 256


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """Equal and ordered by rank: two builds of the same version are equal."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()

    @property
    def triple(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return self._rank() < other._rank()

    def __str__(self) -> str:
        plain = f"{self.major}.{self.minor}.{self.patch}"
        return f"{plain}-{'.'.join(map(str, self.pre))}" if self.pre else plain

    def bumped(self, part: Bump) -> "Version":
        """Returns the next `major`, `minor` or `patch` version. The next of a prerelease is its release, or the one beyond
        it."""
        if part == "major":
            released = self.pre and self.minor == self.patch == 0
            return Version(self.major if released else self.major + 1, 0, 0)
        if part == "minor":
            released = self.pre and self.patch == 0
            return Version(self.major, self.minor if released else self.minor + 1, 0)
        return Version(self.major, self.minor, self.patch if self.pre else self.patch + 1)

    def _rank(self) -> tuple[object, ...]:
        # No prerelease outranks any; numbers are below words; of two where one begins the other the longer is higher.
        return (*self.triple, not self.pre, tuple((isinstance(word, str), word) for word in self.pre))


def parse_version(text: str) -> Version:
    """Parses a full version; `InvalidInput` for any other text."""
    match = _VERSION.fullmatch(text) if len(text) <= VERSION_MAX else None
    if match is None:
        raise InvalidInput(f"{shorten(text)!r} is not a valid version; write for example 1.2.3 or 2.0.0-beta.1")
    return Version(int(match["major"]), int(match["minor"]), int(match["patch"]), _words(match["pre"]))


def is_version(text: str) -> bool:
    return len(text) <= VERSION_MAX and _VERSION.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class _Bound:
    """One comparison with a version."""

    sign: str
    version: Version

    def admits(self, version: Version) -> bool:
        match self.sign:
            case ">=":
                return version >= self.version
            case ">":
                return version > self.version
            case "<":
                return version < self.version
            case "=":
                return version == self.version
            case _:
                return version <= self.version


_EVERYTHING = _Bound(">=", Version(0, 0, 0))
"""Taken literally this bound would exclude the prereleases of 0.0.0, even where the range names them. npm does not, so we
do not."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range of versions. `text` is as written, with single spaces."""

    text: str
    _bounds: tuple[_Bound, ...]
    _named: frozenset[tuple[int, int, int]]
    """The triples whose prereleases the range names."""

    def admits(self, version: Version) -> bool:
        if version.pre and version.triple not in self._named:
            return False
        return all(bound.admits(version) for bound in self._bounds)

    def best(self, versions: Iterable[Version]) -> Version | None:
        return max((version for version in versions if self.admits(version)), default=None)


def parse_range(text: str) -> Range:
    """Parses a range; `InvalidInput` for any other text. A sign may stand apart from its version, as npm allows."""
    plain = re.sub(r"(\^|~|>=|<=|>|<|=) +(?=[0-9xX*])", r"\1", text)
    words = plain.split(" ") if plain.isprintable() else []
    words = [word for word in words if word]
    if not words or len(text) > RANGE_MAX or not all(map(_is_comparator, words)):
        raise InvalidInput(f"{shorten(text)!r} is not a valid range; write for example ^1.2.0, ~1.2.0, 1.x or >=1.2.0 <2.0.0")
    bounds: list[_Bound] = []
    named: set[tuple[int, int, int]] = set()
    for word in words:
        more, triple = _comparator(word)
        bounds += [bound for bound in more if bound != _EVERYTHING]
        if triple is not None:
            named.add(triple)
    return Range(" ".join(words), tuple(bounds), frozenset(named))


def _is_comparator(word: str) -> bool:
    match = _COMPARATOR.fullmatch(word)
    if match is None:
        return False
    # A number after an x has no meaning, so it is a typo: npm refuses it too.
    parts = "".join("x" if part in "xX*" else "1" for part in match.group("major", "minor", "patch") if part)
    return "x1" not in parts


def _comparator(word: str) -> tuple[list[_Bound], tuple[int, int, int] | None]:
    """Returns the bounds of one word, and the triple whose prereleases it names."""
    match = _COMPARATOR.fullmatch(word)
    assert match is not None
    numbers: list[int] = []
    for part in (match["major"], match["minor"], match["patch"]):
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    pre = _words(match["pre"]) if len(numbers) == 3 else ()
    sign = match["sign"] or "="
    low = Version(*_filled(numbers), pre)
    named = low.triple if pre else None
    if not numbers:
        # Every version, unless the range asks for one beyond every version.
        return ([_Bound("<", _first(0, 0, 0))] if sign in "<>" else []), None
    if sign == "^":
        return [_Bound(">=", low), _Bound("<", _above_caret(numbers))], named
    if sign == "~":
        return [_Bound(">=", low), _Bound("<", _above(numbers[:2]))], named
    if len(numbers) == 3:
        return [_Bound(sign, low)], named
    match sign:
        case "=":
            return [_Bound(">=", low), _Bound("<", _above(numbers))], None
        case ">":
            return [_Bound(">=", Version(*_above(numbers).triple))], None
        case ">=":
            return [_Bound(">=", low)], None
        case "<":
            return [_Bound("<", _first(*_filled(numbers)))], None
        case _:
            return [_Bound("<", _above(numbers))], None


def _words(text: str | None) -> tuple[int | str, ...]:
    return tuple(int(word) if word.isdigit() else word for word in text.split(".")) if text else ()


def _filled(numbers: list[int]) -> tuple[int, int, int]:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


def _first(major: int, minor: int, patch: int) -> Version:
    """Returns the lower bound of all versions with these numbers, prereleases included."""
    return Version(major, minor, patch, (0,))


def _above(numbers: list[int]) -> Version:
    """Returns the upper bound of all versions that begin with these numbers."""
    return _first(*_filled([*numbers[:-1], numbers[-1] + 1]))


def _above_caret(numbers: list[int]) -> Version:
    """The first number that is not zero may not change; of zeros only, the last that is given."""
    for index, number in enumerate(numbers):
        if number:
            return _above(numbers[: index + 1])
    return _above(numbers)
