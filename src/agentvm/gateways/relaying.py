"""Relaying — a request that goes to a model itself, without an agent: the provider's answer in the dialect of its clients."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from agentvm.drivers.relay import RelayRequest
from agentvm.errors import (
    AgentVMError,
    InvalidInput,
    ProviderBadRequest,
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
    ProviderTimeout,
)
from agentvm.gateways.routes import GatewayProblem, GatewayReply, ShapedProblem
from agentvm.gateways.sse import HEARTBEAT, MEDIA_TYPE
from agentvm.gateways.talk import Talk
from agentvm.model.ids import ContainerId
from agentvm.operations.http_reply import Streamed, StreamSource
from agentvm.operations.http_status import status_of
from agentvm.sessions.relays import Build, ModelRelay, RelayPlan

USE_PERMISSION = "agent:use"
_BAD_GATEWAY_STATUS = 502
_STATUS: tuple[tuple[type[ProviderError], int], ...] = (
    (ProviderRateLimited, 429),
    (ProviderOverloaded, 503),
    (ProviderTimeout, 504),
    (ProviderBadRequest, 400),
)
Shape = Callable[[GatewayProblem], ShapedProblem]
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedRequest:
    """A request as its client sent it. Under a `key` it is sent once."""

    container_id: ContainerId
    content: bytes
    streams: bool
    key: str | None = None


async def relay(talk: Talk, request: RelayedRequest, plan: RelayPlan, build: Build, shape: Shape) -> GatewayReply:
    """Sends a request to its provider; its answer, or why there is none."""
    principal, keys = talk.principal, talk.vm.relays.keys
    about, streams = (principal.tenant_id, principal.user_id), request.streams
    if request.key is not None:
        keys.take(*about, request.key, request.content)
    relayed: ModelRelay | None = None
    try:
        relayed = talk.vm.relays.start(*about, request.container_id, plan, build, key_id=principal.key_id)
        return await _answered(talk, relayed, shape, streams=streams)
    finally:
        if request.key is not None and (relayed is None or relayed.is_free):
            keys.free(*about, request.key)


async def _answered(talk: Talk, relayed: ModelRelay, shape: Shape, *, streams: bool) -> GatewayReply:
    is_heard = False
    try:
        await (relayed.head if streams else relayed.ended).wait()
        is_heard = True
    finally:
        if not is_heard:
            # The client has left.
            await relayed.leave()
    if relayed.refusal is not None:
        refusal = relayed.refusal
        return GatewayReply(content=refusal.content, status=refusal.status, headers=refusal.headers)
    if streams and not relayed.ended.is_set():
        return GatewayReply(content=_streamed(talk, relayed, shape), media_type=MEDIA_TYPE, headers=relayed.headers)
    if relayed.failure is not None and not streams:
        return _refused(talk, relayed.failure, shape)
    content = await relayed.take()
    if relayed.failure is not None and not content:
        return _refused(talk, relayed.failure, shape)
    if relayed.untold is not None:
        content += _error_event(talk, relayed.untold, shape)
    media_type = MEDIA_TYPE if streams else "application/json"
    return GatewayReply(content=content, media_type=media_type, headers=relayed.headers)


async def fetch(talk: Talk, model: str, driver: str, request: RelayRequest, shape: Shape) -> GatewayReply:
    """Sends a free request to the provider of a model; returns its answer or its error."""
    talk.principal.require(USE_PERMISSION)
    try:
        answer = await talk.vm.relays.fetch(talk.principal.tenant_id, model, driver, request)
    except ProviderError as error:
        return _refused(talk, error, shape)
    return GatewayReply(content=answer.content, status=answer.status, headers=answer.headers)


def provider_kinds(talk: Talk) -> dict[str, str]:
    """Returns the driver of each provider of this server, by the provider's name."""
    return {health.name: health.driver for health in talk.vm.runtime.models.health()}


def end_user_of(talk: Talk) -> str:
    """Returns an opaque name by which a provider can distinguish users of the operator's account."""
    return hashlib.sha256(f"{talk.principal.tenant_id}/{talk.principal.user_id or ''}".encode()).hexdigest()


def members_of(content: bytes) -> dict[str, msgspec.Raw]:
    """Returns the members of a request, each as its client wrote it."""
    try:
        return _members(content)
    except msgspec.MsgspecError:
        raise InvalidInput("The body is not a JSON object") from None


def _streamed(talk: Talk, relayed: ModelRelay, shape: Shape) -> Streamed:
    @contextmanager
    def opened() -> Iterator[StreamSource]:
        yield _RelaySource(talk, relayed, shape)

    return Streamed(opened, HEARTBEAT, follows=True, closed=relayed.leave)


class _RelaySource:
    def __init__(self, talk: Talk, relayed: ModelRelay, shape: Shape) -> None:
        self._talk, self._relay, self._shape = talk, relayed, shape
        self._is_over = False

    async def take(self) -> bytes:
        if self._is_over:
            return b""
        piece = await self._relay.take()
        if not piece:
            self._is_over = True
            failure = self._relay.untold
            return b"" if failure is None else _error_event(self._talk, failure, self._shape)
        return piece


def _refused(talk: Talk, error: AgentVMError, shape: Shape) -> GatewayReply:
    """Returns the response of a call that no provider has answered. Refusals of this server have their own way."""
    if not isinstance(error, ProviderError):
        raise error
    shaped = shape(_problem(talk, error))
    wait = {} if error.retry_after is None else {"Retry-After": str(max(1, round(error.retry_after)))}
    return GatewayReply(content=shaped.content, status=shaped.status, headers={**shaped.headers, **wait})


def _error_event(talk: Talk, error: AgentVMError, shape: Shape) -> bytes:
    """Returns the end of a stream that broke off, as both dialects read it."""
    return b"event: error\ndata: %b\n\n" % shape(_problem(talk, error)).content


def _problem(talk: Talk, error: AgentVMError) -> GatewayProblem:
    http_status = next((status for kind, status in _STATUS if isinstance(error, kind)), None)
    status = http_status or (_BAD_GATEWAY_STATUS if isinstance(error, ProviderError) else status_of(error))
    return GatewayProblem(status=status, code=error.code, message=str(error), request_id=talk.request_id)
