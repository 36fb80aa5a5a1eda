"""Operation — one thing that can be asked of the server, declared once on the function that carries it out.

A declaration states the permission (`needs`), whether it is audited, and its faces: `command` over a WebSocket, `http` as a
route. Permissions, routes, the command table, `/openapi.json`, the reference pages, the requests of the CLI and the names of
the Python client are all derived from these rows. An operation knows its request and its context, and no face.

This module and those of the operations import nothing that runs a server, so that a client can read the table.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from agentvm.errors import AgentVMError
from agentvm.protocol.requests import Request

if TYPE_CHECKING:
    from agentvm.operations.context import Context as Context
else:
    # Loads the whole server, and who reads the table may be a client.
    Context = Any

Method = Literal["GET", "POST", "PUT", "DELETE"]
CallerKind = Literal["credential", "key", "invitation", "nobody"]
"""How a route knows its caller: by a credential; by an API key that may be in the body as `key`; by the secret of an invitation
in the same place; or not at all. Cookies count for the first only, since the session of one may have ended."""


class Empty(Request[object]):
    """A request without fields."""


FileGuard = Callable[[Context, int], None]
"""Called with the announced size of a file, then with the bytes received so far; raises to refuse it."""


@dataclass(frozen=True, slots=True)
class Http:
    """The route of an operation. Names in the path are fields of its request; `{name:path}` takes the rest of the path.

    GET and DELETE take the other fields from the query, POST and PUT from the body but for those named in `query`.
    """

    method: Method
    path: str
    _: KW_ONLY
    status: int = 200
    """The status of a response with content; one without is 204."""
    statuses: tuple[int, ...] = ()
    """All statuses of success, when the function chooses among several by returning an `HttpReply`."""
    status_of: Callable[[Any], int] | None = None
    """Chooses among `statuses` by the reply."""
    id: str | None = None
    """The `operationId`; by default the group and the function's name."""
    query: tuple[str, ...] = ()
    rename: dict[str, str] = field(default_factory=dict)
    """Fields that have another name here: `{"container_id": "container"}`."""
    result: str | None = None
    """The response is this field of the reply; None there is 204 if that is among `statuses`, else 404."""
    items: str | None = None
    """The field of the reply that the response calls `items`."""
    names: tuple[str | None, str | None] = (None, None)
    """Names of the schemas of the body and of the response, where they are not those of the types."""
    body: Literal["json", "bytes", "file"] = "json"
    max_body_bytes: int | None = None
    max_values: int | None = None
    """How many values its JSON may hold."""
    caller: CallerKind = "credential"
    attended: bool = False
    """Cancelled when its client disconnects: nothing else uses the result."""
    guard: FileGuard | None = None
    receiving: Callable[[Context], AbstractContextManager[Callable[[int], None]]] | None = None
    """Entered before a file is read and left when the request is answered; yields another guard."""
    head: bool = False
    """Whether HEAD is answered as well."""
    media_type: str = "application/octet-stream"
    """The type of the bytes that the function returns."""
    hidden: bool = False
    """Served, but in no documentation."""
    called: str | None = None
    """The schema of the body of a second route, `POST /v1/<group>/<verb>`, which takes all fields in the body."""


Q = TypeVar("Q", bound=Request[Any])
Function = Callable[[Context, Q], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of the table."""

    name: str
    """`session.search`."""
    group: str
    """The heading in `/docs` and the tag in `/openapi.json`."""
    request: type[Request[Any]]
    reply: Any
    """The return annotation of the function."""
    function: Callable[[Context, Any], Awaitable[Any]] = field(compare=False)
    needs: tuple[str, ...]
    """Any of these permissions suffices; none: any valid key."""
    own: bool = False
    """Users are also let in without the permission; the function limits them to their own data."""
    across: bool = True
    """Whether the operator may name another tenant with `?tenant=`."""
    audit: str | None = None
    """The action in the audit log."""
    discloses: bool = False
    """Whether it shows the content of conversations. An operator who reads those of another tenant is in its audit log."""
    grants: bool = False
    """Whether it grants rights, which is refused while authentication is off: they would be valid once it is on."""
    raises: tuple[type[AgentVMError], ...] = ()
    command: str | None = None
    """The name over a WebSocket: `session_search`."""
    http: Http | None = None

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """The rest of the function's docstring, as one paragraph."""
        return " ".join((inspect.getdoc(self.function) or "").partition("\n")[2].split())


class Options(TypedDict, total=False):
    """Fields of `Operation` that most rows leave out."""

    own: bool
    across: bool
    audit: str
    discloses: bool
    grants: bool
    raises: tuple[type[AgentVMError], ...]


class OperationGroup:
    """The operations of one noun, in the order they are written; used as a decorator."""

    def __init__(self, group: str) -> None:
        self._group = group
        self.rows: list[Operation] = []

    def __call__(
        self,
        name: str,
        *,
        needs: str | tuple[str, ...],
        command: bool = False,
        http: Http | None = None,
        **options: Unpack[Options],
    ) -> Callable[[Function[Q]], Function[Q]]:
        """Declares the function as the operation `name`. Its second parameter is the request, its annotation the reply."""

        def declare(function: Function[Q]) -> Function[Q]:
            annotations = inspect.get_annotations(function)
            request = next(annotations[parameter] for parameter in list(annotations)[1:2])
            row = Operation(
                name=name,
                group=self._group,
                request=request,
                reply=annotations["return"],
                function=function,
                needs=(needs,) if isinstance(needs, str) else needs,
                command=name.replace(".", "_") if command else None,
                http=http,
                **options,
            )
            if row.command is None and row.http is None:
                raise RuntimeError(f"{name} is reached by no face")
            self.rows.append(row)
            if http is not None and http.called is not None:
                self.rows.append(_called(row, http))
            return function

        return declare


def _called(row: Operation, http: Http) -> Operation:
    verb = row.name.partition(".")[2]
    route = replace(
        http,
        method="POST",
        path=f"/v1/{row.group}/{verb}",
        id=f"{row.group}_{verb}_called",
        names=(http.called, http.names[1]),
    )
    return replace(row, name=row.name.replace(".", ".call_"), http=route)
