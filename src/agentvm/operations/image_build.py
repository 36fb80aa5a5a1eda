"""Builds of images — create, build, update, upgrade."""

from typing import ClassVar, Literal

import msgspec

from agentvm.blueprint.image import DEFAULT_NAME
from agentvm.errors import ContainerForbidden, ImageNotFound, InvalidInput
from agentvm.model.base import Record
from agentvm.model.definition import Definition
from agentvm.model.ids import ImageId
from agentvm.model.image import ImageConfig, ImageFields
from agentvm.operations.image import image_record
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.ignored import describe_ignored
from agentvm.protocol.records import ImageRecord
from agentvm.protocol.requests import Reply, Request, SubscribingReply

operation = OperationGroup("images")

WRITE = "images:write"


class ImageReply(SubscribingReply):
    record: ImageRecord
    warnings: tuple[str, ...] = ()
    """About the build: a tool that cannot run here, a version that was withdrawn."""


class ImageCreate(Request[ImageReply]):
    reports_ignored: ClassVar = {"config": ImageConfig}
    container_id: str
    config: ImageConfig | None = None
    ignored: tuple[str, ...] = msgspec.field(default=(), name="__ignored")
    """Unknown fields of the request; see `agentvm.protocol.ignored`."""


@operation("image.create", needs=WRITE, command=True, audit="image.create")
async def create(context: Context, request: ImageCreate) -> ImageReply:
    """Build an image.

    From the server's default definition, or from the one that `config.definition` names, and `config`, with a default session.
    Resolves every `resource://` URI. Creates the container if it is new. Subscribes. Emits `image_created`. Fails with
    `driver_not_found`, `tool_not_found`, `definition_not_found`, `resource_not_found`, `prompt_unresolved`,
    `resource_too_deep`, `permission_denied`, and then creates nothing.
    """
    return await _create(context, request.container_id, request.config or ImageConfig(), request.ignored)


class ImageAdd(Request[ImageReply]):
    """Without a container: your own, or `default` if you may use all containers."""

    container: str | None = None
    config: ImageConfig | None = None


@operation(
    "image.add",
    needs=WRITE,
    http=Http(
        "POST", "/v1/images", status=201, id="images_create", rename={"record": "image"}, names=("NewImage", "ImageView")
    ),
    audit="image.create",
    raises=(ContainerForbidden,),
)
async def add(context: Context, request: ImageAdd) -> ImageReply:
    """Build an image.

    From the server's default definition, or from the one that `config.definition` names.
    """
    container = context.images.home() if request.container is None else request.container
    return await _create(context, container, request.config or ImageConfig())


class ImageBuild(Request[ImageReply]):
    """`definition` is the name of a registered definition, the URI or name of an agent, or a definition itself."""

    reports_ignored: ClassVar = {"config": ImageConfig, "definition": Definition}
    container_id: str
    definition: str | Definition
    config: ImageConfig | None = None
    ignored: tuple[str, ...] = msgspec.field(default=(), name="__ignored")
    """Unknown fields of the request; see `agentvm.protocol.ignored`."""


@operation("image.build", needs=WRITE, command=True, audit="image.create")
async def build(context: Context, request: ImageBuild) -> ImageReply:
    """Build an image from a given definition; otherwise like `image_create`."""
    config = request.config or ImageConfig()
    if config.definition is not None:
        raise InvalidInput("The definition is given twice; leave config.definition out")
    source: Definition | None
    if isinstance(request.definition, Definition):
        source = request.definition
    else:
        source, config = await context.images.base(request.definition, config)
    return await _build(context, request.container_id, source, config, None, request.ignored)


Clearable = Literal[
    "systemPrompt",
    "model",
    "tools",
    "sandbox",
    "knowledge",
    "skills",
    "variables",
    "temperature",
    "maxTokens",
    "thinking",
    "output",
    "mcpServers",
    "clientData",
    "apiKey",
]
_FIELD_OF = dict(zip(ImageConfig.__struct_encode_fields__, ImageConfig.__struct_fields__, strict=True))


class ImageUpdates(ImageFields):
    """The fields to change. All but `name` and `description` rebuild the image."""

    clear: tuple[Clearable, ...] = ()
    """The fields that become as if they had never been set."""


_OF_CONFIG = tuple(name for name in ImageFields.__struct_fields__ if name not in ("name", "description"))
"""The fields of an update that belong to the config; the others are the image's own."""


class ImageUpdate(Request[ImageReply]):
    reports_ignored: ClassVar = {"updates": ImageUpdates}
    image_id: ImageId
    updates: ImageUpdates = ImageUpdates()
    ignored: tuple[str, ...] = msgspec.field(default=(), name="__ignored")
    """Unknown fields of the request; see `agentvm.protocol.ignored`."""


@operation(
    "image.update",
    needs=WRITE,
    command=True,
    http=Http("PUT", "/v1/images/{image_id}", rename={"record": "image"}, names=("ImageUpdateRequest", "ImageView")),
    audit="image.update",
    raises=(ImageNotFound,),
)
async def update(context: Context, request: ImageUpdate) -> ImageReply:
    """Change an image.

    Changes the given fields that are not `null`, and resets those in `clear`. All but `name` and `description` go into the
    image's config, and the image is rebuilt; its agents use the new build from their next turn on. Other references keep their
    versions. Emits `image_updated`. Fails with `image_not_found`, and as `image_create` does.
    """
    context.target = request.image_id
    updates = request.updates
    changes = ImageConfig(**{name: getattr(updates, name) for name in _OF_CONFIG})
    context.join((await context.workspace.image(request.image_id))[1].container_id)
    cleared = tuple(_FIELD_OF[name] for name in updates.clear)
    image, warnings = await context.images.update(
        request.image_id, changes, name=updates.name, description=updates.description, cleared=cleared
    )
    return ImageReply(record=image_record(context, image), warnings=(*describe_ignored(request.ignored), *warnings))


class ImageChange(Record):
    """A reference that means another version now."""

    uri: str
    """As it was written."""
    before: str = msgspec.field(name="from")
    after: str = msgspec.field(name="to")


class ImageDifference(Record):
    before: object = None
    after: object = None


class ImageUpgradeReply(Reply):
    """`diff` lists the fields of the definition that differ. `applied` is false for a dry run, and when nothing changed."""

    record: ImageRecord
    changes: tuple[ImageChange, ...]
    diff: dict[str, ImageDifference]
    applied: bool
    warnings: tuple[str, ...] = ()


class ImageUpgrade(Request[ImageUpgradeReply]):
    image_id: ImageId
    dry_run: bool = False
    """Only report the changes."""


@operation(
    "image.upgrade",
    needs=WRITE,
    command=True,
    http=Http("POST", "/v1/images/{image_id}/upgrade", rename={"record": "image"}, names=("UpgradeRequest", "UpgradeView")),
    audit="image.upgrade",
    raises=(ImageNotFound,),
)
async def upgrade(context: Context, request: ImageUpgrade) -> ImageUpgradeReply:
    """Resolve the references of an image again and rebuild it.

    References with an exact version keep it. `changes` lists references that resolve to another version now; without any,
    nothing is built. With `dryRun` the changes are only reported. Emits `image_updated`. Fails with `image_not_found`, and as
    `image_create` does.
    """
    context.target, context.is_dry_run = request.image_id, request.dry_run
    context.join((await context.workspace.image(request.image_id))[1].container_id)
    upgraded = await context.images.upgrade(request.image_id, dry_run=request.dry_run)
    changes = [
        ImageChange(uri=uri, before=before.version, after=after.version) for uri, (before, after) in upgraded.changes.items()
    ]
    return ImageUpgradeReply(
        record=image_record(context, upgraded.image),
        changes=tuple(changes),
        diff=_difference(upgraded.before, upgraded.after),
        applied=bool(changes) and not request.dry_run,
        warnings=upgraded.warnings,
    )


async def _create(context: Context, container: str, config: ImageConfig, ignored: tuple[str, ...] = ()) -> ImageReply:
    source: Definition | None = context.vm.definitions.default
    if config.definition is not None:
        source, config = await context.images.base(config.definition, config)
    return await _build(context, container, source, config, DEFAULT_NAME, ignored)


async def _build(
    context: Context,
    container: str,
    source: Definition | None,
    config: ImageConfig,
    name: str | None,
    ignored: tuple[str, ...],
) -> ImageReply:
    """`source` is None when the config refers to an agent. `name` is used when the config has none."""
    container_id = context.workspace.container_id(container)
    # Joined first, so that the peer hears of its own image.
    context.join(container_id)
    built = await context.images.create(container_id, source, config, name)
    context.target = built.image.image_id
    return ImageReply(
        record=image_record(context, built.image),
        warnings=(*describe_ignored(ignored), *built.warnings),
        subscriptions=context.subscribe(built.session),
    )


def _difference(before: Definition | None, after: Definition | None) -> dict[str, ImageDifference]:
    old, new = msgspec.to_builtins(before) or {}, msgspec.to_builtins(after) or {}
    return {
        name: ImageDifference(before=old.get(name), after=new.get(name))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    }
