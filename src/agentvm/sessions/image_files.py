"""Image files — one principal's images as files: saved here, loaded there, and the names that point to them."""

import re
from dataclasses import dataclass, replace

import anyio.to_thread
import msgspec

from agentvm.blueprint.builder import locked_roots
from agentvm.blueprint.image_file import ImageManifest, differences, manifest_of, read_image_file, write_image_file
from agentvm.errors import ImageNotFound, InvalidInput, shorten
from agentvm.errors.resource import ResourceNotFound
from agentvm.model.ids import ContainerId, ImageId
from agentvm.model.image import Image
from agentvm.model.resource import NODES_MAX, VersionId, parse_uri
from agentvm.model.session import IMAGE_TAGS, Alias
from agentvm.resources.bundle import collect
from agentvm.resources.intake import OnConflict
from agentvm.resources.resolver import VersionClosure
from agentvm.sessions.images import BuiltImage, ImageLibrary, take_key
from agentvm.sessions.resources import ResourceLibrary
from agentvm.sessions.saved_collections import SavedCollections
from agentvm.sessions.workspace import Workspace
from agentvm.storage.resources import Node

READ_RESOURCES, WRITE_RESOURCES = "resources:read", "resources:write"
_TAG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_KEY_IS_MISSING = (
    "The image has a provider key of its own, which no file contains: it fails with missing_key until its apiKey is set, "
    "or cleared so that this server pays"
)


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """The files and tags of the images in the workspace."""

    workspace: Workspace

    async def save(self, image_id: ImageId) -> tuple[Image, bytes]:
        """Returns the image, and its file."""
        image = (await self.workspace.image(image_id))[1]
        nodes = await self._nodes(image)
        if not nodes:
            return image, await anyio.to_thread.run_sync(write_image_file, manifest_of(image), None)
        centre, tenant_id = self.workspace.resources, self.workspace.tenant_id
        closure = VersionClosure(next(iter(nodes.values())), nodes)
        resources = await collect(centre, tenant_id, closure, nodes.values(), tenant_id)
        collections, documents = await self._collections.save(nodes.values(), is_image=True)
        manifest = manifest_of(image, resources, collections)
        return image, await anyio.to_thread.run_sync(write_image_file, manifest, resources, documents)

    async def load(
        self,
        data: bytes,
        container_id: ContainerId,
        *,
        name: str | None = None,
        digest: str | None = None,
        on_conflict: OnConflict = "fail",
    ) -> BuiltImage:
        """Builds the image of a file, with its resources; `InvalidInput` if it is another, or would answer otherwise here."""
        manifest, resources = await anyio.to_thread.run_sync(read_image_file, data)
        if digest is not None and manifest.digest != digest:
            raise InvalidInput(f"The image of the file has the digest {manifest.digest}, not {shorten(digest)}")
        pins: dict[str, VersionId] = {}
        if resources is not None:
            self.workspace.principal.require(WRITE_RESOURCES)
            await ResourceLibrary(self.workspace).load(replace(resources, collections=manifest.collections), on_conflict)
            pins = await self._pins(manifest)
        shown = manifest.name if name is None else name
        # As in an archive: nobody else pays for an image that had a key of its own.
        has_key = manifest.config.has_api_key
        config, _ = take_key(manifest.config, has_key=has_key)
        config = msgspec.structs.replace(config, name=shown, description=manifest.description, has_api_key=has_key)
        frozen = await self.workspace.builder.build(manifest.source, config, pins)
        if different := differences(manifest.definition, frozen.definition):
            raise InvalidInput(
                f"The image would behave differently on this server, in its {', '.join(different)}: the file was "
                "altered, or a tool or an MCP server that it names differs on this server. No image was created"
            )
        if has_key:
            frozen = replace(frozen, warnings=(*frozen.warnings, _KEY_IS_MISSING))
        return await ImageLibrary(self.workspace).store(container_id, config, frozen, shown)

    async def put_tag(self, image_id: ImageId, tag: str) -> Image:
        """Lets a tag mean the image, whichever it meant before in its container."""
        if not _TAG.fullmatch(tag):
            raise InvalidInput("A tag has 1 to 64 lower-case letters, digits, '.', '_' and '-'; the first is a letter or digit")
        container, image = await self.workspace.image(image_id)
        await container.aliases.put(Alias(IMAGE_TAGS, tag), image.session_id, self.workspace.clock())
        return image

    async def remove_tag(self, image_id: ImageId, tag: str) -> None:
        """Removes a tag; `ImageNotFound` if the image does not have it."""
        container, image = await self.workspace.image(image_id)
        if tag not in await self.tags(image):
            raise ImageNotFound(f"{image_id} with the tag {tag}")
        await container.aliases.take(Alias(IMAGE_TAGS, tag))

    async def tags(self, image: Image) -> tuple[str, ...]:
        aliases = self.workspace.store.container(image.container_id).aliases
        return await aliases.of_session(IMAGE_TAGS, image.session_id)

    @property
    def _collections(self) -> SavedCollections:
        return SavedCollections(self.workspace)

    async def _nodes(self, image: Image) -> dict[VersionId, Node]:
        """Returns every version that the image was built from, the first root first."""
        roots = list(dict.fromkeys(entry.version_id for entry in locked_roots(image).values()))
        if roots:
            self.workspace.principal.require(READ_RESOURCES)
        store = self.workspace.resources.store.resources(self.workspace.tenant_id)
        nodes: dict[VersionId, Node] = {}
        for version_id in roots:
            closure = await store.closure(version_id, limit=NODES_MAX + 1)
            nodes |= {version_id: closure[version_id], **closure}
        return nodes

    async def _pins(self, manifest: ImageManifest) -> dict[str, VersionId]:
        """Returns the version here of each URI of the image, found by the digest of its content."""
        pins: dict[str, VersionId] = {}
        for lock in manifest.lock:
            exact = msgspec.structs.replace(parse_uri(lock.uri), selector=lock.digest)
            resolver, tenant_id = self.workspace.resources.resolver, self.workspace.tenant_id
            try:
                version = await resolver.find(tenant_id, exact)
            except ResourceNotFound:
                # Of an owner who is not here: the importer owns it.
                version = await resolver.find(tenant_id, msgspec.structs.replace(exact, owner=None))
            pins[lock.written] = version.root.version.version_id
        return pins
