"""Resolving — `/v1/resources/resolve`: from a URI to a version, what it is locked to, and what it renders to."""

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
from agentvm.model.base import Record
from agentvm.model.resource import digest_of, parse_uri
from agentvm.resources.resolver import Expand, Pinned, Resolved
from agentvm.server.http.resource_views import ASK_AGAIN, CREDENTIAL, READ, matches
from agentvm.server.http.route import Answer, Ask, Given, Routes

routes = Routes()

MAX_BATCH = 100
MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Of all answers of a batch together."""
FOR_EVER = "private, max-age=31536000, immutable"

_RESOLVE = "/v1/resources/resolve"
_RAISES = (ResourceUriInvalid, ResourceNotFound, ResourceLockMismatch, PromptUnresolved, ResourceTooDeep)


class ResolveGiven(Given):
    """`args` and `lock` are JSON."""

    uri: str
    args: str | None = None
    expand: Expand = "content"
    lock: str | None = None


class ResolveManyGiven(Given):
    """One `uri`, or several `uris` with the same arguments."""

    uri: str | None = None
    uris: tuple[str, ...] | None = None
    args: dict[str, object] | None = None
    expand: Expand = "content"
    lock: tuple[Pinned, ...] | None = None


class ResolveFailure(Record):
    code: str
    message: str
    details: dict[str, object] = msgspec.field(default_factory=dict)


class ResolvedItem(Record):
    """What one of several came to: `resolved`, or `error`."""

    uri: str
    resolved: Resolved | None = None
    error: ResolveFailure | None = None


class ResolvedMany(Record):
    items: list[ResolvedItem]


@routes.add("GET", _RESOLVE, needs=READ, takes=ResolveGiven, statuses=(200, 304), raises=_RAISES)
async def resolve(ask: Ask[ResolveGiven]) -> Answer[bytes | Resolved | None]:
    """Resolve a URI.

    A URI with an exact version or a digest means the same for ever, and its answer may be kept.
    """
    given = ask.given
    args = None if given.args is None else _arguments(given.args)
    lock = None if given.lock is None else _lock(given.lock)
    found = await ask.vm.resources.resolver.resolve(ask.tenant_id, given.uri, args=args, expand=given.expand, lock=lock)
    exact = parse_uri(given.uri).is_exact
    body = msgspec.json.encode(found)
    plain = exact and args is None and given.expand == "content"
    tag = found.digest if plain else digest_of(body)
    headers = {"ETag": f'"{tag}"', "Cache-Control": FOR_EVER if exact else ASK_AGAIN, "Vary": CREDENTIAL}
    if ask.if_none_match is not None and matches(ask.if_none_match, tag):
        return Answer(content=None, status=304, headers=headers)
    return Answer(content=body, headers=headers)


@routes.add("POST", _RESOLVE, needs=READ, takes=ResolveManyGiven, raises=_RAISES)
async def resolve_many(ask: Ask[ResolveManyGiven]) -> Resolved | ResolvedMany:
    """Resolve one URI with arguments that are long, or several URIs.

    Of several, one that cannot be resolved says why, and does not hinder the others.
    """
    given = ask.given
    if (given.uri is None) == (given.uris is None):
        raise InvalidInput("Give either uri or uris")
    if given.uri is not None:
        return await _one(ask, given.uri)
    uris = given.uris or ()
    if len(uris) > MAX_BATCH:
        raise InvalidInput(f"At most {MAX_BATCH} URIs are resolved at a time, not {len(uris)}")
    items: list[ResolvedItem] = []
    size = 0
    for uri in uris:
        # What is remembered is found without waiting, and others wait for the same loop.
        await anyio.lowlevel.checkpoint()
        try:
            if size > MAX_BATCH_BYTES:
                raise ResourceTooLarge(f"The answers before have {MAX_BATCH_BYTES} bytes already; resolve fewer at a time")
            resolved = await _one(ask, uri)
            size += len(msgspec.json.encode(resolved))
            items.append(ResolvedItem(uri=uri, resolved=resolved))
        except AgentVMError as error:
            items.append(
                ResolvedItem(uri=uri, error=ResolveFailure(code=error.code, message=str(error), details=error.details))
            )
    return ResolvedMany(items=items)


async def _one(ask: Ask[ResolveManyGiven], uri: str) -> Resolved:
    given = ask.given
    return await ask.vm.resources.resolver.resolve(ask.tenant_id, uri, args=given.args, expand=given.expand, lock=given.lock)


def _arguments(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        raise InvalidInput('args must be a JSON object that is not nested too deep, like {"name": "Ada"}') from None


def _lock(text: str) -> tuple[Pinned, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[Pinned, ...])
    except msgspec.DecodeError:
        raise InvalidInput("lock must be the lock of an earlier answer, as JSON") from None
