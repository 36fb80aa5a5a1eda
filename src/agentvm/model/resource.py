"""Resource — a named part of an agent: `resource://prompts/acme/sales@^1.2#greeting`.

    uri      = "resource://" type "/" [ owner "/" ] name [ "@" selector ] [ "#" fragment ]
    selector = version | range | tag | digest

A resource has versions that never change. Its `latest` is the highest version that is neither a prerelease nor withdrawn; tags
are names that its owner moves. A name without an owner is looked up in the caller's own tenant, then among the resources that
ship with the server (`system`), and never elsewhere.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NewType

import msgspec

from agentvm.errors import InvalidInput, shorten
from agentvm.errors.resource import ResourceUriInvalid
from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.model.semver import Version, is_version, parse_range, parse_version

ResourceId = NewType("ResourceId", str)
VersionId = NewType("VersionId", str)

ResourceType = Literal["prompts", "tools", "sandboxes", "agents", "knowledge", "skills"]
TYPES: tuple[ResourceType, ...] = ("prompts", "tools", "sandboxes", "agents", "knowledge", "skills")
Visibility = Literal["private", "public"]

SYSTEM_TENANT = TenantId("system")
SYSTEM = "system"
"""The owner of the resources that ship with the server."""

LATEST = "latest"
SCHEME = "resource://"
URI_MAX = 512
DEPTH_MAX = 16
NODES_MAX = 256
RENDERED_MAX_BYTES = 4 * 1024 * 1024
CONTENT_MAX_BYTES = 4 * 1024 * 1024
CLOSURE_MAX_BYTES = 32 * 1024 * 1024
"""Maximum content of a version and its whole closure: resolving holds all of it in memory."""

_SINGULAR: dict[str, ResourceType] = {
    "prompt": "prompts", "tool": "tools", "sandbox": "sandboxes", "agent": "agents", "skill": "skills",
}  # fmt: skip
_OWNER = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?")
_TAG = re.compile(r"[a-z][a-z0-9-]{0,31}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class ResourceUri(Record):
    """A parsed URI. `str()` of it is its canonical form, and parses to the same."""

    type: ResourceType
    name: str
    owner: str | None = None
    selector: str | None = None
    fragment: str | None = None

    def __str__(self) -> str:
        owner = "" if self.owner is None else f"{self.owner}/"
        selector = "" if self.selector is None else f"@{self.selector}"
        fragment = "" if self.fragment is None else f"#{self.fragment}"
        return f"{SCHEME}{self.type}/{owner}{self.name}{selector}{fragment}"

    @property
    def is_exact(self) -> bool:
        """Whether it names one version for ever: a version or a digest."""
        return self.selector is not None and (is_version(self.selector) or is_digest(self.selector))


def is_reference(text: object) -> bool:
    """Whether a text of a config is meant as a URI: every text that begins like one is."""
    return isinstance(text, str) and text[: len(SCHEME)].lower() == SCHEME


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def selector_of(named: str, version: str | None) -> str | None:
    """Returns the version that is requested of a resource named by id or URI: the given one, else that in the URI."""
    return version if version is not None or not is_reference(named) else parse_uri(named).selector


def parse_uri(text: str) -> ResourceUri:
    """Parses a URI; `ResourceUriInvalid` names the fault. The result has lower case and a plural type."""
    if len(text) > URI_MAX:
        raise ResourceUriInvalid(text, f"it has {len(text)} characters, and may have {URI_MAX}")
    if not text.isprintable():
        raise ResourceUriInvalid(text, "it has characters that cannot be printed")
    if not is_reference(text):
        raise ResourceUriInvalid(text, f"it must begin with {SCHEME}")
    rest, hashed, fragment = text[len(SCHEME) :].partition("#")
    path, at, selector = rest.partition("@")
    if "#" in fragment or (hashed and not fragment) or " " in fragment:
        raise ResourceUriInvalid(text, "the fragment after # must be one name without spaces")
    if at and not selector:
        raise ResourceUriInvalid(text, "a version, range, tag or digest must follow @")
    kind, *names = path.lower().split("/")
    if len(names) not in (1, 2):
        raise ResourceUriInvalid(text, "it must be like resource://prompts/name or resource://prompts/owner/name")
    return ResourceUri(
        type=_type(kind, text),
        owner=_owner(names[0], text) if len(names) == 2 else None,
        name=_name(names[-1], text),
        selector=_selector(selector, text) if at else None,
        fragment=fragment or None,
    )


def parse_type(text: str) -> ResourceType:
    """Singular and plural, in any letters."""
    kind = text.lower()
    resource_type = _SINGULAR.get(kind) or next((plural for plural in TYPES if plural == kind), None)
    if resource_type is None:
        raise InvalidInput(f"{shorten(text)!r} is not a type of resource; there are {', '.join(TYPES)}")
    return resource_type


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or ".." in name:
        raise InvalidInput(
            f"{shorten(name)!r} is not a valid name for a resource: 1 to 128 lower-case letters, digits and . _ -, with a "
            "letter or digit at both ends and no two dots in a row"
        )
    return name


def check_tag(tag: str) -> str:
    """Checks a tag to set; `latest` cannot be set, it follows from the versions."""
    if tag == LATEST:
        raise InvalidInput("The tag latest cannot be set: it is always the highest version that is not withdrawn")
    if not _TAG.fullmatch(tag) or tag == "x":
        raise InvalidInput(
            f"{shorten(tag)!r} is not a valid tag: 1 to 32 lower-case letters, digits and hyphens, a letter first"
        )
    return tag


def _type(kind: str, text: str) -> ResourceType:
    try:
        return parse_type(kind)
    except InvalidInput as error:
        raise ResourceUriInvalid(text, str(error)) from None


def _owner(owner: str, text: str) -> str:
    if not _OWNER.fullmatch(owner):
        raise ResourceUriInvalid(
            text, f"{shorten(owner)!r} is not a valid owner: 1 to 63 lower-case letters, digits and hyphens"
        )
    return owner


def _name(name: str, text: str) -> str:
    try:
        return check_name(name)
    except InvalidInput as error:
        raise ResourceUriInvalid(text, str(error)) from None


def _selector(selector: str, text: str) -> str:
    if is_version(selector):
        return selector
    lower = selector.lower()
    if is_digest(lower):
        return lower
    if _TAG.fullmatch(lower) and lower != "x":
        return lower
    try:
        return parse_range(lower).text
    except InvalidInput:
        raise ResourceUriInvalid(
            text, f"{shorten(selector)!r} is not a valid version (1.2.3), range (^1.2.0), tag (stable) or digest (sha256:…)"
        ) from None


class Resource(Record):
    """A name and its facts; its content is in its versions."""

    resource_id: ResourceId
    tenant_id: TenantId
    owner: str
    """The slug of its tenant, as URIs of others name it."""
    type: ResourceType
    name: str
    visibility: Visibility = "private"
    description: str | None = None
    tags: tuple[str, ...] = ()
    """Search words; not the tags that point to versions."""
    deprecated: str | None = None
    """The reason against further use, and the replacement."""
    latest: str | None = None
    """A version; None when all are withdrawn."""
    created_at: int
    updated_at: int
    deleted_at: int | None = None


class ResourceVersion(Record):
    """One version. Immutable, except that it can be withdrawn (`yanked_at`)."""

    version_id: VersionId
    resource_id: ResourceId
    version: str
    digest: str
    size: int
    schema: dict[str, object] | None = None
    dependencies: dict[str, str] = msgspec.field(default_factory=dict)
    """URIs as they were written, by alias."""
    created_by: str
    created_at: int
    yanked_at: int | None = None


class Locked(Record):
    """One entry of a lock: the exact version and its digest."""

    uri: str
    """The URI with the exact version."""
    version: str
    digest: str
    version_id: VersionId
    written: tuple[str, ...] = ()
    """The image's own URIs that resolved to this version; only in the lock of an image."""


_canonical = msgspec.json.Encoder(order="sorted")


def canonical(value: object) -> bytes:
    """The same bytes for equal JSON."""
    return _canonical.encode(value)


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def version_digest(kind: ResourceType, content: object, schema: dict[str, object] | None, dependencies: dict[str, str]) -> str:
    """Returns the digest of a version, however it was packed: binary parts stand in `content` as their own digests."""
    return digest_of(canonical({"type": kind, "content": content, "schema": schema, "dependencies": dependencies}))


LISTED_NAMES_MAX = 10
"""Names listed in an error about a missing one."""


def latest_of(versions: Iterable[ResourceVersion]) -> ResourceVersion | None:
    """The highest that is not withdrawn; a prerelease only if there is nothing else."""
    ranked = [(parse_version(version.version), version) for version in versions if version.yanked_at is None]
    return max(ranked, key=lambda pair: (not pair[0].pre, pair[0]), default=(None, None))[1]


def select(versions: Iterable[ResourceVersion], tags: Mapping[str, str], selector: str | None) -> ResourceVersion | None:
    """The version that a selector means; None when there is none. Withdrawn ones only by version or digest."""
    candidates = list(versions)
    if selector is None or selector == LATEST:
        return latest_of(candidates)
    if is_digest(selector):
        matches = [version for version in candidates if version.digest == selector]
        return latest_of(matches) or next(iter(matches), None)
    if is_version(selector) or selector in tags:
        number = parse_version(tags.get(selector, selector))
        match = next((version for version in candidates if parse_version(version.version) == number), None)
        return None if match is not None and match.yanked_at is not None and selector in tags else match
    if _TAG.fullmatch(selector) and selector != "x":
        return None
    by_rank: dict[Version, ResourceVersion] = {
        parse_version(version.version): version for version in candidates if version.yanked_at is None
    }
    best = parse_range(selector).best(by_rank)
    return None if best is None else by_rank[best]


def describe_versions(versions: Iterable[ResourceVersion], tags: Mapping[str, str]) -> str:
    """Describes the available versions of a resource, for an error about a missing one."""
    all_versions = list(versions)
    numbers = sorted(
        (version.version for version in all_versions if version.yanked_at is None), key=parse_version, reverse=True
    )
    if all_versions and not numbers:
        return "all of its versions are withdrawn; an exact version can still be used"
    text = f"it has {some_of(numbers, 'version')}" if numbers else "it has no versions"
    return f"{text} and {some_of(sorted(tags), 'tag')}" if tags else text


def some_of(names: Sequence[str], noun: str) -> str:
    """`the versions 1.1.0, 1.0.0`: the first ten of them."""
    more = f" and {len(names) - LISTED_NAMES_MAX} more" if len(names) > LISTED_NAMES_MAX else ""
    return f"the {noun}{'s' if len(names) > 1 else ''} {', '.join(map(shorten, names[:LISTED_NAMES_MAX]))}{more}"
