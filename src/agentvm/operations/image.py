"""Images — list, show, run, stop and delete."""

from collections.abc import Sequence

import msgspec

from agentvm.blueprint.image import apply_config, references
from agentvm.errors import ContainerForbidden, ImageNotFound
from agentvm.model.base import record_from
from agentvm.model.definition import DEFAULT_TOOLS, Rendered
from agentvm.model.ids import ImageId, SessionId, agent_id_of
from agentvm.model.image import Image
from agentvm.model.limits import Limits
from agentvm.model.message import Message
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest
from agentvm.protocol.records import DefinitionRecord, EffectiveConfig, ImageRecord, LockRecord, TurnLimits
from agentvm.protocol.requests import Reply, Request, SubscribingReply
from agentvm.sessions.message_pages import read_recent

operation = OperationGroup("images")

READ, WRITE, USE = "images:read", "images:write", "agent:use"
_ALL, _ONE = "/v1/images", "/v1/images/{image_id}"


class ImageRunReply(Reply):
    image_id: ImageId
    agent_id: str
    reused: bool
    session_id: SessionId | None = None


class ImageRun(Request[ImageRunReply]):
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageRunReply(image_id=self.image_id, agent_id="", reused=False)


@operation("image.run", needs=USE, command=True)
async def run(context: Context, request: ImageRun) -> ImageRunReply:
    """Start the agent of an image's default session, or return the running one (`reused`).

    Subscribes. Emits `agent_registered` for a new agent. Fails with `image_not_found`, `shutting_down`.
    """
    _, image = await context.workspace.image(request.image_id)
    context.listen(image.container_id, image.session_id)
    agent, reused = context.vm.runtime.start_agent(context.tenant_id, image, image.session_id)
    return ImageRunReply(image_id=image.image_id, agent_id=agent.agent_id, reused=reused, session_id=image.session_id)


class ImageIdReply(Reply):
    image_id: ImageId


class ImageStop(Request[ImageIdReply]):
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageIdReply(image_id=self.image_id)


@operation("image.stop", needs=USE, command=True, http=Http("POST", f"{_ONE}/stop"), raises=(ImageNotFound,))
async def stop(context: Context, request: ImageStop) -> ImageIdReply:
    """Stop every agent of an image.

    A running turn ends as interrupted. Emits `session_destroyed` and `agent_unregistered` for each. Fails with
    `image_not_found`.
    """
    _, image = await context.workspace.image(request.image_id)
    context.join(image.container_id)
    await context.vm.runtime.stop_image(context.tenant_id, image, ends_parked=True)
    return ImageIdReply(image_id=image.image_id)


class ImageListReply(SubscribingReply):
    records: tuple[ImageRecord, ...]


class ImageList(Request[ImageListReply]):
    container_id: str | None = None

    def refused(self) -> Reply:
        return ImageListReply(records=())


@operation("image.list", needs=READ, command=True)
async def list_of_container(context: Context, request: ImageList) -> ImageListReply:
    """List the images of a container, newest first.

    Without `containerId`, of the containers that this connection has worked with. Subscribes to their default sessions.
    """
    home = context.principal.home
    if request.container_id is not None:
        containers = [context.workspace.container_id(request.container_id)]
    else:
        # Never everybody's: the one that is bound, or those this connection has named.
        containers = sorted(context.joined()) if home is None else [home]
    for container_id in containers:
        # A client that shows a container's images also shows those that another device builds.
        context.join(container_id, follow=True)
    images = [image for container_id in containers for image in await context.store.container(container_id).list_images()]
    images.sort(key=lambda image: image.created_at, reverse=True)
    records = await _with_other_nodes(context, [image_record(context, image, with_config=False) for image in images])
    return ImageListReply(records=tuple(records), subscriptions=_listen(context, images))


class ImageBrowse(PageRequest):
    """`cursor` is the `nextCursor` of the previous page.

    With a `tag` only the image that has it, in your own container unless another is named.
    """

    container_id: str | None = None
    tag: str | None = None


class ImagesPage(Page[ImageRecord]):
    """Part of a list. `nextCursor` is absent on the last page."""


@operation("image.browse", needs=READ, http=Http("GET", _ALL, id="images_list_all"), raises=(ContainerForbidden,))
async def browse(context: Context, request: ImageBrowse) -> ImagesPage:
    """List images.

    Of one container, or of every container that you may use: by the name of the container, the newest image first. `behind`
    counts the references that resolve to another version now.
    """
    if request.tag is None:
        images, next_cursor = await context.images.page(request.container_id, request.cursor, request.limit)
    else:
        images, next_cursor = await context.images.tagged(request.container_id, request.tag), None
    records = await _with_other_nodes(context, [image_record(context, image, with_config=False) for image in images])
    behind = [await context.images.count_behind(image) for image in images]
    items = [msgspec.structs.replace(record, behind=count) for record, count in zip(records, behind, strict=True)]
    return ImagesPage(items=items, next_cursor=next_cursor)


class ImageGetReply(SubscribingReply):
    record: ImageRecord | None


class ImageGet(Request[ImageGetReply]):
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageGetReply(record=None)


@operation("image.get", needs=READ, command=True, http=Http("GET", _ONE, result="record"), raises=(ImageNotFound,))
async def get(context: Context, request: ImageGet) -> ImageGetReply:
    """Show an image.

    `config` is the effective configuration of the image, `written` the one that was requested. Over a WebSocket `record` is
    `null` when there is no such image. Subscribes.
    """
    stored = await context.workspace.find_image(request.image_id)
    if stored is None:
        return ImageGetReply(record=None)
    image = stored[1]
    (record,) = await _with_other_nodes(context, [image_record(context, image)])
    if context.peer is None:
        record = msgspec.structs.replace(record, behind=await context.images.count_behind(image))
    return ImageGetReply(record=record, subscriptions=_listen(context, [image]))


class ImageDelete(Request[ImageIdReply]):
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageIdReply(image_id=self.image_id)


@operation("image.delete", needs=WRITE, command=True, audit="image.delete")
async def delete(context: Context, request: ImageDelete) -> ImageIdReply:
    """Stop the agents of an image, then delete it with its sessions and messages.

    Deleting an image that does not exist succeeds. Emits `image_deleted`.
    """
    context.target = request.image_id
    image = await context.workspace.find_image(request.image_id)
    if image is not None:
        context.join(image[1].container_id)
        await context.images.delete(request.image_id)
    return ImageIdReply(image_id=request.image_id)


class ImageRemove(Request[None]):
    image_id: ImageId


@operation(
    "image.remove", needs=WRITE, http=Http("DELETE", _ONE, id="images_delete"), audit="image.delete", raises=(ImageNotFound,)
)
async def remove(context: Context, request: ImageRemove) -> None:
    """Delete an image.

    Its sessions and their messages are deleted with it.
    """
    await context.images.delete(request.image_id)


class ImageMessagesReply(Reply):
    """`truncated` when older messages were left out because of their size: `session_history` reads all, page by page."""

    image_id: ImageId
    messages: tuple[Message, ...]
    truncated: bool = False


class ImageMessages(Request[ImageMessagesReply]):
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageMessagesReply(image_id=self.image_id, messages=())


@operation("image.messages", needs="sessions:read", command=True)
async def messages(context: Context, request: ImageMessages) -> ImageMessagesReply:
    """Read the newest messages of an image's default session, oldest first. Subscribes. Fails with `image_not_found`."""
    store, image = await context.workspace.image(request.image_id)
    _listen(context, [image])
    newest, truncated = await read_recent(context.room, store, image.session_id)
    return ImageMessagesReply(image_id=image.image_id, messages=newest, truncated=truncated)


def _listen(context: Context, images: Sequence[Image]) -> tuple[SessionId, ...]:
    return tuple(session_id for image in images for session_id in context.listen(image.container_id, image.session_id))


def _effective(context: Context, image: Image) -> EffectiveConfig:
    """The settings that the next turn of the image runs with."""
    definition, rendered = image.definition, image.definition.rendered or Rendered()
    runtime, tenant_id = context.vm.runtime, context.tenant_id
    settings = runtime.settings_of(tenant_id)
    return EffectiveConfig(
        model=runtime.model_name(definition.model or context.vm.tenancy.own_keys.default_of(tenant_id)),
        max_tokens=definition.max_tokens or settings.defaults.max_tokens,
        limits=_turn_limits(settings.limits),
        tools=DEFAULT_TOOLS if definition.tools is None else definition.tools,
        system_prompt=definition.system_prompt,
        temperature=definition.temperature,
        thinking=definition.thinking,
        output=definition.output,
        own_key=image.config.has_api_key,
        variables={**((image.source or definition).variables or {}), **(image.config.variables or {})} or None,
        sandbox=None if rendered.sandbox is None else str(rendered.sandbox["uri"]),
        knowledge=tuple(str(entry["uri"]) for entry in rendered.knowledge),
        skills=tuple(str(entry["uri"]) for entry in rendered.skills),
        agents=tuple(rendered.agents),
        handoffs=rendered.handoffs,
        policy=definition.policy,
        unavailable=tuple(str(tool["uri"]) for tool in rendered.tools if tool["name"] not in (definition.tools or ())),
    )


def _turn_limits(limits: Limits) -> TurnLimits:
    return record_from(TurnLimits, limits, tokens=limits.turn_tokens, cost=limits.turn_cost_nano, seconds=limits.turn_seconds)


async def _with_other_nodes(context: Context, records: Sequence[ImageRecord]) -> Sequence[ImageRecord]:
    """In a cluster, an image is online as well while another node runs a turn of its default session."""
    offline = [record.session_id for record in records if not record.online]
    if context.vm.membership is None or not offline:
        return records
    running = await context.vm.membership.nodes.running(context.tenant_id, offline)
    return [
        msgspec.structs.replace(record, online=True, agent_id=agent_id_of(record.session_id))
        if record.session_id in running
        else record
        for record in records
    ]


def image_record(context: Context, image: Image, *, with_config: bool = True) -> ImageRecord:
    agent = context.vm.runtime.agent_of(context.tenant_id, image)
    uris = {} if image.source is None else {item.place: item.uri for item in references(image.source, image.config)}
    written = apply_config(image.source or image.definition, image.config)
    return record_from(
        ImageRecord,
        image,
        system_prompt=image.definition.system_prompt,
        online=agent is not None,
        agent_id=None if agent is None else agent.agent_id,
        system_prompt_ref=uris.get("systemPrompt"),
        definition_ref=uris.get("definition"),
        tool_refs=tuple(uri for place, uri in uris.items() if place.startswith("tools.")) or None,
        lock=msgspec.convert(image.lock, tuple[LockRecord, ...], from_attributes=True) or None,
        config=_effective(context, image) if with_config else None,
        written=record_from(DefinitionRecord, written) if with_config else None,
        client_data=image.config.client_data,
    )
