"""Archive — several resources in one file, and how it is read without trusting it.

A gzipped tar of `bundle.json` and of `blobs/sha256/<hex>` for each content and each binary part, named by its own bytes. The
same resources give the same bytes: names are sorted, and no property of the machine or the day is stored.

An archive may come from a stranger. It is read in memory and never unpacked onto a disk; a file that deviates from the format
is refused as a whole. The reader is our own because a general one does too much: it follows extended headers, which name a
member one way for us and another way for others. Here there are plain files of two kinds of names, and nothing else.
"""

import re
import tarfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

import msgspec

from agentvm.errors import shorten
from agentvm.errors.bounds import InputTooLarge
from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.errors.validation import explain
from agentvm.model.base import Record
from agentvm.model.collection import (
    DOCUMENT_MAX_BYTES,
    CollectionReference,
    DocumentName,
    DocumentTitle,
    MediaType,
    is_document_name,
    is_reference,
    parse_reference,
)
from agentvm.model.resource import CONTENT_MAX_BYTES, NODES_MAX, ResourceType, Visibility, canonical, digest_of, version_digest
from agentvm.protocol.bounds import check
from agentvm.protocol.requests import RESOURCE_BOUND

FORMATS: Final = (1, 2)

UNPACKED_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of the tar, with its headers."""
BUNDLE_MAX_BYTES = UNPACKED_MAX_BYTES + 1024 * 1024
"""Size of the file: incompressible data takes a little more than its own size."""
FILES_MAX = 4_096
FILE_MAX_BYTES = CONTENT_MAX_BYTES
# The decoder itself refuses JSON that is nested too deeply, and says where.
_MANIFEST_BOUND = replace(RESOURCE_BOUND, max_depth=RESOURCE_BOUND.max_bytes)
RATIO_MAX = 200
"""Bytes that one byte of the file may unpack to, beyond `SMALL_BYTES`."""
SMALL_BYTES = 1024 * 1024

MANIFEST = "bundle.json"
_BLOBS = "blobs/sha256/"
_NAME = re.compile(r"bundle\.json|blobs/sha256/[0-9a-f]{64}")

_BLOCK_BYTES = 512
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
"""No name, no time, no system."""
_GZIP = 16 + zlib.MAX_WBITS
_KINDS = {
    tarfile.LNKTYPE: "a hard link", tarfile.SYMTYPE: "a link", tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device",
    tarfile.DIRTYPE: "a folder", tarfile.FIFOTYPE: "a pipe",
}  # fmt: skip


class BundleDependency(Record, forbid_unknown_fields=True):
    """A URI as written, and the version it was locked to: `resolved` has the exact version."""

    alias: str
    uri: str
    resolved: str
    digest: str


class BundleEntry(Record, forbid_unknown_fields=True):
    """One version. Its `uri` names no owner if that is the owner of the root: the importer becomes the owner."""

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


class FileDocument(Record, forbid_unknown_fields=True):
    """A document of a collection. Its bytes are a blob of the file."""

    document: DocumentName
    digest: str
    size: Annotated[int, msgspec.Meta(ge=1, le=DOCUMENT_MAX_BYTES)]
    title: DocumentTitle | None = None
    media_type: MediaType | None = None


class FileCollection(Record, forbid_unknown_fields=True):
    """A revision of a collection that knowledge of the file names, such as `handbook@12`."""

    reference: CollectionReference
    documents: tuple[FileDocument, ...]


class BundleManifest(Record, forbid_unknown_fields=True, omit_defaults=False):
    """The `bundle.json`."""

    format: Literal[1, 2]
    root: str
    entries: tuple[BundleEntry, ...]
    collections: tuple[FileCollection, ...] = ()
    """The second format has them; an archive without any has the first, which older servers read."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The content of an archive, with every blob by its digest."""

    root: str
    entries: tuple[BundleEntry, ...]
    blobs: Mapping[str, bytes]
    collections: tuple[FileCollection, ...] = ()
    """Collections of its knowledge bases, whose documents are blobs as well."""


def write_archive(bundle: Bundle) -> bytes:
    """Returns the archive; `ResourceTooLarge` for one that could not be read again."""
    return pack(bundle_files(bundle), file_bytes=DOCUMENT_MAX_BYTES if bundle.collections else FILE_MAX_BYTES)


def bundle_files(bundle: Bundle) -> dict[str, bytes]:
    """Returns the files of an archive by their names."""
    entries = tuple(sorted(bundle.entries, key=lambda entry: entry.uri))
    collections = bundle.collections
    manifest = BundleManifest(format=2 if collections else 1, root=bundle.root, entries=entries, collections=collections)
    members = msgspec.to_builtins(manifest)
    if not collections:
        del members["collections"]
    return {MANIFEST: canonical(members)} | {blob_file(digest): body for digest, body in bundle.blobs.items()}


def pack(files: Mapping[str, bytes], *, file_bytes: int = FILE_MAX_BYTES) -> bytes:
    """Returns an archive of these files; `ResourceTooLarge` for one that could not be read again."""
    if len(files) > FILES_MAX or max(map(len, files.values())) > file_bytes:
        raise ResourceTooLarge(
            f"An archive has at most {FILES_MAX:,} files of at most {file_bytes:,} bytes; export without deps or documents"
        )
    tar = b"".join(part for name in sorted(files) for part in _packed(name, files[name])) + bytes(2 * _BLOCK_BYTES)
    if len(tar) > UNPACKED_MAX_BYTES:
        raise ResourceTooLarge(
            f"The archive would hold {len(tar):,} bytes, and may hold {UNPACKED_MAX_BYTES:,}; export without deps or documents"
        )
    packed = _gzipped(tar, 9)
    return packed if _is_plausible(len(packed), len(tar)) else _gzipped(tar, 0)


def read_archive(data: bytes) -> Bundle:
    """Reads an archive; `ResourceTooLarge` or `ResourceInvalid` for any other file. May take a while: use a thread."""
    return read_bundle(unpack(data, file_bytes=DOCUMENT_MAX_BYTES))


def unpack(data: bytes, *, also: str | None = None, file_bytes: int = FILE_MAX_BYTES) -> dict[str, bytes]:
    """Returns the files of an archive by their names; `also` is a name that belongs in it besides those of bundles."""
    return dict(_files(_unzipped(data), also, file_bytes))


def read_bundle(files: dict[str, bytes], besides: Collection[str] = ()) -> Bundle:
    """Returns the bundle of an archive's files, which must be all of them but the blobs `besides`."""
    files = dict(files)
    manifest = _manifest(files.pop(MANIFEST, None))
    blobs = {f"sha256:{name.removeprefix(_BLOBS)}": body for name, body in files.items()}
    documents = {*besides, *(document.digest for collection in manifest.collections for document in collection.documents)}
    for digest, body in blobs.items():
        if len(body) > FILE_MAX_BYTES and digest not in documents:
            raise _too_large(blob_file(digest), len(body), FILE_MAX_BYTES)
        if digest_of(body) != digest:
            raise ResourceInvalid(f"The archive is damaged: the bytes of {digest} have another digest")
    _check_entries(manifest, blobs, documents)
    check_documents(manifest.collections, blobs)
    return Bundle(manifest.root, manifest.entries, blobs, manifest.collections)


def check_documents(collections: Iterable[FileCollection], blobs: Mapping[str, bytes]) -> None:
    """Refuses collections that cannot be, and documents that no collection can have, or whose bytes are not there."""
    names: set[str] = set()
    for collection in collections:
        if not is_reference(collection.reference) or (name := parse_reference(collection.reference)[0]) in names:
            raise ResourceInvalid(f"The file was altered: it cannot have a collection {shorten(collection.reference)!r}")
        names.add(name)
        for document in collection.documents:
            is_plain = is_document_name(document.document) and (document.title or "").isprintable()
            if not is_plain or len(blobs.get(document.digest, b"")) != document.size:
                raise ResourceInvalid(f"The file was altered: the document {shorten(document.document)!r} is not in it")


_BYTE = re.compile(r"\(byte (\d+)\)")


def read_json(body: bytes, name: str) -> object:
    """Decodes foreign JSON; nesting too deep to be read is as wrong as invalid JSON."""
    try:
        check(body, _MANIFEST_BOUND, name)
    except InputTooLarge as error:
        raise ResourceTooLarge(str(error)) from None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        where = _BYTE.sub(lambda match: _place(body, int(match[1])), str(error))
        raise ResourceInvalid(f"{name} is not valid JSON: {where}") from None


def _place(body: bytes, offset: int) -> str:
    before = body[:offset]
    return f"(line {before.count(bytes([10])) + 1}, column {offset - before.rfind(bytes([10]))})"


def blob_file(digest: str) -> str:
    """Returns the name of the file with the bytes of a digest."""
    return _BLOBS + digest.removeprefix("sha256:")


def _packed(name: str, body: bytes) -> Iterator[bytes]:
    head = tarfile.TarInfo(name)
    head.size, head.mode = len(body), 0o644
    yield head.tobuf(tarfile.USTAR_FORMAT)
    yield body
    yield bytes(-len(body) % _BLOCK_BYTES)


def _gzipped(tar: bytes, level: int) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    end = zlib.crc32(tar).to_bytes(4, "little") + len(tar).to_bytes(4, "little")
    return b"".join((_GZIP_HEAD, deflate.compress(tar), deflate.flush(), end))


def _is_plausible(packed: int, unpacked: int) -> bool:
    return unpacked <= SMALL_BYTES or unpacked <= RATIO_MAX * packed


def _unzipped(data: bytes) -> bytes:
    if len(data) > BUNDLE_MAX_BYTES:
        raise ResourceTooLarge(f"The archive has {len(data)} bytes, and may have {BUNDLE_MAX_BYTES}")
    # Nothing beyond the bound is unpacked.
    bound = min(UNPACKED_MAX_BYTES, max(SMALL_BYTES, RATIO_MAX * len(data)))
    inflate = zlib.decompressobj(_GZIP)
    try:
        tar = inflate.decompress(data, bound + 1)
    except zlib.error as error:
        raise ResourceInvalid(f"Not an archive of resources: it is not gzip, or damaged ({error})") from None
    if len(tar) > bound:
        raise ResourceTooLarge(
            f"The archive holds more than {bound} bytes; at most {UNPACKED_MAX_BYTES}, and {RATIO_MAX} times its own "
            "size, are allowed"
        )
    if not inflate.eof:
        raise ResourceInvalid("The archive is cut off: its end is missing")
    if inflate.unused_data:
        raise ResourceInvalid("The archive is damaged: there is data after its end")
    return tar


def _files(tar: bytes, also: str | None, file_bytes: int) -> Iterator[tuple[str, bytes]]:
    """The members, each a plain file with one of our names, each name once."""
    seen: set[str] = set()
    at = 0
    while tar[at : at + _BLOCK_BYTES].strip(b"\0"):
        name, size = _member(tar[at : at + _BLOCK_BYTES], also)
        if name in seen:
            raise ResourceInvalid(f"The archive holds {name} twice")
        seen.add(name)
        if len(seen) > FILES_MAX:
            raise ResourceTooLarge(f"The archive holds more than {FILES_MAX} files")
        if size > (FILE_MAX_BYTES if name == MANIFEST else file_bytes):
            raise _too_large(name, size, file_bytes)
        start, at = at + _BLOCK_BYTES, at + _BLOCK_BYTES + size + -size % _BLOCK_BYTES
        if at > len(tar):
            raise ResourceInvalid(f"The archive is cut off: {name} is not all there")
        yield name, tar[start : start + size]
    if len(tar) - at < 2 * _BLOCK_BYTES or tar[at:].strip(b"\0"):
        raise ResourceInvalid("The archive is damaged: its end is missing, or there is data after it")


def _too_large(name: str, size: int, most: int) -> ResourceTooLarge:
    return ResourceTooLarge(f"{name} in the archive has {size} bytes, and may have {most}")


def _member(head: bytes, also: str | None) -> tuple[str, int]:
    """Returns the name and the size in a header. Every field with another meaning must be empty."""
    try:
        member = tarfile.TarInfo.frombuf(head, "utf-8", "strict")
    except (tarfile.HeaderError, ValueError):
        raise ResourceInvalid("Not an archive of resources: there is no tar in it, or it is damaged") from None
    name = shorten(member.name)
    if member.type != tarfile.REGTYPE:
        kind = _KINDS.get(member.type, "an extended header or another special member")
        raise ResourceInvalid(f"{name!r} in the archive is {kind}; only plain files belong in it")
    if not (_NAME.fullmatch(member.name) or member.name == also) or member.linkname:
        names = ", ".join(filter(None, (also, MANIFEST)))
        raise ResourceInvalid(f"{name!r} does not belong in such an archive: only {names} and {_BLOBS}<digest> do")
    if member.size < 0:
        raise ResourceInvalid(f"{name!r} in the archive has an invalid size")
    return member.name, member.size


def _manifest(body: bytes | None) -> BundleManifest:
    if body is None:
        raise ResourceInvalid(f"There is no {MANIFEST} in the archive")
    raw = read_json(body, MANIFEST)
    if isinstance(raw, dict) and raw.get("format") not in FORMATS:
        version = shorten(repr(raw.get("format")))
        raise ResourceInvalid(f"The format of the archive is {version}; this server reads 1 and 2: use a newer AgentVM")
    try:
        return msgspec.convert(raw, type=BundleManifest)
    except msgspec.ValidationError as error:
        raise ResourceInvalid(f"{MANIFEST} does not fit: {explain(error, BundleManifest)}") from None


def _check_entries(manifest: BundleManifest, blobs: Mapping[str, bytes], besides: Collection[str]) -> None:
    """Checks that every entry has its blobs, every blob its entry, and that every digest is right."""
    if not 0 < len(manifest.entries) <= NODES_MAX:
        raise ResourceTooLarge(f"An archive holds 1 to {NODES_MAX} versions, not {len(manifest.entries)}")
    uris = {entry.uri for entry in manifest.entries}
    if len(uris) < len(manifest.entries):
        raise ResourceInvalid("The archive names a version twice")
    if manifest.root not in uris:
        raise ResourceInvalid(f"The archive says its root is {shorten(manifest.root)}, which is not in it")
    used: set[str] = set()
    for entry in manifest.entries:
        digests = {entry.content, *entry.blobs}
        if missing := sorted(digests - blobs.keys()):
            raise ResourceInvalid(f"The archive has no blob {shorten(missing[0])}, which {shorten(entry.uri)} needs")
        used |= digests
        _check_digest(entry, blobs[entry.content])
    if unused := sorted(blobs.keys() - used - set(besides)):
        raise ResourceInvalid(f"The archive holds the blob {unused[0]}, which belongs to nothing in it")


def _check_digest(entry: BundleEntry, body: bytes) -> None:
    uris = {dependency.alias: dependency.uri for dependency in entry.dependencies}
    if len(uris) < len(entry.dependencies):
        raise ResourceInvalid(f"{shorten(entry.uri)} in the archive names a dependency twice")
    content = read_json(body, f"The content of {shorten(entry.uri)}")
    try:
        digest = version_digest(entry.type, content, entry.schema, uris)
    except RecursionError:
        raise ResourceInvalid(f"The content of {shorten(entry.uri)} is nested too deep") from None
    if digest != entry.digest:
        raise ResourceInvalid(f"The archive is damaged: {shorten(entry.uri)} does not have the digest it states")
