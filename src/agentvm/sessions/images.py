"""Image library — one principal's images: build, update, upgrade, delete."""

import base64
import binascii
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import msgspec

from agentvm.blueprint.builder import locked_roots, unchanged_pins
from agentvm.blueprint.definition import check_size
from agentvm.blueprint.image import Frozen, build, rebuild
from agentvm.errors import Conflict, ImageNotFound, InvalidInput, NotFound
from agentvm.events.lifecycle import ImageCreated, ImageDeleted, ImageUpdated
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import ContainerId, ImageId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.resource import Locked, parse_uri
from agentvm.model.secret import Secret
from agentvm.model.session import AGENTS, IMAGE_TAGS, Alias, Session
from agentvm.sessions.containers import Containers
from agentvm.sessions.workspace import Workspace
from agentvm.storage.sql.container import ContainerStore

IMAGE_PREFIX = "img_"
TAG_PREFIX = "image:"
"""Before the tag of an image, where the name of an agent is expected."""


Place = tuple[str, int, str]
"""The place of an image in a list: its container, its age, its id."""

CONTAINERS_MAX = 100
"""Containers whose names are read together."""
DEFAULT_CONTAINER = ContainerId("default")
_UNSET = Definition(name="")


@dataclass(frozen=True, slots=True)
class BuiltImage:
    image: Image
    session: Session
    """The image's default session."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The result of resolving an image's floating references again: per URI the old and the new entry of the lock."""

    image: Image
    changes: Mapping[str, tuple[Locked, Locked]] = field(default_factory=dict)
    before: Definition | None = None
    after: Definition | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageLibrary:
    """The images in the workspace."""

    workspace: Workspace

    def home(self) -> ContainerId:
        """Returns the container of an image whose request names none."""
        principal = self.workspace.principal
        if (home := principal.home) is not None:
            return home
        if principal.containers is None:
            return DEFAULT_CONTAINER
        raise InvalidInput("Your key is for containers with certain names only: name one with `container`")

    async def page(self, container: str | None, cursor: str | None, limit: int) -> tuple[list[Image], str | None]:
        """Lists images of one container or of all: by the name of the container, newest first. Returns the next cursor too."""
        after = None if cursor is None else _read_place(cursor)
        images: list[Image] = []
        async for container_id in self._containers(container, after):
            listed = sorted(await self.workspace.store.container(container_id).list_images(), key=_place)
            images += [image for image in listed if after is None or _place(image) > after]
            if len(images) > limit:
                return images[:limit], _write_place(images[limit - 1])
        return images, None

    async def tagged(self, container: str | None, tag: str) -> list[Image]:
        """Returns the image that a tag of a container means, if it has such a tag."""
        container_id = self.workspace.container_id(self.home() if container is None else container)
        image = await _find_named(self.workspace.store.container(container_id), Alias(IMAGE_TAGS, tag))
        return [] if image is None else [image]

    async def _containers(self, named: str | None, after: Place | None) -> AsyncIterator[ContainerId]:
        """One container or all, by name, from a place on. There may be a million: they are read as they are needed."""
        if named is not None:
            yield self.workspace.container_id(named)
            return
        last = "" if after is None else after[0]
        if after is not None and self.workspace.principal.reaches(after[0]):
            yield ContainerId(after[0])
        while names := await self.workspace.store.next_containers(last, CONTAINERS_MAX):
            for container_id in names:
                yield container_id
            last = names[-1]

    async def base(self, name: str, config: ImageConfig) -> tuple[Definition | None, ImageConfig]:
        """Returns the registered definition of that name; for an agent of the resource centre, a config that refers to it."""
        base = await self.workspace.templates.find(name)
        if isinstance(base, Definition):
            return base, config
        return None, msgspec.structs.replace(config, definition=base)

    async def create(
        self,
        container_id: ContainerId,
        source: Definition | None,
        config: ImageConfig,
        name: str | None = None,
        alias: Alias | None = None,
    ) -> BuiltImage:
        """Builds and stores an image, in a new container if there is none. `name` is used when the config has none.

        `source` is None when the config refers to an agent of the resource centre. With `alias` its default session has that
        name; `Conflict` when another has it.
        """
        config, key = take_key(config, has_key=False)
        frozen = await self.workspace.builder.build(source, config)
        return await self.store(container_id, config, frozen, name, key, alias)

    async def store(
        self,
        container_id: ContainerId,
        config: ImageConfig,
        frozen: Frozen,
        name: str | None,
        key: Secret | None = None,
        alias: Alias | None = None,
    ) -> BuiltImage:
        """Stores a build as a new image, within the tenant's limits. `key` is its own for its model calls."""
        workspace = self.workspace
        await Containers(workspace).ensure(container_id)
        container = workspace.store.container(container_id)

        async def count() -> int:
            return len(await container.list_images())

        quotas = workspace.tenancy.quotas
        async with quotas.adding(workspace.tenant_id, workspace.user_id, "images_per_container", count):
            await workspace.check_storage(len(msgspec.json.encode(config)))
            image, session = build(
                frozen.source,
                config,
                container_id,
                name=name or frozen.source.name,
                clock=workspace.clock,
                new_id=workspace.new_id,
                frozen=frozen,
            )
            if key is not None:
                # Before the image: one that says it has a key has it.
                await self._seal(image, key)
            await container.add_image(image, session, alias)
        workspace.announce(container_id, image.image_id, ImageCreated.of(image))
        return BuiltImage(image, session, frozen.warnings)

    async def open(self, container_id: ContainerId, agent: str) -> tuple[Image, tuple[str, ...], bool]:
        """Returns the image of an agent, warnings, and whether it was built or rebuilt now; by its id as it is."""
        workspace = self.workspace
        if agent.startswith(IMAGE_PREFIX):
            return (await workspace.image(ImageId(agent)))[1], (), False
        if agent.startswith(TAG_PREFIX):
            return await self._tagged(container_id, agent.removeprefix(TAG_PREFIX)), (), False
        source, config = await self.base(agent, ImageConfig())
        alias, key = Alias(AGENTS, agent), ImageId(f"{container_id}/{agent}")
        async with workspace.runtime.rebuilding.hold((workspace.tenant_id, key)):
            container = workspace.store.container(container_id)
            image = await _find_named(container, alias)
            if image is None:
                try:
                    built = await self.create(container_id, source, config, agent, alias)
                except Conflict:
                    # Another node has built it at the same moment.
                    image = await _find_named(container, alias)
                    if image is None:
                        raise
                    return image, (), False
                return built.image, built.warnings, True
            frozen = await workspace.builder.build(source, config)
            if snapshot_of(frozen.definition)[0] == image.digest:
                return image, (), False
            async with self._changing(image.image_id):
                image = await self._rebuild(container, image, config, frozen)
        self._announce_updated(image)
        return image, frozen.warnings, True

    async def _tagged(self, container_id: ContainerId, tag: str) -> Image:
        """Returns the image that a tag of the container means now."""
        image = await _find_named(self.workspace.store.container(container_id), Alias(IMAGE_TAGS, tag))
        if image is None:
            raise ImageNotFound(f"{TAG_PREFIX}{tag}")
        return image

    async def update(
        self,
        image_id: ImageId,
        changes: ImageConfig,
        *,
        name: str | None = None,
        description: str | None = None,
        cleared: Collection[str] = (),
    ) -> tuple[Image, tuple[str, ...]]:
        """Changes the image's name, description and those fields of its config that `changes` sets; returns warnings too.

        The fields that are `cleared` become as if neither the config nor the definition had set them.
        """
        workspace = self.workspace
        warnings: tuple[str, ...] = ()
        check_size(msgspec.structs.replace(changes, name=name, description=description))
        async with self._changing(image_id):
            container, image = await workspace.image(image_id)
            fields = {key: value for key in changes.__struct_fields__ if (value := getattr(changes, key)) is not None}
            fields.pop("has_api_key", None)
            if fields or cleared:
                config = msgspec.structs.replace(image.config, **(dict.fromkeys(cleared) | fields))
                config, key = take_key(config, has_key=image.config.has_api_key and "api_key" not in cleared)
                unset = {key: getattr(_UNSET, key) for key in cleared if key in Definition.__struct_fields__}
                source = msgspec.structs.replace(image.source or image.definition, **unset)
                # A key can always be taken back, although nobody else may pay for the model here.
                is_taken_back = not fields and set(cleared) == {"api_key"} and image.config.has_api_key
                payer = msgspec.structs.replace(config, has_api_key=True) if is_taken_back else config
                frozen = await workspace.builder.build(source, payer, unchanged_pins(image, changes))
                if "api_key" in cleared:
                    await workspace.tenancy.own_keys.remove_image_key(workspace.tenant_id, image_id)
                if key is not None:
                    await self._seal(msgspec.structs.replace(image, definition=frozen.definition), key)
                image, warnings = await self._rebuild(container, image, config, frozen), frozen.warnings
            updated = await container.update_image(image_id, now=workspace.clock(), name=name, description=description)
            if updated is None:
                raise ImageNotFound(image_id)
        self._announce_updated(updated)
        return updated, warnings

    async def upgrade(self, image_id: ImageId, *, dry_run: bool = False) -> Upgrade:
        """Resolves the image's floating references again and rebuilds it if any means another version now."""
        workspace = self.workspace
        async with self._changing(image_id):
            container, image = await workspace.image(image_id)
            before = locked_roots(image)
            exact = {uri: entry.version_id for uri, entry in before.items() if parse_uri(uri).is_exact}
            if len(exact) == len(before):
                return Upgrade(image)
            frozen = await workspace.builder.freeze(image.source or image.definition, image.config, exact)
            changes = {
                uri: (before[uri], entry)
                for uri, entry in frozen.roots.items()
                if uri in before and before[uri].version_id != entry.version_id
            }
            if not changes:
                return Upgrade(image)
            await workspace.builder.check(frozen.definition, keyed=image.config.has_api_key)
            old = image.definition
            if not dry_run:
                image = await self._rebuild(container, image, image.config, frozen)
        if not dry_run:
            self._announce_updated(image)
        return Upgrade(image, changes, old, frozen.definition, frozen.warnings)

    async def count_behind(self, image: Image) -> int:
        """Returns how many floating references of the image mean another version now. Resources that are gone do not count."""
        behind = 0
        for uri, entry in locked_roots(image).items():
            if parse_uri(uri).is_exact:
                continue
            try:
                closure = await self.workspace.resources.resolver.find(self.workspace.tenant_id, parse_uri(uri))
            except NotFound:
                continue
            behind += closure.root.version.version_id != entry.version_id
        return behind

    async def delete(self, image_id: ImageId) -> None:
        """Stops the image's agents and deletes it with its sessions."""
        workspace, runtime = self.workspace, self.workspace.runtime
        container, image = await workspace.image(image_id)
        await workspace.stop_elsewhere(image_id=image_id)
        await runtime.stop_image(workspace.tenant_id, image)
        sessions = await container.list_sessions(image_id)
        if not await container.delete_image(image_id):
            return
        # A peer that had read the image just before may have started another agent meanwhile.
        await runtime.stop_image(workspace.tenant_id, image)
        for session in sessions:
            runtime.forget_session(workspace.tenant_id, session.session_id)
        deleted = ImageDeleted(image_id=image_id, container_id=image.container_id)
        workspace.announce(image.container_id, image_id, deleted)

    async def _seal(self, image: Image, key: Secret) -> None:
        own_keys, tenant_id = self.workspace.tenancy.own_keys, self.workspace.tenant_id
        await own_keys.seal_image_key(tenant_id, image.image_id, image.definition.model, key)

    def _changing(self, image_id: ImageId) -> AbstractAsyncContextManager[None]:
        """One change of an image at a time: each builds on the result of the one before."""
        return self.workspace.runtime.rebuilding.hold((self.workspace.tenant_id, image_id))

    async def _rebuild(self, container: ContainerStore, image: Image, config: ImageConfig, frozen: Frozen) -> Image:
        workspace = self.workspace
        await workspace.check_storage(len(msgspec.json.encode(config)))
        rebuilt = rebuild(image, config, frozen, workspace.clock())
        if not await container.rebuild_image(rebuilt):
            raise ImageNotFound(image.image_id)
        workspace.runtime.replace_image(workspace.tenant_id, rebuilt)
        return rebuilt

    def _announce_updated(self, image: Image) -> None:
        self.workspace.announce(image.container_id, image.image_id, ImageUpdated.of(image))


def take_key(config: ImageConfig, *, has_key: bool) -> tuple[ImageConfig, Secret | None]:
    """Returns the config without the key of the image, which says whether there is one; and the key."""
    key = None if config.api_key is None else Secret(config.api_key)
    return msgspec.structs.replace(config, api_key=None, has_api_key=has_key or key is not None), key


async def _find_named(container: ContainerStore, alias: Alias) -> Image | None:
    session_id = await container.aliases.find(alias)
    session = None if session_id is None else await container.get_session(session_id)
    return None if session is None else await container.get_image(session.image_id)


def _place(image: Image) -> Place:
    return image.container_id, -image.created_at, image.image_id


def _write_place(image: Image) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_place(image))).decode().rstrip("=")


def _read_place(cursor: str) -> Place:
    try:
        place: Place = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=Place)
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError):
        raise InvalidInput("Invalid cursor: pass the `nextCursor` of a previous page unchanged") from None
    return place
