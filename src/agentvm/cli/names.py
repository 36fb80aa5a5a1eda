"""Names — what a person calls a thing, turned into its id: the id, a name, a unique beginning of an id, or `last`.

What looks like a whole id is taken as it is, without asking. Of sessions, turns and images only the newest are looked through:
a beginning is for what was on the screen a moment ago.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import click

from agentvm.cli.api import Api, Query, RequestFailed
from agentvm.cli.exit_codes import NOT_FOUND, USAGE
from agentvm.cli.table import Item, plain

LAST = "last"
NEWEST_MAX = 2_000
"""Sessions, turns and images that are looked through for a beginning of an id."""
BEGINNING_MIN = 4
"""Characters of an id, behind its tag, that may stand for all of it."""
_CANDIDATES_MAX = 10
_WHOLE_ID = re.compile(r"[a-z]+_[0-9a-z]{8,}_[0-9a-z]{12,}")
_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class Ambiguous(click.ClickException):
    """Several things are called that."""

    exit_code = USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of thing that has an id, and how the server lists them."""

    noun: str
    path: tuple[str, ...]
    member: str
    """Of the JSON, that holds the id."""
    tag: str
    """How its ids begin."""
    names: tuple[str, ...] = ()
    """Members that hold names, the first goes before the next."""
    moments: tuple[str, ...] = ()
    """Members with a time, for a kind that has a `last`; the first that is there counts."""
    pages: Mapping[str, Any] = field(default_factory=dict)
    """How its list is asked for."""

    def describe(self, item: Item) -> str:
        called = next((item[name] for name in self.names if item.get(name)), item.get("title"))
        return f"{plain(item.get(self.member))}" + (f"  {plain(called)}" if called else "")


_CURSORS = {"cursor": "cursor", "following": "nextCursor"}
SESSION = Kind(
    noun="session",
    path=("sessions",),
    member="sessionId",
    tag="sess_",
    moments=("lastMessageAt", "createdAt"),
    pages={**_CURSORS, "limit": 200, "archived": "all"},
)
TURN = Kind(
    noun="turn",
    path=("turns",),
    member="turnId",
    tag="turn_",
    moments=("acceptedAt",),
    pages={"cursor": "cursor", "since": 0},
)
IMAGE = Kind(
    noun="image", path=("images",), member="imageId", tag="img_", names=("name",), moments=("updatedAt",), pages=_CURSORS
)
USER = Kind(noun="user", path=("users",), member="userId", tag="usr_", names=("externalId", "displayName"))
KEY = Kind(noun="key", path=("auth", "keys"), member="keyId", tag="", names=("name",))
TENANT = Kind(noun="tenant", path=("tenants",), member="tenantId", tag="ten_", names=("slug", "name"))


class NamedArgument(click.Argument):
    """An argument that names a thing; the command gets its id."""

    def __init__(self, *args: Any, kind: Kind, **about: Any) -> None:
        super().__init__(*args, **about)
        self.kind = kind


class NamedOption(click.Option):
    """The same for an option."""

    def __init__(self, *args: Any, kind: Kind, **about: Any) -> None:
        super().__init__(*args, **about)
        self.kind = kind


session_argument = click.argument("session_id", metavar="SESSION", cls=NamedArgument, kind=SESSION)
turn_argument = click.argument("turn_id", metavar="ID", cls=NamedArgument, kind=TURN)
image_argument = click.argument("image_id", metavar="IMAGE", cls=NamedArgument, kind=IMAGE)


def resolve_all(api: Api, given: dict[str, Any]) -> None:
    """Puts ids in the place of the names that the running command was given, and of the tenant's."""
    if api.tenant is not None:
        api.tenant = tenant_id_of(api, api.tenant)
    if given.get("data") is not None:
        # Of a data directory: there is no server to ask.
        return
    for parameter in click.get_current_context().command.params:
        if isinstance(parameter, NamedArgument | NamedOption) and given.get(parameter.name or ""):
            given[parameter.name or ""] = id_of(api, parameter.kind, given[parameter.name or ""])


def id_of(api: Api, kind: Kind, text: str) -> str:
    """The id of what is called that. What cannot be the beginning of an id, and is no name, is an id of its own kind."""
    if kind is TENANT and _SLUG.fullmatch(text):
        # The server knows it by that.
        return text
    if _WHOLE_ID.fullmatch(text) or (not kind.names and text != LAST and not _may_begin(kind, text)):
        return text
    return str(find(api, kind, text)[kind.member])


def tenant_id_of(api: Api, text: str) -> str:
    """What `--tenant` names. The list of tenants is asked for without it, since it is nobody's own."""
    with Api(api.url, api.key) as everywhere:
        return id_of(everywhere, TENANT, text)


def find(api: Api, kind: Kind, text: str) -> Item:
    """The thing that is called that; `RequestFailed` when there is none, `Ambiguous` when there are several."""
    if text == LAST and kind is IMAGE:
        # Images are listed by container; sessions by what was said last.
        return api.get(*kind.path, str(_last(api, SESSION)["imageId"]))
    if text == LAST and kind.moments:
        return _last(api, kind)
    try:
        return _identified(api, kind, api.get(*kind.path, text))
    except RequestFailed as error:
        if error.exit_code != NOT_FOUND:
            raise
        absent = error
    items = list(_listed(api, kind))
    for matching in (*(_named(items, name, text) for name in kind.names), _begun(items, kind, text)):
        if len(matching) > 1 and len(alive := [item for item in matching if item.get("revokedAt") is None]) == 1:
            matching = alive
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise Ambiguous(_choices(kind, text, matching))
    raise absent


def names_of(api: Api, kind: Kind) -> dict[object, object]:
    """Names by id, for people to read. Empty for those who may not list them: then ids must do."""
    with suppress(RequestFailed):
        return {item.get(kind.member): item.get(kind.names[0]) for item in _listed(api, kind)}
    return {}


def _last(api: Api, kind: Kind) -> Item:
    # Of the first page: what is pinned comes first there, whatever its age.
    page = api.get(*kind.path, **_query(kind)).get("items", [])
    if not page:
        raise RequestFailed(f"There is no {kind.noun} yet.", exit_code=NOT_FOUND)
    newest = max(page, key=lambda item: next((int(item[name]) for name in kind.moments if item.get(name) is not None), 0))
    return _identified(api, kind, newest)


def _listed(api: Api, kind: Kind) -> Iterator[Item]:
    found = api.pages(*kind.path, **kind.pages)
    return islice(found, NEWEST_MAX) if kind.moments else found


def _query(kind: Kind) -> Query:
    return {name: value for name, value in kind.pages.items() if name not in ("cursor", "following")}


def _named(items: Iterable[Item], member: str, text: str) -> list[Item]:
    return [item for item in items if item.get(member) == text]


def _begun(items: Iterable[Item], kind: Kind, text: str) -> list[Item]:
    if not _may_begin(kind, text):
        return []
    return [item for item in items if str(item.get(kind.member)).startswith(text)]


def _may_begin(kind: Kind, text: str) -> bool:
    return len(text) >= len(kind.tag) + BEGINNING_MIN and text.startswith(kind.tag)


def _identified(api: Api, kind: Kind, item: Item) -> Item:
    if not isinstance(item.get(kind.member), str):
        raise RequestFailed(f"{api.url} answers unlike AgentVM: the {kind.noun} has no {kind.member}.")
    return item


def _choices(kind: Kind, text: str, matching: list[Item]) -> str:
    shown = [f"  {kind.describe(item)}" for item in matching[:_CANDIDATES_MAX]]
    more = [f"  and {len(matching) - len(shown)} more"] if len(matching) > len(shown) else []
    return "\n".join([f"{plain(text)!r} may be {len(matching)} {kind.noun}s; name one by more of its id:", *shown, *more])
