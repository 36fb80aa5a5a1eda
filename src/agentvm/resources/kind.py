"""Kind — the interface of a type of resource; one file for each type beside this one.

Content is data: it is checked, its references are found and it is rendered, all without running anything or touching the
network.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from agentvm.errors import InvalidInput, shorten
from agentvm.errors.resource import ResourceInvalid, ResourceNotFound, ResourceTooDeep, ResourceTooLarge, ResourceUriInvalid
from agentvm.errors.validation import explain, path_of
from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.model.resource import (
    CONTENT_MAX_BYTES,
    DEPTH_MAX,
    RENDERED_MAX_BYTES,
    Resource,
    ResourceType,
    ResourceUri,
    VersionId,
    canonical,
    digest_of,
    is_digest,
    is_reference,
    parse_uri,
    some_of,
)  # fmt: skip
from agentvm.storage.resources import Node

VALUES_MAX = 500_000
"""Texts, numbers, arrays and so on, counted with repetitions: in YAML a few lines can expand to billions."""
NESTING_MAX = 64
"""Levels of arrays and objects; beyond some hundred neither JSON nor its schemas can be read back."""


DESCRIPTION_MAX = 2_000
TAGS_MAX = 32
TAG_MAX = 64
_PATH = re.compile(r"[\w$]+(?:\.[\w$-]+)*")


class Content(Record, forbid_unknown_fields=True):
    """The content of a version. An unknown field is a typo, so refused."""


class Binary(Record, forbid_unknown_fields=True):
    """A binary part: `data` (base64) as it comes in, `blob` and `size` as it is stored."""

    data: bytes | None = None
    blob: str | None = None
    size: int | None = None


JsonObject = dict[str, Any]
"""`Any` and not `object`, because only of the former a JSON Schema can be made."""

ContentType = type[Content]
"""An alias, because a kind's own `type` hides the builtin."""


class ResourceKind(Protocol):
    """One type of resource. Without state: one object for the process."""

    @property
    def type(self) -> ResourceType: ...

    @property
    def content(self) -> ContentType:
        """The class of its content; `GET /v1/resources/types` shows its JSON Schema."""

    def check(self, content: Any) -> None:
        """Checks rules beyond the types of the fields; `ResourceInvalid` names the field."""

    def references(self, content: Any) -> Mapping[str, str]:
        """URIs in the content, by an alias that says where each stands (`systemPrompt`, `tools.0`)."""

    def text(self, content: Any) -> str:
        """Returns the text that a search matches, besides name, tags and description."""

    def render(self, context: "RenderContext") -> object:
        """Returns the resource as its users get it, as JSON: the table is in docs/resources.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderContext:
    """A version that is being rendered, with its locked dependencies and the caller's arguments."""

    viewer: TenantId
    """The tenant that asks: URIs are written for it."""
    node: Node
    nodes: Mapping[VersionId, Node]
    kinds: Mapping[ResourceType, ResourceKind]
    args: Mapping[str, object] = field(default_factory=dict)
    fragment: str | None = None
    depth: int = 0

    @property
    def uri(self) -> str:
        """The URI with the exact version."""
        return exact_uri(self.node, self.viewer)

    @property
    def kind(self) -> ResourceKind:
        return self.kinds[self.node.resource.type]

    @property
    def content(self) -> Any:
        """The decoded content, of the kind's own class."""
        return decode(self.kind, self.node.content)

    @property
    def stored_content(self) -> JsonObject:
        """The content as the stored JSON."""
        stored: JsonObject = msgspec.json.decode(self.node.content)
        return stored

    def follow(self, uri: str, args: Mapping[str, object] | None = None) -> "RenderContext":
        """Returns the context of the version that a URI was locked to at publication."""
        if self.depth >= DEPTH_MAX:
            raise ResourceTooDeep(f"References lead more than {DEPTH_MAX} levels down from {self.uri}")
        target = next((link.target for link in self.node.links if link.uri == uri), None)
        node = None if target is None else self.nodes.get(target)
        if node is None:
            raise ResourceNotFound(uri)
        return RenderContext(
            viewer=self.viewer,
            node=node,
            nodes=self.nodes,
            kinds=self.kinds,
            args=self.args if args is None else args,
            fragment=uri.partition("#")[2] or None,
            depth=self.depth + 1,
        )

    def missing_fragment(self, noun: str, names: Sequence[str]) -> ResourceNotFound:
        """Returns the error for a missing fragment. Available names are listed only for the requested resource, not for one
        behind it."""
        hint = "" if self.depth else f"it has {some_of(names, noun)}" if names else f"it has no {noun}s"
        return ResourceNotFound(f"{self.uri}#{self.fragment}", hint)

    def render(self) -> object:
        return self.kind.render(self)


def exact_uri(node: Node, viewer: TenantId) -> str:
    """Returns the URI with the exact version, and with the owner unless that is the viewer."""
    resource = node.resource
    owner = None if resource.tenant_id == viewer else resource.owner
    return str(ResourceUri(type=resource.type, owner=owner, name=resource.name, selector=node.version.version))


def accept(kind: ResourceKind, raw: object) -> Content:
    """Decodes content to publish; `ResourceInvalid` and `ResourceTooLarge` name the fault, and `path` in its details where."""
    try:
        return _accept(kind, raw)
    except ResourceInvalid as error:
        if (path := _path_in(str(error), kind)) is not None:
            error.details.setdefault("path", path)
        raise


def _path_in(text: str, kind: ResourceKind) -> str | None:
    """Returns the field that the sentence about a fault begins with; None if it is about the content as a whole."""
    path = _PATH.match(text.partition(": ")[2] if text.startswith("The content") else text)
    return path[0] if path and path[0].partition(".")[0] in kind.content.__struct_encode_fields__ else None


def _accept(kind: ResourceKind, raw: object) -> Content:
    check_json(raw, f"The content of {kind.type}")
    try:
        content: Content = msgspec.convert(raw, type=kind.content)
    except msgspec.ValidationError as error:
        text = f"The content of {kind.type} does not fit: {explain(error, kind.content)}"
        raise ResourceInvalid(text, details={"path": path_of(error)}) from None
    for where, part in binaries(content):
        _check_binary(where, part)
    kind.check(content)
    bare, blobs, _ = detach(content)
    size = len(encode(bare)) + sum(map(len, blobs.values()))
    if size > CONTENT_MAX_BYTES:
        raise ResourceTooLarge(
            f"The content of {kind.type} has {size} bytes with its binary parts, and may have {CONTENT_MAX_BYTES}"
        )
    return content


def decode(kind: ResourceKind, body: bytes) -> Content:
    content: Content = msgspec.json.decode(body, type=kind.content)
    return content


def encode(content: Content) -> bytes:
    """The canonical bytes that are stored and digested."""
    return canonical(msgspec.to_builtins(content))


def detach(content: Content) -> tuple[Content, dict[str, bytes], frozenset[str]]:
    """Returns the content with every binary part as its digest; the parts; and the digests that were already in it.

    The publisher must be able to see the last: knowledge of a digest gives no right to its bytes.
    """
    blobs: dict[str, bytes] = {}
    existing: set[str] = set()

    def replaced(value: Any) -> Any:
        if isinstance(value, Binary):
            if value.data is None:
                existing.add(value.blob or "")
                return value
            digest = digest_of(value.data)
            blobs[digest] = value.data
            return Binary(blob=digest, size=len(value.data))
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **{name: replaced(getattr(value, name)) for name in value.__struct_fields__})
        if isinstance(value, dict):
            return {name: replaced(item) for name, item in value.items()}
        if isinstance(value, tuple):
            return tuple(map(replaced, value))
        return value

    bare: Content = replaced(content)
    return bare, blobs, frozenset(existing)


def binaries(value: object, where: str = "") -> Iterator[tuple[str, Binary]]:
    """The binary parts of a content, with where each stands."""
    if isinstance(value, Binary):
        yield where, value
    elif isinstance(value, msgspec.Struct):
        for name, wire in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            yield from binaries(getattr(value, name), f"{where}.{wire}" if where else wire)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from binaries(item, f"{where}.{name}")
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from binaries(item, f"{where}.{index}")


def _check_binary(where: str, part: Binary) -> None:
    if (part.data is None) == (part.blob is None):
        raise ResourceInvalid(f"{shorten(where)} must have either data (base64) or blob (the digest of an existing part)")
    if part.blob is not None and not is_digest(part.blob):
        raise ResourceInvalid(f"{shorten(where)}.blob must be a digest, sha256: and 64 lower-case hexadecimal digits")
    if part.blob is not None and (part.size is None or part.size < 0):
        raise ResourceInvalid(f"{shorten(where)}.size must be the size of the part that blob names")
    if part.data is not None and part.size not in (None, len(part.data)):
        raise ResourceInvalid(f"{shorten(where)}.size is {part.size}, but data has {len(part.data)} bytes")


def check_json(raw: object, subject: str) -> None:
    """Refuses values that JSON cannot carry or that could not be read back. YAML has dates, odd keys and infinite numbers."""
    stack: list[tuple[object, int]] = [(raw, 0)]
    count = 0
    while stack:
        value, depth = stack.pop()
        count += 1
        if count > VALUES_MAX:
            raise ResourceTooLarge(f"{subject} has more than {VALUES_MAX} values")
        match value:
            case None | bool() | bytes():
                pass
            case str():
                _check_text(value, subject)
            case int():
                if not -(2**63) <= value < 2**64:
                    raise ResourceInvalid(f"{subject} has a whole number of more than 64 bits; write it as a string")
            case float():
                if not math.isfinite(value):
                    raise ResourceInvalid(f"{subject} has the number {value}, which JSON cannot hold")
            case Mapping() | list() | tuple():
                if depth >= NESTING_MAX:
                    raise ResourceInvalid(f"{subject} is nested more than {NESTING_MAX} levels deep")
                if isinstance(value, Mapping):
                    stack += ((name, depth + 1) for name in value if _check_key(name, subject))
                stack += ((item, depth + 1) for item in (value.values() if isinstance(value, Mapping) else value))
            case _:
                raise ResourceInvalid(f"{subject} has a {type(value).__name__}, which JSON cannot hold; write it as a string")


def _check_key(name: object, subject: str) -> bool:
    if not isinstance(name, str):
        raise ResourceInvalid(f"{subject} has a member named {shorten(repr(name))}, but names are strings; put it in quotes")
    return True


def _check_text(text: str, subject: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ResourceInvalid(f"{subject} has a text with a lone surrogate") from None


def check_reference(member: str, text: str, *allowed: ResourceType, fragment: bool = False) -> ResourceUri:
    """Parses a URI in a field; `ResourceInvalid` names the field and the allowed types."""
    examples = " or ".join(f"resource://{kind}/name" for kind in allowed)
    if not is_reference(text):
        raise ResourceInvalid(f"{member} must be a URI such as {examples}, not {shorten(text)!r}")
    try:
        uri = parse_uri(text)
    except ResourceUriInvalid as error:
        raise ResourceInvalid(f"{member}: {error}") from None
    if uri.type not in allowed:
        raise ResourceInvalid(f"{member} cannot refer to {uri.type}; it takes {examples}")
    if uri.fragment is not None and not fragment:
        raise ResourceInvalid(f"{member} takes the whole of a resource: leave out #{shorten(uri.fragment)}")
    return uri


def check_description(text: str | None) -> str | None:
    if text is not None and len(text) > DESCRIPTION_MAX:
        raise InvalidInput(f"A description has at most {DESCRIPTION_MAX} characters, not {len(text)}")
    return text


def check_words(tags: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The words a resource is found by."""
    if tags is None:
        return None
    if len(tags) > TAGS_MAX:
        raise InvalidInput(f"A resource has at most {TAGS_MAX} tags, not {len(tags)}")
    for tag in tags:
        if not tag.strip() or len(tag) > TAG_MAX or not tag.isprintable():
            raise InvalidInput(f"A tag has 1 to {TAG_MAX} characters that can be printed")
    return tuple(dict.fromkeys(tags))


def check_rendered(uri: str, size: int) -> None:
    if size > RENDERED_MAX_BYTES:
        raise ResourceTooLarge(f"{uri} comes to more than {RENDERED_MAX_BYTES} bytes with all that it refers to")


def refuse_fragment(context: RenderContext) -> None:
    """Refuses a fragment, for kinds without named parts."""
    if context.fragment is not None:
        raise ResourceNotFound(f"{context.uri}#{context.fragment}")


def check_selector(resource: Resource, text: str) -> str:
    """Returns a version, range, tag or digest in its canonical form, as in a URI."""
    if "#" in text:
        raise ResourceUriInvalid(text, "a version, range, tag or digest is expected here")
    uri = ResourceUri(type=resource.type, name=resource.name, selector=text)
    return parse_uri(str(uri)).selector or text


def versioned_uri(resource: Resource, selector: str | None) -> ResourceUri:
    return ResourceUri(
        type=resource.type,
        owner=resource.owner,
        name=resource.name,
        selector=None if selector is None else check_selector(resource, selector),
    )
