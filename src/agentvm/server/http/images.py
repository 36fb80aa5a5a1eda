"""Images — `/v1/images`: build, list, show, upgrade and delete what agents run from.

The commands of the socket do the work, for a peer without a connection: nothing is told to the asker but the answer.
"""

import base64
import binascii
from typing import Any

import msgspec

from agentvm.commands import image
from agentvm.commands.call import Call, call_of
from agentvm.errors import ContainerForbidden, ImageNotFound, InvalidInput
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId
from agentvm.model.image import ImageConfig
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.protocol import commands
from agentvm.protocol.commands.image import ImageChange, ImageDifference
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.protocol.records import ImageRecord
from agentvm.runtime.channel import Channel
from agentvm.server.http.route import Answer, Ask, Given, Limit, Nothing, Routes
from agentvm.tenants.scoped_store import ScopedStore
from agentvm.vm import Peer

routes = Routes()

READ, WRITE = ("images:read",), ("images:write",)
DEFAULT_CONTAINER = "default"
_ALL, _ONE = "/v1/images", "/v1/images/{image_id:str}"

Place = tuple[str, int, str]
"""Where a page ended: the container, and how old the image is and its id."""


class NewImage(Given):
    """`container` is your own unless you name one, and `default` for who reaches all."""

    container: str | None = None
    config: ImageConfig | None = None


class ListGiven(Given):
    """`cursor` is the `nextCursor` of the page before."""

    container: str | None = None
    cursor: str | None = None
    limit: Limit = 100


class UpgradeGiven(Given):
    dry_run: bool = False
    """Only say what would change."""


class ImageView(Record):
    """`warnings` are what the asker should know about what was built: a tool that cannot run here, say."""

    image: ImageRecord
    warnings: tuple[str, ...] = ()


class ImagesPage(Record):
    items: tuple[ImageRecord, ...]
    next_cursor: str | None = None


class UpgradeView(Record):
    """`diff` is by the members of the definition that differ; nothing `applied` when nothing changed, or it was only tried."""

    image: ImageRecord
    changes: tuple[ImageChange, ...]
    diff: dict[str, ImageDifference]
    applied: bool
    warnings: tuple[str, ...] = ()


@routes.add("POST", _ALL, needs=WRITE, takes=NewImage, action="image.create", statuses=(201,), raises=(ContainerForbidden,))
async def create(ask: Ask[NewImage]) -> Answer[ImageView]:
    """Build an image.

    Of the server's default definition, or of the one that `config.definition` names.
    """
    command = commands.ImageCreate(container_id=_container(ask), config=ask.given.config)
    made = await image.create(_call(ask), command)
    if made.record is None:
        raise TypeError("an image that was built has a record")
    ask.target = made.record.image_id
    return Answer(content=ImageView(image=made.record, warnings=made.warnings or ()), status=201)


@routes.add("GET", _ALL, needs=READ, takes=ListGiven, raises=(ContainerForbidden,))
async def list_all(ask: Ask[ListGiven]) -> ImagesPage:
    """List images.

    Of a container, or of all that you may reach: by the name of the container, the newest of each first.
    """
    call, given = _call(ask), ask.given
    if given.container is not None:
        containers = [call.workspace.container_id(given.container)]
    else:
        containers = sorted(await call.peer.store.list_containers())
    after = None if given.cursor is None else _read_place(given.cursor)
    found: list[ImageRecord] = []
    for container_id in containers:
        if after is not None and container_id < after[0]:
            continue
        images = (await image.list_some(call, commands.ImageList(container_id=container_id))).records
        found += [one for one in sorted(images, key=_age) if after is None or _place(one) > _sortable(after)]
        if len(found) > given.limit:
            break
    page = found[: given.limit]
    ended = page[-1] if len(found) > len(page) else None
    return ImagesPage(
        items=tuple(page),
        next_cursor=None if ended is None else _write_place((ended.container_id, ended.created_at, ended.image_id)),
    )


@routes.add("GET", _ONE, needs=READ, takes=Nothing, raises=(ImageNotFound,))
async def get(ask: Ask[Nothing]) -> ImageRecord:
    """Show an image."""
    found = (await image.get(_call(ask), commands.ImageGet(image_id=_named(ask)))).record
    if found is None:
        raise ImageNotFound(_named(ask))
    return found


@routes.add("DELETE", _ONE, needs=WRITE, takes=Nothing, action="image.delete", raises=(ImageNotFound,))
async def delete(ask: Ask[Nothing]) -> Answer[None]:
    """Delete an image.

    With its sessions, and all that was said in them.
    """
    call = _call(ask)
    await call.workspace.image(_named(ask))
    await image.delete(call, commands.ImageDelete(image_id=_named(ask)))
    return NO_CONTENT


@routes.add("POST", f"{_ONE}/upgrade", needs=WRITE, takes=UpgradeGiven, action="image.upgrade", raises=(ImageNotFound,))
async def upgrade(ask: Ask[UpgradeGiven]) -> UpgradeView:
    """Follow the references of an image anew.

    Those that name an exact version stay as they are.
    """
    command = commands.ImageUpgrade(image_id=_named(ask), dry_run=ask.given.dry_run)
    done = await image.upgrade(_call(ask), command)
    return UpgradeView(
        image=done.record, changes=done.changes, diff=done.diff, applied=done.applied, warnings=done.warnings or ()
    )


def _call(ask: Ask[Any]) -> Call:
    """The asker as a peer of the tenant that the request is about; its channel is attached to nothing."""
    vm, principal = ask.vm, ask.principal
    if principal.tenant_id != ask.tenant_id:
        # The operator, who is no user of that tenant.
        principal = msgspec.structs.replace(principal, tenant_id=ask.tenant_id, user_id=None)
    store = ScopedStore(vm.tenancy.store.tenant(ask.tenant_id), principal)
    return call_of(Peer(vm=vm, channel=Channel(principal, encode_event), store=store))


def _container(ask: Ask[NewImage]) -> str:
    if ask.given.container is not None:
        return ask.given.container
    principal = ask.principal
    if (home := principal.home) is not None:
        return home
    if principal.containers is None:
        return DEFAULT_CONTAINER
    raise InvalidInput("Your key is for containers with certain names only: name one with `container`")


def _named(ask: Ask[Any]) -> ImageId:
    return ImageId(ask.path["image_id"])


def _age(one: ImageRecord) -> tuple[int, str]:
    """The newest first."""
    return -one.created_at, one.image_id


def _place(one: ImageRecord) -> tuple[str, int, str]:
    return one.container_id, *_age(one)


def _sortable(place: Place) -> tuple[str, int, str]:
    return place[0], -place[1], place[2]


def _write_place(place: tuple[ContainerId, int, ImageId]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _read_place(text: str) -> Place:
    try:
        found: Place = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Place)
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError):
        raise InvalidInput("`cursor` must be the `nextCursor` of another page of this list") from None
    return found
