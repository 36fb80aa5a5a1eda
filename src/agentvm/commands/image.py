"""Image commands — build, run, stop, change, upgrade, list, delete."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import msgspec

from agentvm.blueprint.definition import check_size
from agentvm.blueprint.image import DEFAULT_NAME, Frozen, build, rebuild, references
from agentvm.commands import container
from agentvm.commands.call import Call
from agentvm.commands.definition import find_base
from agentvm.commands.references import Pins, freeze, locked_roots
from agentvm.errors import DriverNotFound, ImageNotFound, InvalidInput
from agentvm.events.base import EventScope
from agentvm.events.lifecycle import ImageCreated, ImageDeleted, ImageUpdated
from agentvm.model.definition import Definition, Rendered
from agentvm.model.ids import ImageId, SessionId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.resource import Locked, parse_uri
from agentvm.protocol import commands as ask
from agentvm.protocol.ignored import describe_ignored
from agentvm.protocol.records import EffectiveConfig, ImageRecord, LockRecord
from agentvm.sessions.message_pages import read_recent
from agentvm.storage.base import ContainerStore
from agentvm.vm import Peer

BEHAVIOUR = tuple(name for name in ask.ImageUpdates.__struct_fields__ if name not in ("name", "description"))
"""What an update may change of a config; the rest is of the image itself."""


async def create(call: Call, command: ask.ImageCreate) -> ask.ImageReply:
    config = command.config or ImageConfig()
    source: Definition | None = call.peer.vm.definitions.default
    if config.definition is not None:
        source, config = await _named(call.peer, config.definition, config)
    return _reported(command.ignored, await _build(call, command.container_id, source, config, DEFAULT_NAME))


async def build_from(call: Call, command: ask.ImageBuild) -> ask.ImageReply:
    config = command.config or ImageConfig()
    if config.definition is not None:
        raise InvalidInput("The definition is given twice; leave config.definition out")
    source: Definition | None
    if isinstance(command.definition, Definition):
        source = command.definition
    else:
        source, config = await _named(call.peer, command.definition, config)
    return _reported(command.ignored, await _build(call, command.container_id, source, config, None))


async def run(call: Call, command: ask.ImageRun) -> ask.ImageRunReply:
    _, image = await call.image(command.image_id)
    call.peer.listen(image.container_id, image.session_id)
    agent, reused = call.peer.vm.runtime.start_agent(call.peer.tenant_id, image, image.session_id)
    return ask.ImageRunReply(image_id=image.image_id, agent_id=agent.agent_id, reused=reused, session_id=image.session_id)


async def stop(call: Call, command: ask.ImageStop) -> ask.ImageIdReply:
    _, image = await call.image(command.image_id)
    call.peer.join(image.container_id)
    await call.peer.vm.runtime.stop_image(call.peer.tenant_id, image)
    return ask.ImageIdReply(image_id=image.image_id)


async def update(call: Call, command: ask.ImageUpdate) -> ask.ImageReply:
    updates, peer = command.updates, call.peer
    check_size(updates)
    given = {name: value for name in BEHAVIOUR if (value := getattr(updates, name)) is not None}
    warnings: tuple[str, ...] = ()
    async with _alone(peer, command.image_id):
        store, image = await call.image(command.image_id)
        if given:
            config = msgspec.structs.replace(image.config, **given)
            frozen = await freeze(peer, image.source or image.definition, config, _unchanged(image, given))
            image, warnings = await _rebuild(peer, store, image, config, frozen), frozen.warnings
        names = {"name": updates.name, "description": updates.description}
        changed = await store.update_image(image.image_id, now=peer.vm.clock(), **names)
        if changed is None:
            raise ImageNotFound(command.image_id)
    _tell_updated(peer, changed)
    return _reported(command.ignored, ask.ImageReply(record=_record(peer, changed), warnings=warnings or None))


async def upgrade(call: Call, command: ask.ImageUpgrade) -> ask.ImageUpgradeReply:
    peer = call.peer
    async with _alone(peer, command.image_id):
        store, image = await call.image(command.image_id)
        peer.join(image.container_id)
        before = locked_roots(image)
        floating = [uri for uri in before if not parse_uri(uri).is_exact]
        changes: tuple[ask.ImageChange, ...] = ()
        if floating:
            exact = {uri: entry.version_id for uri, entry in before.items() if uri not in floating}
            frozen = await freeze(peer, image.source or image.definition, image.config, exact)
            changes = tuple(_changes(before, frozen))
        if not changes:
            return ask.ImageUpgradeReply(record=_record(peer, image), changes=(), diff={}, applied=False)
        diff = _difference(image.definition, frozen.definition)
        await _check(peer, frozen.definition)
        if not command.dry_run:
            image = await _rebuild(peer, store, image, image.config, frozen)
    if not command.dry_run:
        _tell_updated(peer, image)
    return ask.ImageUpgradeReply(
        record=_record(peer, image),
        changes=changes,
        diff=diff,
        applied=not command.dry_run,
        warnings=frozen.warnings or None,
    )


async def list_some(call: Call, command: ask.ImageList) -> ask.ImageListReply:
    home = call.peer.principal.home
    if command.container_id is not None:
        wanted = [call.container_id(command.container_id)]
    else:
        # Never everybody's: the one that is bound, or those this connection has named.
        wanted = sorted(call.peer.joined()) if home is None else [home]
    for container_id in wanted:
        # Who shows a container's images shows also those that another device makes.
        call.peer.join(container_id, follow=True)
    images: list[Image] = []
    for container_id in wanted:
        images += await call.peer.store.container(container_id).list_images()
    images.sort(key=lambda image: image.created_at, reverse=True)
    return ask.ImageListReply(
        records=tuple(_record(call.peer, image, whole=False) for image in images), subscriptions=_listen(call.peer, images)
    )


async def get(call: Call, command: ask.ImageGet) -> ask.ImageReply:
    found = await call.find_image(command.image_id)
    if found is None:
        return ask.ImageReply(record=None)
    image = found[1]
    return ask.ImageReply(record=_record(call.peer, image), subscriptions=_listen(call.peer, [image]))


async def delete(call: Call, command: ask.ImageDelete) -> ask.ImageIdReply:
    found = await call.find_image(command.image_id)
    if found is not None:
        store, image = found
        call.peer.join(image.container_id)
        await call.peer.vm.runtime.stop_image(call.peer.tenant_id, image)
        sessions = await store.list_sessions(image.image_id)
        if await store.delete_image(image.image_id):
            # A peer that had read the image just before may have started another agent meanwhile.
            await call.peer.vm.runtime.stop_image(call.peer.tenant_id, image)
            for session in sessions:
                call.peer.vm.runtime.forget_session(call.peer.tenant_id, session.session_id)
            told = ImageDeleted(image_id=image.image_id, container_id=image.container_id)
            call.peer.vm.runtime.tell(call.peer.tenant_id, _scope(image), told)
    return ask.ImageIdReply(image_id=command.image_id)


async def messages(call: Call, command: ask.ImageMessages) -> ask.ImageMessagesReply:
    store, image = await call.image(command.image_id)
    _listen(call.peer, [image])
    said, truncated = await read_recent(call.room, store, image.session_id)
    return ask.ImageMessagesReply(image_id=image.image_id, messages=said, truncated=truncated)


async def _named(peer: Peer, named: str, config: ImageConfig) -> tuple[Definition | None, ImageConfig]:
    """The definition of that name; for an agent of the resource centre, the config that refers to it."""
    found = await find_base(peer, named)
    if isinstance(found, Definition):
        return found, config
    return None, msgspec.structs.replace(config, definition=found)


async def _build(call: Call, wanted: str, source: Definition | None, config: ImageConfig, name: str | None) -> ask.ImageReply:
    """`source` is None when the config refers to an agent. `name` is used when the config has none."""
    peer = call.peer
    frozen = await freeze(peer, source, config)
    await _check(peer, frozen.definition)
    container_id = await container.ensure(call, wanted)
    store = peer.store.container(container_id)

    async def count() -> int:
        return len(await store.list_images())

    async with peer.vm.tenancy.quotas.adding(peer.tenant_id, peer.principal.user_id, "images_per_container", count):
        await peer.check_quota("storage_bytes", peer.accounts.quotas.storage_bytes, len(msgspec.json.encode(config)))
        image, session = build(
            frozen.source,
            config,
            container_id,
            name=name or frozen.source.name,
            clock=peer.vm.clock,
            new_id=peer.vm.new_id,
            frozen=frozen,
        )
        await store.add_image(image, session)
    heard = peer.subscribe(session)
    told = ImageCreated(image_id=image.image_id, container_id=container_id, name=image.name, created_at=image.created_at)
    peer.vm.runtime.tell(peer.tenant_id, _scope(image), told)
    return ask.ImageReply(record=_record(peer, image), subscriptions=heard, warnings=frozen.warnings or None)


def _reported(ignored: tuple[str, ...], reply: ask.ImageReply) -> ask.ImageReply:
    """The reply, with a warning for each field of the request that means nothing here."""
    warnings = (*describe_ignored(ignored), *(reply.warnings or ()))
    return msgspec.structs.replace(reply, warnings=warnings or None)


@asynccontextmanager
async def _alone(peer: Peer, image_id: ImageId) -> AsyncIterator[None]:
    """One change of an image at a time: each builds on what the one before has left."""
    lock = peer.vm.runtime.rebuilding.setdefault((peer.tenant_id, image_id), anyio.Lock())
    async with lock:
        yield


async def _rebuild(peer: Peer, store: ContainerStore, image: Image, config: ImageConfig, frozen: Frozen) -> Image:
    await _check(peer, frozen.definition)
    await peer.check_quota("storage_bytes", peer.accounts.quotas.storage_bytes, len(msgspec.json.encode(config)))
    rebuilt = rebuild(image, config, frozen, peer.vm.clock())
    if not await store.rebuild_image(rebuilt):
        raise ImageNotFound(image.image_id)
    peer.vm.runtime.replace_image(peer.tenant_id, rebuilt)
    return rebuilt


def _unchanged(image: Image, given: dict[str, object]) -> Pins:
    """The image's own references that an update leaves as they are: they mean what they meant, whatever was published since."""
    config = msgspec.structs.replace(ImageConfig(), **given)
    named = {one.uri for one in references(Definition(name=""), config)}
    return {uri: entry.version_id for uri, entry in locked_roots(image).items() if uri not in named}


def _changes(before: dict[str, Locked], frozen: Frozen) -> Sequence[ask.ImageChange]:
    return [
        ask.ImageChange(uri=uri, before=before[uri].version, after=entry.version)
        for uri, entry in frozen.roots.items()
        if uri in before and before[uri].version_id != entry.version_id
    ]


def _difference(before: Definition, after: Definition) -> dict[str, ask.ImageDifference]:
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    return {
        name: ask.ImageDifference(before=old.get(name), after=new.get(name))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    }


def _tell_updated(peer: Peer, image: Image) -> None:
    peer.join(image.container_id)
    told = ImageUpdated(
        image_id=image.image_id,
        container_id=image.container_id,
        name=image.name,
        description=image.description,
        updated_at=image.updated_at,
    )
    peer.vm.runtime.tell(peer.tenant_id, _scope(image), told)


async def _check(peer: Peer, definition: Definition) -> None:
    try:
        peer.vm.runtime.check(definition)
    except DriverNotFound:
        # The server has no key for that provider, but the tenant may.
        if not await peer.vm.tenancy.own_keys.has(peer.tenant_id, definition.model):
            raise


def _listen(peer: Peer, images: Sequence[Image]) -> tuple[SessionId, ...]:
    return tuple(heard for image in images for heard in peer.listen(image.container_id, image.session_id))


def _scope(image: Image) -> EventScope:
    return EventScope(container_id=image.container_id, image_id=image.image_id)


def _effective(peer: Peer, image: Image) -> EffectiveConfig:
    """What a turn of the image would be run with now."""
    definition, rendered = image.definition, image.definition.rendered or Rendered()
    return EffectiveConfig(
        model=peer.vm.runtime.model_name(definition.model or peer.vm.tenancy.own_keys.default_of(peer.tenant_id)),
        max_tokens=definition.max_tokens or peer.vm.runtime.limits_of(peer.tenant_id).max_tokens,
        tools=peer.vm.runtime.tool_names if definition.tools is None else definition.tools,
        system_prompt=definition.system_prompt,
        temperature=definition.temperature,
        thinking=definition.thinking,
        variables={**((image.source or definition).variables or {}), **(image.config.variables or {})} or None,
        sandbox=None if rendered.sandbox is None else str(rendered.sandbox["uri"]),
        knowledge=tuple(str(one["uri"]) for one in rendered.knowledge),
        unavailable=tuple(str(one["uri"]) for one in rendered.tools),
    )


def _record(peer: Peer, image: Image, *, whole: bool = True) -> ImageRecord:
    agent = peer.vm.runtime.agent_of(peer.tenant_id, image)
    named = {} if image.source is None else {one.place: one.uri for one in references(image.source, image.config)}
    return ImageRecord(
        image_id=image.image_id,
        container_id=image.container_id,
        session_id=image.session_id,
        name=image.name,
        description=image.description,
        system_prompt=image.definition.system_prompt,
        created_at=image.created_at,
        updated_at=image.updated_at,
        online=agent is not None,
        agent_id=None if agent is None else agent.agent_id,
        definition_name=image.definition_name,
        digest=image.digest,
        system_prompt_ref=named.get("systemPrompt"),
        definition_ref=named.get("definition"),
        tool_refs=tuple(uri for place, uri in named.items() if place.startswith("tools.")) or None,
        lock=tuple(LockRecord(uri=one.uri, version=one.version, digest=one.digest) for one in image.lock) or None,
        config=_effective(peer, image) if whole else None,
    )
