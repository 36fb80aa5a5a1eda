"""Image file — an image in one file for another server: its source, its snapshot, and its locked resources. Pure.

A gzipped tar as of resources, with `image.json` besides, and with the documents of the collections that it searches (format 2).
There are no secrets in it: an image names them and has none. The file says how the image answers, twice: as the source with its
resources, and as the snapshot that these gave. A server that loads it rebuilds the image from the first, with every check of a
build, and compares the result with the second.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.validation import explain
from agentvm.model.base import Record
from agentvm.model.collection import DOCUMENT_MAX_BYTES
from agentvm.model.definition import Definition, Rendered, snapshot_of
from agentvm.model.image import Image, ImageConfig
from agentvm.model.resource import canonical, digest_of
from agentvm.resources.archive import (
    BUNDLE_MAX_BYTES,
    MANIFEST,
    Bundle,
    FileCollection,
    blob_file,
    bundle_files,
    check_documents,
    pack,
    read_bundle,
    read_json,
    unpack,
)

IMAGE_FORMATS: Final = (1, 2)
"""An image without collections has the first, which older servers read."""
IMAGE_MANIFEST = "image.json"
IMAGE_FILE_MAX_BYTES = BUNDLE_MAX_BYTES


class FileLock(Record, forbid_unknown_fields=True):
    """A URI of the image as written, and the version that it means: one of the file's resources."""

    written: str
    uri: str
    digest: str


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
    resources: str | None = None
    """The digest of the `bundle.json`, if there is one."""
    seal: str = ""
    """The digest of all other members."""


def manifest_of(image: Image, resources: Bundle | None = None, collections: Sequence[FileCollection] = ()) -> ImageManifest:
    """Returns the manifest of an image with these resources, which searches these collections."""
    locks = [FileLock(written=uri, uri=entry.uri, digest=entry.digest) for entry in image.lock for uri in entry.written]
    manifest = ImageManifest(
        format=2 if collections else 1,
        name=image.name,
        description=image.description,
        definition_name=image.definition_name,
        digest=image.digest,
        definition=image.definition,
        source=image.source or _source_of(image.definition),
        config=msgspec.structs.replace(image.config, api_key=None),
        lock=tuple(locks),
        collections=tuple(collections),
        resources=None if resources is None else digest_of(bundle_files(resources)[MANIFEST]),
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
    """Reads an untrusted file; `InvalidInput` and its siblings for one that is not complete. May take a while: use a thread.

    The blobs of the bundle have the documents of collections as well.
    """
    files = unpack(data, also=IMAGE_MANIFEST, file_bytes=DOCUMENT_MAX_BYTES)
    body = files.pop(IMAGE_MANIFEST, None)
    if body is None:
        raise InvalidInput(f"Not the file of an image: there is no {IMAGE_MANIFEST} in it")
    manifest = _manifest(read_json(body, IMAGE_MANIFEST))
    if manifest.seal != seal_of(manifest) or manifest.digest != snapshot_of(manifest.definition)[0]:
        raise InvalidInput("The file of the image was altered: its content does not have the digest that it states")
    documents = [document.digest for collection in manifest.collections for document in collection.documents]
    resources = read_bundle(files, documents) if files else None
    if resources is not None and resources.collections:
        raise InvalidInput(f"The file of the image was altered: its collections stand in {IMAGE_MANIFEST} alone")
    if manifest.resources != (digest_of(files[MANIFEST]) if MANIFEST in files else None):
        raise InvalidInput(f"The file of the image was altered: its {MANIFEST} does not have the digest that it states")
    check_documents(manifest.collections, {} if resources is None else resources.blobs)
    here = {} if resources is None else {entry.uri: entry.digest for entry in resources.entries}
    for lock in manifest.lock:
        if here.get(lock.uri) != lock.digest:
            raise InvalidInput(f"The file of the image was altered: {lock.uri} is not in it with the digest that it states")
    return manifest, resources


def differences(expected: Definition, built: Definition) -> list[str]:
    """Returns the members in which two snapshots behave otherwise. The names of equal resources do not count."""
    before, after = _behaviour(expected), _behaviour(built)
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _source_of(definition: Definition) -> Definition:
    """Returns the definition that a snapshot without references was built from: a build adds the tools of MCP servers again."""
    if definition.rendered is None:
        return definition
    added = {spec["name"] for spec in definition.rendered.tools}
    tools = tuple(name for name in definition.tools or () if name not in added)
    return msgspec.structs.replace(definition, tools=tools, rendered=None)


def _behaviour(definition: Definition) -> dict[str, Any]:
    """Returns a snapshot without the URIs of its resources: a server has its own owners and numbers for the same content.

    Its agents are numbered as they are mentioned, by those before them.
    """
    agents = (definition.rendered or Rendered()).agents
    mentioned: list[str] = []
    behaviour = _own_behaviour(msgspec.structs.replace(definition, name=""), mentioned)
    called: list[dict[str, Any] | None] = []
    while len(called) < len(mentioned):
        agent = agents.get(mentioned[len(called)])
        called.append(None if agent is None else _own_behaviour(agent, mentioned))
    return {**behaviour, "agents": called}


def _own_behaviour(definition: Definition, mentioned: list[str]) -> dict[str, Any]:
    rendered = definition.rendered or Rendered()
    parts = {
        "tools": [_anonymous(_numbered(spec, mentioned)) for spec in rendered.tools],
        "sandbox": None if rendered.sandbox is None else _anonymous(rendered.sandbox),
        "knowledge": [_anonymous(spec) for spec in rendered.knowledge],
        "skills": [_anonymous(spec) for spec in rendered.skills],
        "handoffs": [_number(uri, mentioned) for uri in rendered.handoffs],
    }
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(definition, rendered=None))
    return {**plain, "rendered": parts}


def _numbered(spec: dict[str, object], mentioned: list[str]) -> dict[str, object]:
    """Returns a tool that names the agent that it calls by its number."""
    return {**spec, "entry": _number(str(spec.get("entry")), mentioned)} if spec.get("runtime") == "agent" else spec


def _number(uri: str, mentioned: list[str]) -> int:
    if uri not in mentioned:
        mentioned.append(uri)
    return mentioned.index(uri)


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
