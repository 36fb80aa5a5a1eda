"""Archive — several resources in one file, and how it is read without trusting it.

A gzipped tar of `bundle.json` and of `blobs/sha256/<hex>` for each content and each binary part, named by its own bytes. The
same resources give the same bytes: names are sorted, and nothing of the machine or the day is in it.

An archive may come from anybody. It is read in memory and never unpacked onto a disk; what is not exactly such an archive is
refused as a whole. The reader is our own because of what a general one does for us: it follows extended headers, which name a
member one thing for us and another for others. Here there are plain files of two kinds of names, and nothing else.
"""

import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from agentvm.errors import shorten
from agentvm.errors.bounds import InputTooLarge
from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.errors.validation import explain
from agentvm.model.base import Record
from agentvm.model.resource import MAX_CONTENT, MAX_NODES, ResourceType, Visibility, canonical, digest_of, version_digest
from agentvm.protocol.bounds import check
from agentvm.protocol.commands.resource import RESOURCE_BOUND

FORMAT: Literal[1] = 1

MAX_UNPACKED = 32 * 1024 * 1024
"""Bytes of the tar, with its headers."""
MAX_BUNDLE = MAX_UNPACKED + 1024 * 1024
"""Bytes of the file: what cannot be compressed takes a little more than it is."""
MAX_FILES = 4_096
MAX_FILE = MAX_CONTENT
# What is nested too deeply the decoder refuses itself, and says where.
_MANIFEST_BOUND = replace(RESOURCE_BOUND, max_depth=RESOURCE_BOUND.max_bytes)
MAX_RATIO = 200
"""How many bytes one byte of the file may become, beyond `SMALL`."""
SMALL = 1024 * 1024

MANIFEST = "bundle.json"
_BLOBS = "blobs/sha256/"
_NAME = re.compile(r"bundle\.json|blobs/sha256/[0-9a-f]{64}")

_BLOCK = 512
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
"""No name, no time, no system."""
_GZIP = 16 + zlib.MAX_WBITS
_KINDS = {
    tarfile.LNKTYPE: "a hard link", tarfile.SYMTYPE: "a link", tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device",
    tarfile.DIRTYPE: "a folder", tarfile.FIFOTYPE: "a pipe",
}  # fmt: skip


class BundleDependency(Record, forbid_unknown_fields=True):
    """What a URI, as it was written, was locked to: `resolved` is with the exact version."""

    alias: str
    uri: str
    resolved: str
    digest: str


class BundleEntry(Record, forbid_unknown_fields=True):
    """One version. Its `uri` names no owner if that is the owner of the root: it becomes whoever imports it."""

    uri: str
    type: ResourceType
    name: str
    version: str
    digest: str
    content: str
    """The digest of its canonical bytes."""
    blobs: tuple[str, ...] = ()
    """The digests of its binary parts."""
    description: str | None = None
    tags: tuple[str, ...] = ()
    visibility: Visibility = "private"
    deprecated: str | None = None
    schema: dict[str, object] | None = None
    dependencies: tuple[BundleDependency, ...] = ()


class BundleManifest(Record, forbid_unknown_fields=True, omit_defaults=False):
    """The `bundle.json`."""

    format: Literal[1]
    root: str
    entries: tuple[BundleEntry, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """What an archive holds, with every blob by its digest."""

    root: str
    entries: tuple[BundleEntry, ...]
    blobs: Mapping[str, bytes]


def write_archive(bundle: Bundle) -> bytes:
    """`ResourceTooLarge` for what could not be read again."""
    entries = tuple(sorted(bundle.entries, key=lambda entry: entry.uri))
    manifest = canonical(msgspec.to_builtins(BundleManifest(format=FORMAT, root=bundle.root, entries=entries)))
    files = {MANIFEST: manifest} | {_BLOBS + digest.removeprefix("sha256:"): body for digest, body in bundle.blobs.items()}
    if len(files) > MAX_FILES or max(map(len, files.values())) > MAX_FILE:
        raise ResourceTooLarge(f"An archive has at most {MAX_FILES} files of at most {MAX_FILE} bytes; export without deps")
    tar = b"".join(part for name in sorted(files) for part in _packed(name, files[name])) + bytes(2 * _BLOCK)
    if len(tar) > MAX_UNPACKED:
        raise ResourceTooLarge(f"The archive would hold {len(tar)} bytes, and may hold {MAX_UNPACKED}; export without deps")
    packed = _gzipped(tar, 9)
    return packed if _is_plausible(len(packed), len(tar)) else _gzipped(tar, 0)


def read_archive(data: bytes) -> Bundle:
    """`ResourceTooLarge` or `ResourceInvalid` for anything but a whole and sound archive. It may take a while: use a thread."""
    files = dict(_files(_unzipped(data)))
    manifest = _manifest(files.pop(MANIFEST, None))
    blobs = {f"sha256:{name.removeprefix(_BLOBS)}": body for name, body in files.items()}
    for digest, body in blobs.items():
        if digest_of(body) != digest:
            raise ResourceInvalid(f"The archive is damaged: the bytes of {digest} have another digest")
    _check_entries(manifest, blobs)
    return Bundle(manifest.root, manifest.entries, blobs)


_BYTE = re.compile(r"\(byte (\d+)\)")


def read_json(body: bytes, what: str) -> object:
    """What somebody else wrote; nested so deep that it cannot be read is as wrong as no JSON."""
    try:
        check(body, _MANIFEST_BOUND, what)
    except InputTooLarge as error:
        raise ResourceTooLarge(str(error)) from None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        where = _BYTE.sub(lambda found: _place(body, int(found[1])), str(error))
        raise ResourceInvalid(f"{what} is not JSON that can be read: {where}") from None


def _place(body: bytes, offset: int) -> str:
    before = body[:offset]
    return f"(line {before.count(bytes([10])) + 1}, column {offset - before.rfind(bytes([10]))})"


def _packed(name: str, body: bytes) -> Iterator[bytes]:
    head = tarfile.TarInfo(name)
    head.size, head.mode = len(body), 0o644
    yield head.tobuf(tarfile.USTAR_FORMAT)
    yield body
    yield bytes(-len(body) % _BLOCK)


def _gzipped(tar: bytes, level: int) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    end = zlib.crc32(tar).to_bytes(4, "little") + len(tar).to_bytes(4, "little")
    return b"".join((_GZIP_HEAD, deflate.compress(tar), deflate.flush(), end))


def _is_plausible(packed: int, unpacked: int) -> bool:
    return unpacked <= SMALL or unpacked <= MAX_RATIO * packed


def _unzipped(data: bytes) -> bytes:
    if len(data) > MAX_BUNDLE:
        raise ResourceTooLarge(f"The archive has {len(data)} bytes, and may have {MAX_BUNDLE}")
    # What is beyond the bound is not unpacked at all.
    bound = min(MAX_UNPACKED, max(SMALL, MAX_RATIO * len(data)))
    inflate = zlib.decompressobj(_GZIP)
    try:
        tar = inflate.decompress(data, bound + 1)
    except zlib.error as error:
        raise ResourceInvalid(f"That is no archive of resources: it is not gzip, or damaged ({error})") from None
    if len(tar) > bound:
        raise ResourceTooLarge(
            f"The archive holds more than {bound} bytes; it may hold {MAX_UNPACKED}, and {MAX_RATIO} times what it has itself"
        )
    if not inflate.eof:
        raise ResourceInvalid("The archive is cut off: its end is missing")
    if inflate.unused_data:
        raise ResourceInvalid("The archive is damaged: something follows its end")
    return tar


def _files(tar: bytes) -> Iterator[tuple[str, bytes]]:
    """The members, each a plain file with one of our names, each name once."""
    seen: set[str] = set()
    at = 0
    while tar[at : at + _BLOCK].strip(b"\0"):
        name, size = _member(tar[at : at + _BLOCK])
        if name in seen:
            raise ResourceInvalid(f"The archive holds {name} twice")
        seen.add(name)
        if len(seen) > MAX_FILES:
            raise ResourceTooLarge(f"The archive holds more than {MAX_FILES} files")
        if size > MAX_FILE:
            raise ResourceTooLarge(f"{name} in the archive has {size} bytes, and may have {MAX_FILE}")
        start, at = at + _BLOCK, at + _BLOCK + size + -size % _BLOCK
        if at > len(tar):
            raise ResourceInvalid(f"The archive is cut off: {name} is not all there")
        yield name, tar[start : start + size]
    if len(tar) - at < 2 * _BLOCK or tar[at:].strip(b"\0"):
        raise ResourceInvalid("The archive is damaged: its end is missing, or something follows it")


def _member(head: bytes) -> tuple[str, int]:
    """The name and the size that a header says. Everything in it that could mean something else must be empty."""
    try:
        member = tarfile.TarInfo.frombuf(head, "utf-8", "strict")
    except (tarfile.HeaderError, ValueError):
        raise ResourceInvalid("That is no archive of resources: there is no tar in it, or it is damaged") from None
    name = shorten(member.name)
    if member.type != tarfile.REGTYPE:
        what = _KINDS.get(member.type, "an extended header or another special member")
        raise ResourceInvalid(f"{name!r} in the archive is {what}; only plain files belong in it")
    if not _NAME.fullmatch(member.name) or member.linkname:
        raise ResourceInvalid(f"{name!r} does not belong in an archive of resources: only {MANIFEST} and {_BLOBS}<digest> do")
    if member.size < 0:
        raise ResourceInvalid(f"{name!r} in the archive has a size that means nothing")
    return member.name, member.size


def _manifest(body: bytes | None) -> BundleManifest:
    if body is None:
        raise ResourceInvalid(f"There is no {MANIFEST} in the archive")
    raw = read_json(body, MANIFEST)
    if isinstance(raw, dict) and raw.get("format") != FORMAT:
        given = shorten(repr(raw.get("format")))
        raise ResourceInvalid(f"The format of the archive is {given}, and here only {FORMAT} is known: use a newer AgentVM")
    try:
        return msgspec.convert(raw, type=BundleManifest)
    except msgspec.ValidationError as error:
        raise ResourceInvalid(f"{MANIFEST} does not fit: {explain(error, BundleManifest)}") from None


def _check_entries(manifest: BundleManifest, blobs: Mapping[str, bytes]) -> None:
    """Every entry has its blobs, every blob its entry, and every digest is that of what is there."""
    if not 0 < len(manifest.entries) <= MAX_NODES:
        raise ResourceTooLarge(f"An archive holds 1 to {MAX_NODES} versions, not {len(manifest.entries)}")
    uris = {entry.uri for entry in manifest.entries}
    if len(uris) < len(manifest.entries):
        raise ResourceInvalid("The archive names a version twice")
    if manifest.root not in uris:
        raise ResourceInvalid(f"The archive says its root is {shorten(manifest.root)}, which is not in it")
    used: set[str] = set()
    for entry in manifest.entries:
        wanted = {entry.content, *entry.blobs}
        if missing := sorted(wanted - blobs.keys()):
            raise ResourceInvalid(f"The archive has no blob {shorten(missing[0])}, which {shorten(entry.uri)} needs")
        used |= wanted
        _check_digest(entry, blobs[entry.content])
    if unused := sorted(blobs.keys() - used):
        raise ResourceInvalid(f"The archive holds the blob {unused[0]}, which belongs to nothing in it")


def _check_digest(entry: BundleEntry, body: bytes) -> None:
    uris = {one.alias: one.uri for one in entry.dependencies}
    if len(uris) < len(entry.dependencies):
        raise ResourceInvalid(f"{shorten(entry.uri)} in the archive names a dependency twice")
    content = read_json(body, f"The content of {shorten(entry.uri)}")
    try:
        digest = version_digest(entry.type, content, entry.schema, uris)
    except RecursionError:
        raise ResourceInvalid(f"The content of {shorten(entry.uri)} is nested too deep") from None
    if digest != entry.digest:
        raise ResourceInvalid(f"The archive is damaged: {shorten(entry.uri)} has another digest than it says")
