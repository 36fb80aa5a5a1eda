"""Names — resolves the name that a user types into an id: an id, a name, a unique prefix of an id, the tag of an image, or
`last`.

A complete id is used without a request. Prefixes of sessions, turns and images are looked up among the newest only.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import click

from agentvm.cli.api import Api, RequestFailed
from agentvm.cli.exit_codes import ExitCode
from agentvm.cli.table import Item, plain
from agentvm.errors import DefinitionNotFound

LAST = "last"
NEWEST_MAX = 2_000
"""Sessions, turns and images among which a prefix is looked up."""
LAST_AMONG_MAX = 200
"""Items among which `last` is looked up."""
PREFIX_CHARACTERS_MIN = 4
"""Characters of an id prefix after the tag."""
IMAGE_TAG = "image:"
"""Before the tag of an image, as in the name of an agent."""
_CANDIDATES_MAX = 10
_WHOLE_ID = re.compile(r"[a-z]+_[0-9a-z]{8,}_[0-9a-z]{12,}")
_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class Ambiguous(click.ClickException):
    """Several items have the name."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class Entity:
    """A type of item with an id, and the operations that return one and list all."""

    noun: str
    tag: str
    """The prefix of its ids."""
    _: KW_ONLY
    get: str
    list: str
    names: tuple[str, ...] = ()
    """JSON fields with names; an earlier one takes precedence."""
    times: tuple[str, ...] = ()
    """JSON fields with a time, for entities that have a `last`; the first present one counts."""
    filters: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the list request."""

    @property
    def id_field(self) -> str:
        """The JSON field with the id."""
        return f"{self.noun}Id"

    def describe(self, item: Item) -> str:
        name = next((item[name] for name in self.names if item.get(name)), item.get("title"))
        return f"{plain(item.get(self.id_field))}" + (f"  {plain(name)}" if name else "")


_SESSION_TIMES = ("lastMessageAt", "createdAt")
SESSION = Entity(
    "session", "sess_", get="session.get", list="session.browse", times=_SESSION_TIMES, filters={"archived": "all"}
)
TURN = Entity("turn", "turn_", get="turn.show", list="turn.list", times=("acceptedAt",), filters={"since": 0})
IMAGE = Entity("image", "img_", get="image.get", list="image.browse", names=("name",), times=("updatedAt",))
USER = Entity("user", "usr_", get="user.get", list="user.list", names=("externalId", "displayName"))
KEY = Entity("key", "", get="key.get", list="key.list", names=("name",))
TENANT = Entity("tenant", "ten_", get="tenant.get", list="tenant.list", names=("slug", "name"))


class NamedType(click.types.StringParamType):
    """The type of a parameter that accepts a name; the command gets the id."""

    def __init__(self, entity: Entity) -> None:
        self.entity = entity


session_argument = click.argument("session_id", metavar="SESSION", type=NamedType(SESSION))
turn_argument = click.argument("turn_id", metavar="ID", type=NamedType(TURN))
image_argument = click.argument("image_id", metavar="IMAGE", type=NamedType(IMAGE))


def user_option(text: str) -> Callable[..., Any]:
    """The option --user, with its help text."""
    return click.option("--user", type=NamedType(USER), metavar="USER", help=text)


def resolve_all(api: Api, options: dict[str, Any]) -> None:
    """Replaces the names among the options of the running command, and the tenant's, by ids."""
    if api.tenant is not None:
        api.tenant = tenant_id_of(api, api.tenant)
    if options.get("data") is not None:
        # The command reads a data directory, without a server.
        return
    for parameter in click.get_current_context().command.params:
        name = parameter.name or ""
        if isinstance(parameter.type, NamedType) and options.get(name):
            options[name] = id_of(api, parameter.type.entity, options[name])


def id_of(api: Api, entity: Entity, text: str) -> str:
    """The id of the named item. Text that can be neither a name nor a prefix is used as an id."""
    if entity is TENANT and _SLUG.fullmatch(text):
        # The server accepts slugs.
        return text
    if _WHOLE_ID.fullmatch(text) or (not entity.names and text != LAST and not _may_be_prefix(entity, text)):
        return text
    return str(find(api, entity, text)[entity.id_field])


def tenant_id_of(api: Api, text: str) -> str:
    """The id of the tenant that `--tenant` names. The list of tenants is requested without a tenant."""
    with Api(api.url, api.key) as global_api:
        return id_of(global_api, TENANT, text)


def find(api: Api, entity: Entity, text: str) -> Item:
    """The named item; `RequestFailed` when there is none, `Ambiguous` when there are several."""
    if entity is IMAGE and text.startswith(IMAGE_TAG):
        for item in api.items(entity.list, tag=text.removeprefix(IMAGE_TAG)):
            return item
        raise RequestFailed(f"No image has the tag {plain(text.removeprefix(IMAGE_TAG))}.", exit_code=ExitCode.NOT_FOUND)
    if text == LAST and entity is IMAGE:
        # Images are listed by container; the last session has the last image.
        return api.call(entity.get, str(_last(api, SESSION)["imageId"]))
    if text == LAST and entity.times:
        return _last(api, entity)
    try:
        return _identified(api, entity, api.call(entity.get, text))
    except RequestFailed as error:
        if error.exit_code != ExitCode.NOT_FOUND:
            raise
        not_found = error
    items = list(_listed(api, entity))
    for matching in (*(_named(items, name, text) for name in entity.names), _with_prefix(items, entity, text)):
        if len(matching) > 1 and len(active := [item for item in matching if item.get("revokedAt") is None]) == 1:
            matching = active
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise Ambiguous(_choices(entity, text, matching))
    raise not_found


def call_agent(api: Api, call: Callable[[str], Item], agent: str, container: str | None) -> Item:
    """Calls with an agent as the server names it; if it has none of that name, with the image that is named so."""
    try:
        return call(agent)
    except RequestFailed as error:
        if error.code != DefinitionNotFound.code:
            raise
        images = api.items(IMAGE.list, at_most=NEWEST_MAX, container_id=container)
        matching = _named(images, "name", agent)
        if not matching:
            raise
    if len(matching) > 1:
        raise Ambiguous(_choices(IMAGE, agent, matching))
    return call(str(matching[0][IMAGE.id_field]))


def names_of(api: Api, entity: Entity) -> dict[object, object]:
    """Names by id, for display. Empty without the permission to list them."""
    with suppress(RequestFailed):
        return {item.get(entity.id_field): item.get(entity.names[0]) for item in _listed(api, entity)}
    return {}


def named_users(api: Api, items: Iterable[Item]) -> list[Item]:
    """The items with the name of their `userId` as `user`."""
    rows = list(items)
    names = names_of(api, USER) if any(item.get("userId") for item in rows) else {}
    return [{**item, "user": names.get(item.get("userId"), item.get("userId"))} for item in rows]


def _last(api: Api, entity: Entity) -> Item:
    # Pinned sessions come first in the page, whatever their age.
    page = list(api.items(entity.list, at_most=LAST_AMONG_MAX, **entity.filters))
    if not page:
        raise RequestFailed(f"No {entity.noun} found.", exit_code=ExitCode.NOT_FOUND)
    newest = max(page, key=lambda item: next((int(item[name]) for name in entity.times if item.get(name) is not None), 0))
    return _identified(api, entity, newest)


def _listed(api: Api, entity: Entity) -> Iterator[Item]:
    return api.items(entity.list, at_most=NEWEST_MAX if entity.times else None, **entity.filters)


def _named(items: Iterable[Item], name: str, text: str) -> list[Item]:
    return [item for item in items if item.get(name) == text]


def _with_prefix(items: Iterable[Item], entity: Entity, text: str) -> list[Item]:
    if not _may_be_prefix(entity, text):
        return []
    return [item for item in items if str(item.get(entity.id_field)).startswith(text)]


def _may_be_prefix(entity: Entity, text: str) -> bool:
    return len(text) >= len(entity.tag) + PREFIX_CHARACTERS_MIN and text.startswith(entity.tag)


def _identified(api: Api, entity: Entity, item: Item) -> Item:
    if not isinstance(item.get(entity.id_field), str):
        raise RequestFailed(f"{api.url} does not answer like AgentVM: the {entity.noun} has no {entity.id_field}.")
    return item


def _choices(entity: Entity, text: str, matching: list[Item]) -> str:
    shown = [f"  {entity.describe(item)}" for item in matching[:_CANDIDATES_MAX]]
    more = [f"  and {len(matching) - len(shown)} more"] if len(matching) > len(shown) else []
    return "\n".join([f"{plain(text)!r} matches {len(matching)} {entity.noun}s; use more of the id:", *shown, *more])
