"""Image commands — build, run, stop, change, upgrade, list, delete."""

from collections.abc import Sequence

import msgspec

from agentvm.blueprint.image import DEFAULT_NAME, references
from agentvm.commands.call import Call
from agentvm.errors import InvalidInput
from agentvm.model.definition import DEFAULT_TOOLS, Definition, Rendered
from agentvm.model.ids import SessionId
from agentvm.model.image import Image, ImageConfig
from agentvm.protocol import commands as ask
from agentvm.protocol.ignored import describe_ignored
from agentvm.protocol.records import EffectiveConfig, ImageRecord, LockRecord
from agentvm.sessions.images import ImageLibrary
from agentvm.sessions.message_pages import read_recent
from agentvm.vm import Peer

BEHAVIOUR = tuple(name for name in ask.ImageUpdates.__struct_fields__ if name not in ("name", "description"))
"""What an update may change of a config; the rest is of the image itself."""


async def create(call: Call, command: ask.ImageCreate) -> ask.ImageReply:
    config, images = command.config or ImageConfig(), ImageLibrary(call.workspace)
    source: Definition | None = call.peer.vm.definitions.default
    if config.definition is not None:
        source, config = await images.base(config.definition, config)
    return await _build(call, command, source, config, DEFAULT_NAME)


async def build_from(call: Call, command: ask.ImageBuild) -> ask.ImageReply:
    config, images = command.config or ImageConfig(), ImageLibrary(call.workspace)
    if config.definition is not None:
        raise InvalidInput("The definition is given twice; leave config.definition out")
    source: Definition | None
    if isinstance(command.definition, Definition):
        source = command.definition
    else:
        source, config = await images.base(command.definition, config)
    return await _build(call, command, source, config, None)


async def run(call: Call, command: ask.ImageRun) -> ask.ImageRunReply:
    _, image = await call.workspace.image(command.image_id)
    call.peer.listen(image.container_id, image.session_id)
    agent, reused = call.peer.vm.runtime.start_agent(call.peer.tenant_id, image, image.session_id)
    return ask.ImageRunReply(image_id=image.image_id, agent_id=agent.agent_id, reused=reused, session_id=image.session_id)


async def stop(call: Call, command: ask.ImageStop) -> ask.ImageIdReply:
    _, image = await call.workspace.image(command.image_id)
    call.peer.join(image.container_id)
    await call.peer.vm.runtime.stop_image(call.peer.tenant_id, image)
    return ask.ImageIdReply(image_id=image.image_id)


async def update(call: Call, command: ask.ImageUpdate) -> ask.ImageReply:
    updates, images = command.updates, ImageLibrary(call.workspace)
    changes = ImageConfig(**{name: getattr(updates, name) for name in BEHAVIOUR})
    call.peer.join((await call.workspace.image(command.image_id))[1].container_id)
    image, warnings = await images.update(command.image_id, changes, name=updates.name, description=updates.description)
    return _reported(command.ignored, ask.ImageReply(record=_record(call.peer, image), warnings=warnings or None))


async def upgrade(call: Call, command: ask.ImageUpgrade) -> ask.ImageUpgradeReply:
    call.peer.join((await call.workspace.image(command.image_id))[1].container_id)
    done = await ImageLibrary(call.workspace).upgrade(command.image_id, dry_run=command.dry_run)
    changes = [
        ask.ImageChange(uri=uri, before=before.version, after=after.version) for uri, (before, after) in done.changes.items()
    ]
    return ask.ImageUpgradeReply(
        record=_record(call.peer, done.image),
        changes=tuple(changes),
        diff=_difference(done.before, done.after) if done.before is not None and done.after is not None else {},
        applied=bool(changes) and not command.dry_run,
        warnings=done.warnings or None,
    )


async def list_some(call: Call, command: ask.ImageList) -> ask.ImageListReply:
    home = call.peer.principal.home
    if command.container_id is not None:
        wanted = [call.workspace.container_id(command.container_id)]
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
    found = await call.workspace.find_image(command.image_id)
    if found is None:
        return ask.ImageReply(record=None)
    image = found[1]
    return ask.ImageReply(record=_record(call.peer, image), subscriptions=_listen(call.peer, [image]))


async def delete(call: Call, command: ask.ImageDelete) -> ask.ImageIdReply:
    found = await call.workspace.find_image(command.image_id)
    if found is not None:
        call.peer.join(found[1].container_id)
        await ImageLibrary(call.workspace).delete(command.image_id)
    return ask.ImageIdReply(image_id=command.image_id)


async def messages(call: Call, command: ask.ImageMessages) -> ask.ImageMessagesReply:
    store, image = await call.workspace.image(command.image_id)
    _listen(call.peer, [image])
    said, truncated = await read_recent(call.room, store, image.session_id)
    return ask.ImageMessagesReply(image_id=image.image_id, messages=said, truncated=truncated)


async def _build(
    call: Call,
    command: ask.ImageCreate | ask.ImageBuild,
    source: Definition | None,
    config: ImageConfig,
    name: str | None,
) -> ask.ImageReply:
    """`source` is None when the config refers to an agent. `name` is used when the config has none."""
    container_id = call.workspace.container_id(command.container_id)
    # Joined first, so that the peer hears of its own image.
    call.peer.join(container_id)
    built = await ImageLibrary(call.workspace).create(container_id, source, config, name)
    heard = call.peer.subscribe(built.session)
    reply = ask.ImageReply(record=_record(call.peer, built.image), subscriptions=heard, warnings=built.warnings or None)
    return _reported(command.ignored, reply)


def _reported(ignored: tuple[str, ...], reply: ask.ImageReply) -> ask.ImageReply:
    """The reply, with a warning for each field of the request that means nothing here."""
    warnings = (*describe_ignored(ignored), *(reply.warnings or ()))
    return msgspec.structs.replace(reply, warnings=warnings or None)


def _difference(before: Definition, after: Definition) -> dict[str, ask.ImageDifference]:
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    return {
        name: ask.ImageDifference(before=old.get(name), after=new.get(name))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    }


def _listen(peer: Peer, images: Sequence[Image]) -> tuple[SessionId, ...]:
    return tuple(heard for image in images for heard in peer.listen(image.container_id, image.session_id))


def _effective(peer: Peer, image: Image) -> EffectiveConfig:
    """What a turn of the image would be run with now."""
    definition, rendered = image.definition, image.definition.rendered or Rendered()
    return EffectiveConfig(
        model=peer.vm.runtime.model_name(definition.model or peer.vm.tenancy.own_keys.default_of(peer.tenant_id)),
        max_tokens=definition.max_tokens or peer.vm.runtime.settings_of(peer.tenant_id).defaults.max_tokens,
        tools=DEFAULT_TOOLS if definition.tools is None else definition.tools,
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
