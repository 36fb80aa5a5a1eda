"""Semantic versions and the ranges that name them, as npm understands them.

A version is `1.2.3`, `1.2.3-rc.1` or `1.2.3+build`; its build says nothing about its rank. A range is `^1.2.3`, `~1.2.3`, `1`,
`1.2`, `1.x`, `*`, or comparators that hold together: `>=1.2.3 <2`. Unions (`||`) and hyphens (`1 - 2`) are not known. A
prerelease is in a range only if the range itself names a prerelease of the same three numbers: who asks for `^1.2.3` does not
want `1.3.0-beta`.
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
MAX_VERSION = 128
MAX_RANGE = 256


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
        """The next version of that kind: `major`, `minor` or `patch`. A prerelease's next is what it leads to, or beyond it."""
        if part == "major":
            done = self.pre and self.minor == self.patch == 0
            return Version(self.major if done else self.major + 1, 0, 0)
        if part == "minor":
            done = self.pre and self.patch == 0
            return Version(self.major, self.minor if done else self.minor + 1, 0)
        return Version(self.major, self.minor, self.patch if self.pre else self.patch + 1)

    def _rank(self) -> tuple[object, ...]:
        # No prerelease outranks any; numbers are below words; of two where one begins the other the longer is higher.
        return (*self.triple, not self.pre, tuple((isinstance(word, str), word) for word in self.pre))


def parse_version(text: str) -> Version:
    """`InvalidInput` for anything but a full version."""
    found = _VERSION.fullmatch(text) if len(text) <= MAX_VERSION else None
    if found is None:
        raise InvalidInput(f"{shorten(text)!r} is no version; write for example 1.2.3 or 2.0.0-beta.1")
    return Version(int(found["major"]), int(found["minor"]), int(found["patch"]), _words(found["pre"]))


def is_version(text: str) -> bool:
    return len(text) <= MAX_VERSION and _VERSION.fullmatch(text) is not None


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
"""Taken literally it would shut out the prereleases of 0.0.0, even where the range names them. npm does not, so we do not."""


@dataclass(frozen=True, slots=True)
class Range:
    """Which versions are meant. `text` is as it was written, with single spaces."""

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
    """`InvalidInput` for anything else. A sign may stand apart from its version, as npm allows."""
    plain = re.sub(r"(\^|~|>=|<=|>|<|=) +(?=[0-9xX*])", r"\1", text)
    words = plain.split(" ") if plain.isprintable() else []
    words = [word for word in words if word]
    if not words or len(text) > MAX_RANGE or not all(map(_is_comparator, words)):
        raise InvalidInput(f"{shorten(text)!r} is no range; write for example ^1.2.0, ~1.2.0, 1.x or >=1.2.0 <2.0.0")
    bounds: list[_Bound] = []
    named: set[tuple[int, int, int]] = set()
    for word in words:
        more, triple = _comparator(word)
        bounds += [bound for bound in more if bound != _EVERYTHING]
        if triple is not None:
            named.add(triple)
    return Range(" ".join(words), tuple(bounds), frozenset(named))


def _is_comparator(word: str) -> bool:
    found = _COMPARATOR.fullmatch(word)
    if found is None:
        return False
    # A number after an x says nothing, so it is a slip: npm refuses it too.
    parts = "".join("x" if part in "xX*" else "1" for part in found.group("major", "minor", "patch") if part)
    return "x1" not in parts


def _comparator(word: str) -> tuple[list[_Bound], tuple[int, int, int] | None]:
    """What one word demands, and the triple whose prereleases it names."""
    found = _COMPARATOR.fullmatch(word)
    assert found is not None
    numbers: list[int] = []
    for part in (found["major"], found["minor"], found["patch"]):
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    pre = _words(found["pre"]) if len(numbers) == 3 else ()
    sign = found["sign"] or "="
    low = Version(*_filled(numbers), pre)
    named = low.triple if pre else None
    if not numbers:
        # Everything, unless something must be beyond everything.
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
    """What is below every version with these numbers, its prereleases too."""
    return Version(major, minor, patch, (0,))


def _above(numbers: list[int]) -> Version:
    """What is beyond every version that begins with these numbers."""
    return _first(*_filled([*numbers[:-1], numbers[-1] + 1]))


def _above_caret(numbers: list[int]) -> Version:
    """The first number that is not zero may not change; of zeros only, the last that is given."""
    for index, number in enumerate(numbers):
        if number:
            return _above(numbers[: index + 1])
    return _above(numbers)
