"""Route — what a route of the management API declares, and what its function is asked with.

A noun's file lists its routes. Nothing here is served: `agentvm.server.http.gate` does that, and nothing else can.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, BinaryIO, Generic, Literal, TypedDict, TypeVar, Unpack

from msgspec import Meta

from agentvm.errors import AgentVMError, InvalidInput, shorten
from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.model.principal import Principal
from agentvm.operations.http_reply import HttpReply
from agentvm.sessions.workspace import Workspace
from agentvm.storage.sql.accounts import Accounts
from agentvm.tenants.tenancy import Tenancy
from agentvm.vm import AgentVM

Method = Literal["GET", "POST", "PUT", "DELETE"]

MAX_PAGE = 1_000
MAX_TEXT = 2_000
BIG = 2**53 - 1
"""The largest number that every reader of JSON reads right."""

Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
Amount = Annotated[int, Meta(ge=0, le=BIG)]


class Given(Record, forbid_unknown_fields=True):
    """What a request brings in its body or its query. A member nobody knows is a typo, so refused."""


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Nothing(Given):
    """For routes that take nothing."""


class PageGiven(Given):
    """Which part of a list: what follows `after`, the `next` of the page before."""

    after: str | None = None
    limit: Limit = 100


class Page(Record, Generic[T]):
    """A part of a list. `next` is absent on the last."""

    items: Sequence[T]
    next: str | None = None


G = TypeVar("G", bound=Given)


@dataclass(slots=True, kw_only=True)
class Ask(Generic[G]):
    """One request that has passed the gate."""

    vm: AgentVM
    principal: Principal
    tenant_id: TenantId
    """Whose things it is about: the asker's own tenant, or the one that the operator names with `?tenant=`."""
    path: Mapping[str, str]
    given: G
    query: Any = None
    """Of the type that the route names as `query`; a function says it again: `query: ThatType = ask.query`."""
    body: bytes = b""
    """As it came, for a route with `body="bytes"`."""
    file: BinaryIO | None = None
    """The body, put aside, for a route with `body="file"`; gone when the function has answered."""
    accept: str = ""
    content_type: str = ""
    """What the body says it is."""
    if_match: str | None = None
    if_none_match: str | None = None
    named: bool = False
    """Whether the tenant was named with `?tenant=`."""
    request_id: str = ""
    target: str = ""
    """What the audit log says was written to; a function that makes something says what."""
    looked_only: bool = False
    """Nothing was written after all: a dry run is no entry of the audit log."""

    @property
    def tenancy(self) -> Tenancy:
        return self.vm.tenancy

    @property
    def workspace(self) -> Workspace:
        return self.vm.workspace(self.principal, self.tenant_id)

    @property
    def accounts(self) -> Accounts:
        return self.vm.tenancy.store.accounts(self.tenant_id)


Answer = HttpReply

Function = Callable[[Ask[G]], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route. Its permissions have no default, so that none is forgotten."""

    method: Method
    path: str
    needs: tuple[str, ...]
    """Any of them will do; none: whoever is known."""
    own: bool
    """Users are also let in without the permission; the function keeps them to what is theirs."""
    across: bool
    """Whether the operator may name another tenant with `?tenant=`."""
    action: str | None
    """Its name in the audit log, for what writes."""
    takes: type[Given]
    """The body of POST and PUT, the query of the others."""
    query: type[Given] = Nothing
    """The query of POST and PUT."""
    body: Literal["json", "bytes", "file"] = "json"
    most_body: int | None = None
    """Its own bound in bytes; else that of all."""
    max_values: int | None = None
    """How many values its JSON may hold; else as many as all."""
    bound: Callable[[Ask[Any], int], None] | None = None
    """For a file: hears how large it says it is, then how much has come so far, and raises what refuses it."""
    receiving: Callable[[Ask[Any]], AbstractContextManager[Callable[[int], None]]] | None = None
    """For a file: entered before it is read and left when the request is answered. What it gives hears the same as `bound`."""
    head: bool = False
    """Whether HEAD is answered as well, with the headers of GET."""
    statuses: tuple[int, ...] = ()
    """Of the answers that are no errors; none: 200, or 204 for `Answer[None]`."""
    media_type: str = "application/octet-stream"
    """What the bytes are, of a function that answers with bytes."""
    raises: tuple[type[AgentVMError], ...] = ()
    """Errors that not every route like it has; see `agentvm.server.http.openapi`."""
    hidden: bool = False
    """Served, but in no documentation."""
    grants: bool = False
    """Whether it gives somebody rights, which nobody may while authentication is off: they would be good once it is on."""
    tag: str = ""
    """The heading in `/docs`; by default the name of the function's file."""
    id: str = ""
    """The `operationId`; by default the heading and the function's name."""
    function: Callable[[Ask[Given]], Awaitable[object]] = field(compare=False)

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


class About(TypedDict, total=False):
    """What most routes need not say; the same members of `Route` say what they mean."""

    query: type[Given]
    body: Literal["json", "bytes", "file"]
    most_body: int
    max_values: int
    bound: Callable[[Ask[Any], int], None]
    receiving: Callable[[Ask[Any]], AbstractContextManager[Callable[[int], None]]]
    head: bool
    statuses: tuple[int, ...]
    media_type: str
    raises: tuple[type[AgentVMError], ...]
    hidden: bool
    grants: bool


class Routes:
    """The routes of one noun, in the order they are written."""

    def __init__(self) -> None:
        self.all: list[Route] = []

    def add(
        self,
        method: Method,
        path: str,
        *,
        needs: tuple[str, ...],
        takes: type[G],
        action: str | None = None,
        own: bool = False,
        across: bool = True,
        **about: Unpack[About],
    ) -> Callable[[Function[G]], Function[G]]:
        def note(function: Function[G]) -> Function[G]:
            self.all.append(
                Route(
                    method=method,
                    path=path,
                    needs=needs,
                    own=own,
                    across=across,
                    action=action,
                    takes=takes,
                    **about,
                    function=function,  # type: ignore[arg-type]  # The gate hands it what `takes` says.
                )
            )
            return function

        return note


def paged(items: Sequence[T], limit: int, cursor: Callable[[int], str]) -> Page[T]:
    """Of one more than `limit` items, the page; `cursor` names the item at an index."""
    if len(items) <= limit:
        return Page(items=items)
    return Page(items=items[:limit], next=cursor(limit - 1))


def page_of(items: Sequence[T], given: PageGiven, names: Iterable[str]) -> Page[T]:
    """The page of a list that is in memory, whose items have these names."""
    named = list(names)
    start = 0
    if given.after is not None:
        if given.after not in named:
            raise InvalidInput("`after` must be the `next` of another page of this list")
        start = named.index(given.after) + 1
    return paged(items[start : start + given.limit + 1], given.limit, lambda index: named[start + index])


def check_text(text: str, member: str, most: int = MAX_TEXT) -> str:
    """A line for people to read."""
    if not text.strip() or len(text) > most or not text.isprintable():
        raise InvalidInput(f"{member} must have 1 to {most} characters that can be printed")
    return text


def moment(text: str | None, member: str) -> int | None:
    """A time as `2026-11-15`, `2026-11-15T10:00:00Z` or in ms; without a zone it is UTC."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        if len(text) > 15:
            raise InvalidInput(f"{member} is too far away")
        return int(text)
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{member} is {shorten(text)!r}; it must be like 2026-11-15, 2026-11-15T10:00:00Z or ms") from None
