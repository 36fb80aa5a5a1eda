"""Resolving resources — from a URI to an exact version, everything that it is locked to, and its rendered form."""

import anyio.lowlevel
import msgspec

from agentvm.errors import AgentVMError, InvalidInput
from agentvm.errors.resource import (
    PromptUnresolved,
    ResourceLockMismatch,
    ResourceNotFound,
    ResourceTooDeep,
    ResourceTooLarge,
    ResourceUriInvalid,
)
from agentvm.model.base import Record, record_from
from agentvm.model.resource import digest_of, parse_uri
from agentvm.operations.http_caching import CREDENTIAL, IMMUTABLE, REVALIDATE, matches
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.resource_views import READ
from agentvm.protocol.records import LockRecord
from agentvm.protocol.requests import Reply, Request
from agentvm.resources.resolver import Expand, Pinned, Resolved

operation = OperationGroup("resources")

BATCH_MAX = 100
"""URIs in one request."""
BATCH_MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all results of one request."""

_PATH = "/v1/resources/resolve"
_RAISES = (ResourceUriInvalid, ResourceNotFound, ResourceLockMismatch, PromptUnresolved, ResourceTooDeep)


class ResourceResolveReply(Reply):
    """`rendered` is the rendered form of its type: a prompt's text, a tool's spec, an agent's definition."""

    uri: str
    resolved: str
    digest: str
    rendered: object
    lock: tuple[LockRecord, ...]
    warnings: tuple[str, ...] = ()


class ResourceResolve(Request[ResourceResolveReply]):
    """`args` are the values of a prompt's variables."""

    uri: str
    args: dict[str, object] | None = None


@operation("resource.resolve", needs=READ, command=True)
async def render(context: Context, request: ResourceResolve) -> ResourceResolveReply:
    """Resolve a URI to a version and its rendered form.

    Fails with `resource_not_found`, `resource_uri_invalid`, `prompt_unresolved`.
    """
    resolved = await context.vm.resources.resolver.resolve(context.tenant_id, request.uri, args=request.args)
    return record_from(
        ResourceResolveReply,
        resolved,
        lock=msgspec.convert(resolved.lock, tuple[LockRecord, ...], from_attributes=True),
        warnings=tuple(f"{warning.uri}: {warning.message}" for warning in resolved.warnings),
    )


class ResourceResolveUri(Request[Resolved]):
    """`args` and `lock` are JSON."""

    uri: str
    args: str | None = None
    expand: Expand = "content"
    lock: str | None = None


@operation(
    "resource.resolve_uri", needs=READ, http=Http("GET", _PATH, id="resources_resolve", statuses=(200, 304)), raises=_RAISES
)
async def resolve(context: Context, request: ResourceResolveUri) -> HttpReply[bytes | Resolved | None]:
    """Resolve a URI.

    A URI with an exact version or a digest always means the same, and the response may be cached.
    """
    args = None if request.args is None else _arguments(request.args)
    lock = None if request.lock is None else _lock(request.lock)
    resolver = context.vm.resources.resolver
    resolved = await resolver.resolve(context.tenant_id, request.uri, args=args, expand=request.expand, lock=lock)
    exact = parse_uri(request.uri).is_exact
    body = msgspec.json.encode(resolved)
    plain = exact and args is None and request.expand == "content"
    tag = resolved.digest if plain else digest_of(body)
    headers = {"ETag": f'"{tag}"', "Cache-Control": IMMUTABLE if exact else REVALIDATE, "Vary": CREDENTIAL}
    if context.http.if_none_match is not None and matches(context.http.if_none_match, tag):
        return HttpReply(content=None, status=304, headers=headers)
    return HttpReply(content=body, headers=headers)


class ResolveFailure(Record):
    code: str
    message: str
    details: dict[str, object] = msgspec.field(default_factory=dict)


class ResolvedItem(Record):
    """The result of one URI: `resolved` or `error`."""

    uri: str
    resolved: Resolved | None = None
    error: ResolveFailure | None = None


class ResolvedMany(Record):
    items: list[ResolvedItem]


class ResourceResolveMany(Request[Resolved | ResolvedMany]):
    """One `uri`, or several `uris` with the same arguments."""

    uri: str | None = None
    uris: tuple[str, ...] | None = None
    args: dict[str, object] | None = None
    expand: Expand = "content"
    lock: tuple[Pinned, ...] | None = None


@operation("resource.resolve_many", needs=READ, http=Http("POST", _PATH, names=("ResolveManyRequest", None)), raises=_RAISES)
async def resolve_many(context: Context, request: ResourceResolveMany) -> Resolved | ResolvedMany:
    """Resolve one URI with long arguments, or several URIs.

    Of several, one that cannot be resolved has an `error`, and does not affect the others.
    """
    if (request.uri is None) == (request.uris is None):
        raise InvalidInput("Give either uri or uris")
    if request.uri is not None:
        return await _resolve(context, request, request.uri)
    uris = request.uris or ()
    if len(uris) > BATCH_MAX:
        raise InvalidInput(f"At most {BATCH_MAX} URIs are resolved at a time, not {len(uris)}")
    items: list[ResolvedItem] = []
    size = 0
    for uri in uris:
        # A cached result is found without waiting, and other requests share the loop.
        await anyio.lowlevel.checkpoint()
        try:
            if size > BATCH_MAX_BYTES:
                raise ResourceTooLarge(f"The results before have {BATCH_MAX_BYTES} bytes already; resolve fewer at a time")
            resolved = await _resolve(context, request, uri)
            size += len(msgspec.json.encode(resolved))
            items.append(ResolvedItem(uri=uri, resolved=resolved))
        except AgentVMError as error:
            failure = ResolveFailure(code=error.code, message=str(error), details=error.details)
            items.append(ResolvedItem(uri=uri, error=failure))
    return ResolvedMany(items=items)


async def _resolve(context: Context, request: ResourceResolveMany, uri: str) -> Resolved:
    resolver = context.vm.resources.resolver
    return await resolver.resolve(context.tenant_id, uri, args=request.args, expand=request.expand, lock=request.lock)


def _arguments(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        raise InvalidInput('args must be a JSON object that is not nested too deep, like {"name": "Ada"}') from None


def _lock(text: str) -> tuple[Pinned, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[Pinned, ...])
    except msgspec.DecodeError:
        raise InvalidInput("lock must be the lock of an earlier response, as JSON") from None
