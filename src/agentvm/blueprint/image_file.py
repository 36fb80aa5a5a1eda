"""Image file — an image in one file for another server: what it was built from, its snapshot, and its locked resources. Pure.

A gzipped tar as of resources, with `image.json` besides, and with the documents of the collections that it searches (format 2).
There are no secrets in it: an image names them and has none. The file says how the image answers, twice: as the source with its
resources, and as the snapshot that these gave. A server that loads it builds the image anew from the first, with every check of
a build, and compares the result with the second.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from agentvm.errors import InvalidInput, shorten
from agentvm.errors.validation import explain
from agentvm.model.base import Record
from agentvm.model.collection import DOCUMENT_MAX_BYTES, CollectionReference, DocumentName, is_document_name
from agentvm.model.definition import Definition, Rendered, snapshot_of
from agentvm.model.image import Image, ImageConfig
from agentvm.model.resource import canonical, digest_of
from agentvm.resources.archive import BUNDLE_MAX_BYTES, Bundle, blob_file, bundle_files, pack, read_bundle, read_json, unpack

IMAGE_FORMATS: Final = (1, 2)
"""An image without collections has the first, which older servers read."""
IMAGE_MANIFEST = "image.json"
IMAGE_FILE_MAX_BYTES = BUNDLE_MAX_BYTES


class FileLock(Record, forbid_unknown_fields=True):
    """A URI of the image as written, and the version that it means: one of the file's resources."""

    written: str
    uri: str
    digest: str


class FileDocument(Record, forbid_unknown_fields=True):
    """A document of a collection. Its bytes are a blob of the file."""

    document: DocumentName
    digest: str
    size: Annotated[int, msgspec.Meta(ge=1, le=DOCUMENT_MAX_BYTES)]
    title: str | None = None
    media_type: str | None = None


class FileCollection(Record, forbid_unknown_fields=True):
    """A revision of a collection that the image searches, such as `handbook@12`."""

    reference: CollectionReference
    documents: tuple[FileDocument, ...]


class ImageManifest(Record, forbid_unknown_fields=True):
    """The `image.json`."""

    format: int
    name: str
    definition_name: str
    digest: str
    """The digest of the snapshot."""
    definition: Definition
    """The snapshot."""
    source: Definition
    """The definition as written."""
    config: ImageConfig
    description: str | None = None
    lock: tuple[FileLock, ...] = ()
    collections: tuple[FileCollection, ...] = ()
    seal: str = ""
    """The digest of all other members."""


def manifest_of(image: Image, collections: Sequence[FileCollection] = ()) -> ImageManifest:
    """Returns the manifest of an image that searches these collections."""
    locks = [FileLock(written=uri, uri=entry.uri, digest=entry.digest) for entry in image.lock for uri in entry.written]
    manifest = ImageManifest(
        format=2 if collections else 1,
        name=image.name,
        description=image.description,
        definition_name=image.definition_name,
        digest=image.digest,
        definition=image.definition,
        source=image.source or _source_of(image.definition),
        config=msgspec.structs.replace(image.config, api_key=None, has_api_key=False),
        lock=tuple(locks),
        collections=tuple(collections),
    )
    return msgspec.structs.replace(manifest, seal=seal_of(manifest))


def write_image_file(manifest: ImageManifest, resources: Bundle | None, documents: Mapping[str, bytes] | None = None) -> bytes:
    """Returns the file; the same image always gives the same bytes. `documents` are those of its collections, by digest."""
    files = {IMAGE_MANIFEST: canonical(msgspec.to_builtins(manifest))}
    if resources is not None:
        files |= bundle_files(resources)
    files |= {blob_file(digest): body for digest, body in (documents or {}).items()}
    return pack(files, file_bytes=DOCUMENT_MAX_BYTES)


def read_image_file(data: bytes) -> tuple[ImageManifest, Bundle | None]:
    """Reads a file of anybody; `InvalidInput` and its siblings for one that is not whole. May take a while: use a thread.

    The blobs of the bundle have the documents of collections as well.
    """
    files = unpack(data, also=IMAGE_MANIFEST, file_bytes=DOCUMENT_MAX_BYTES)
    body = files.pop(IMAGE_MANIFEST, None)
    if body is None:
        raise InvalidInput(f"Not the file of an image: there is no {IMAGE_MANIFEST} in it")
    manifest = _manifest(read_json(body, IMAGE_MANIFEST))
    if manifest.seal != seal_of(manifest) or manifest.digest != snapshot_of(manifest.definition)[0]:
        raise InvalidInput("The file of the image was altered: its content does not have the digest that it states")
    documents = [document for one in manifest.collections for document in one.documents]
    resources = read_bundle(files, [document.digest for document in documents]) if files else None
    blobs = {} if resources is None else resources.blobs
    for document in documents:
        if len(blobs.get(document.digest, b"")) != document.size or not is_document_name(document.document):
            raise InvalidInput(f"The file of the image was altered: the document {shorten(document.document)} is not in it")
    here = {} if resources is None else {entry.uri: entry.digest for entry in resources.entries}
    for lock in manifest.lock:
        if here.get(lock.uri) != lock.digest:
            raise InvalidInput(f"The file of the image was altered: {lock.uri} is not in it with the digest that it states")
    return manifest, resources


def differences(wanted: Definition, built: Definition) -> list[str]:
    """Returns the members in which two snapshots behave otherwise. The names of equal resources do not count."""
    before, after = _behaviour(wanted), _behaviour(built)
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _source_of(definition: Definition) -> Definition:
    """Returns the definition that a snapshot without references was built from: a build adds the tools of MCP servers again."""
    if definition.rendered is None:
        return definition
    added = {spec["name"] for spec in definition.rendered.tools}
    tools = tuple(name for name in definition.tools or () if name not in added)
    return msgspec.structs.replace(definition, tools=tools, rendered=None)


def _behaviour(definition: Definition) -> dict[str, Any]:
    """Returns a snapshot without the URIs of its resources: a server has its own owners and numbers for the same content."""
    rendered = definition.rendered or Rendered()
    parts = {
        "tools": [_anonymous(spec) for spec in rendered.tools],
        "sandbox": None if rendered.sandbox is None else _anonymous(rendered.sandbox),
        "knowledge": [_anonymous(spec) for spec in rendered.knowledge],
        "skills": [_anonymous(spec) for spec in rendered.skills],
    }
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(definition, rendered=None, name=""))
    return {**plain, "rendered": parts}


def _anonymous(spec: dict[str, object]) -> dict[str, object]:
    return {name: _anonymous(value) if isinstance(value, dict) else value for name, value in spec.items() if name != "uri"}


def _manifest(raw: object) -> ImageManifest:
    if isinstance(raw, dict) and raw.get("format") not in IMAGE_FORMATS:
        raise InvalidInput(
            f"This server reads the formats 1 to {max(IMAGE_FORMATS)} of images, and not this one: update AgentVM"
        )
    try:
        return msgspec.convert(raw, type=ImageManifest)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{IMAGE_MANIFEST} does not fit: {explain(error, ImageManifest)}") from None


def seal_of(manifest: ImageManifest) -> str:
    """Returns the digest of all members but the seal."""
    return digest_of(canonical(msgspec.to_builtins(msgspec.structs.replace(manifest, seal=""))))
