"""Image commands — build, run, stop, rename, list, delete."""

from collections.abc import Sequence

from agentvm.blueprint.definition import check_size
from agentvm.blueprint.image import DEFAULT_NAME, apply_config, build
from agentvm.commands import container
from agentvm.commands.call import Call, Peer
from agentvm.errors import DriverNotFound, ImageNotFound
from agentvm.events.base import Scope
from agentvm.events.lifecycle import ImageCreated, ImageDeleted, ImageUpdated
from agentvm.model.definition import Definition
from agentvm.model.ids import SessionId
from agentvm.model.image import Image, ImageConfig
from agentvm.protocol import commands as ask
from agentvm.protocol.records import ImageRecord


async def create(call: Call, command: ask.ImageCreate) -> ask.ImageReply:
    return await _build(call, command.container_id, call.peer.definitions.default, command.config, DEFAULT_NAME)


async def build_from(call: Call, command: ask.ImageBuild) -> ask.ImageReply:
    definition = command.definition
    if isinstance(definition, str):
        definition = call.peer.definitions.get(call.peer.tenant_id, definition)
    return await _build(call, command.container_id, definition, command.config, definition.name)


async def run(call: Call, command: ask.ImageRun) -> ask.ImageRunReply:
    _, image = await call.image(command.image_id)
    call.peer.listen(image.container_id, image.session_id)
    agent, reused = call.peer.runtime.start_agent(call.peer.tenant_id, image, image.session_id)
    return ask.ImageRunReply(image_id=image.image_id, agent_id=agent.agent_id, reused=reused, session_id=image.session_id)


async def stop(call: Call, command: ask.ImageStop) -> ask.ImageIdReply:
    _, image = await call.image(command.image_id)
    call.peer.join(image.container_id)
    await call.peer.runtime.stop_image(call.peer.tenant_id, image)
    return ask.ImageIdReply(image_id=image.image_id)


async def update(call: Call, command: ask.ImageUpdate) -> ask.ImageReply:
    store, image = await call.image(command.image_id)
    updates, now = command.updates, call.peer.clock()
    check_size(updates)
    changed = await store.update_image(image.image_id, name=updates.name, description=updates.description, now=now)
    if changed is None:
        raise ImageNotFound(command.image_id)
    call.peer.join(changed.container_id)
    told = ImageUpdated(
        image_id=changed.image_id,
        container_id=changed.container_id,
        name=changed.name,
        description=changed.description,
        updated_at=changed.updated_at,
    )
    call.peer.runtime.tell(call.peer.tenant_id, _scope(changed), told)
    return ask.ImageReply(record=_record(call.peer, changed))


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
        records=tuple(_record(call.peer, image) for image in images), subscriptions=_listen(call.peer, images)
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
        await call.peer.runtime.stop_image(call.peer.tenant_id, image)
        sessions = await store.list_sessions(image.image_id)
        if await store.delete_image(image.image_id):
            # A peer that had read the image just before may have started another agent meanwhile.
            await call.peer.runtime.stop_image(call.peer.tenant_id, image)
            for session in sessions:
                call.peer.runtime.forget_session(call.peer.tenant_id, session.session_id)
            told = ImageDeleted(image_id=image.image_id, container_id=image.container_id)
            call.peer.runtime.tell(call.peer.tenant_id, _scope(image), told)
    return ask.ImageIdReply(image_id=command.image_id)


async def messages(call: Call, command: ask.ImageMessages) -> ask.ImageMessagesReply:
    store, image = await call.image(command.image_id)
    _listen(call.peer, [image])
    return ask.ImageMessagesReply(image_id=image.image_id, messages=await store.list_messages(image.session_id))


async def _build(call: Call, wanted: str, definition: Definition, config: ImageConfig | None, name: str) -> ask.ImageReply:
    peer, config = call.peer, config or ImageConfig()
    check_size(definition, config)
    await _check(peer, apply_config(definition, config))
    container_id = await container.ensure(call, wanted)
    store = peer.store.container(container_id)

    async def count() -> int:
        return len(await store.list_images())

    async with peer.office.quotas.adding(peer.tenant_id, peer.principal.user_id, "images_per_container", count):
        await peer.check_quota("storage_bytes", peer.accounts.quotas.storage_bytes)
        image, session = build(definition, config, container_id, name=name, clock=peer.clock, new_id=peer.new_id)
        await store.add_image(image, session)
    heard = peer.subscribe(session)
    told = ImageCreated(image_id=image.image_id, container_id=container_id, name=image.name, created_at=image.created_at)
    peer.runtime.tell(peer.tenant_id, _scope(image), told)
    return ask.ImageReply(record=_record(peer, image), subscriptions=heard)


async def _check(peer: Peer, definition: Definition) -> None:
    try:
        peer.runtime.check(definition)
    except DriverNotFound:
        # The server has no key for that provider, but the tenant may.
        if not await peer.office.own_keys.has(peer.tenant_id, definition.model):
            raise


def _listen(peer: Peer, images: Sequence[Image]) -> tuple[SessionId, ...]:
    return tuple(heard for image in images for heard in peer.listen(image.container_id, image.session_id))


def _scope(image: Image) -> Scope:
    return Scope(container_id=image.container_id, image_id=image.image_id)


def _record(peer: Peer, image: Image) -> ImageRecord:
    agent = peer.runtime.agent_of(peer.tenant_id, image)
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
    )
