"""Anthropic messages — requests of the Messages API, sent on with the key of the server or of the tenant."""

import re
from collections.abc import Mapping

from agentvm.drivers.models import Chosen
from agentvm.drivers.relay import RelayingDriver, RelayRequest
from agentvm.errors import InvalidInput, not_found
from agentvm.gateways.anthropic.errors import shape
from agentvm.gateways.anthropic.message_body import (
    MODEL_MAX,
    MessagesBody,
    most_input,
    most_searches,
    rewritten,
)
from agentvm.gateways.relaying import USE_PERMISSION, RelayedRequest, end_user_of, fetch, provider_kinds, relay
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, NoBody
from agentvm.gateways.talk import Talk
from agentvm.sessions.relays import RelayPlan

DRIVER = "anthropic"
CONTAINER_HEADER = "x-avm-container"
OUTPUT_MAX = 1_000_000
WINDOW_TOKENS = 1_000_000
"""The largest window of a model: the maximum that a document of unknown content counts."""
TOKEN_BYTES = 4
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}")
_PASSED_HEADERS = ("anthropic-version", "anthropic-beta")


async def create_message(ask: Ask[MessagesBody], talk: Talk) -> GatewayReply:
    """Answers a request for a message with the provider's answer."""
    talk.principal.require(USE_PERMISSION)
    body, content = ask.body, ask.content
    if body.max_tokens is None or not 0 < body.max_tokens <= OUTPUT_MAX:
        raise InvalidInput(f"max_tokens must be given, from 1 to {OUTPUT_MAX:,}")
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER))
    plan = RelayPlan(
        model=model_name(talk, body.model),
        driver=DRIVER,
        size=len(content),
        most_input=most_input(body, len(content), WINDOW_TOKENS),
        input_tokens=len(content) // TOKEN_BYTES,
        most_output=body.max_tokens,
        most_searches=most_searches(body),
    )

    def build(chosen: Chosen, driver: RelayingDriver) -> RelayRequest:
        return _request("v1/messages", ask, talk, chosen, streams=body.stream)

    request = RelayedRequest(container_id=container_id, content=content, streams=body.stream, key=ask.key)
    return await relay(talk, request, plan, build, shape)


async def count_tokens(ask: Ask[MessagesBody], talk: Talk) -> GatewayReply:
    """Answers with the number of tokens that the provider counts, which costs nothing."""
    name = model_name(talk, ask.body.model)
    body = rewritten(ask.content, name.partition("/")[2], None)
    request = RelayRequest(path="v1/messages/count_tokens", body=body, headers=_passed(ask.headers), query=ask.query)
    return await fetch(talk, name, DRIVER, request, shape)


async def list_models(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Answers with the models of the provider."""
    return await _fetch_models(ask, talk, "v1/models", model_name(talk, ""))


async def show_model(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    talk.principal.require(USE_PERMISSION)
    name = model_name(talk, ask.path["model"])
    model = name.partition("/")[2]
    if not _MODEL.fullmatch(model):
        # It becomes a part of the provider's address, which the server's key is sent to.
        raise not_found("Model", model)
    return await _fetch_models(ask, talk, f"v1/models/{model}", name)


async def _fetch_models(ask: Ask[NoBody], talk: Talk, path: str, name: str) -> GatewayReply:
    request = RelayRequest(path=path, method="GET", headers=_passed(ask.headers), query=ask.query)
    return await fetch(talk, name, DRIVER, request, shape)


def model_name(talk: Talk, model: str) -> str:
    """Returns `<provider>/<model>`: the client may name a provider, else it is the one of Anthropic's own name, or kind."""
    if len(model) > MODEL_MAX:
        raise InvalidInput(f"model has at most {MODEL_MAX} characters")
    providers = provider_kinds(talk)
    named, slash, rest = model.partition("/")
    if slash and named in providers:
        return f"{named}/{rest}"
    own = [name for name, driver in providers.items() if driver == DRIVER]
    return f"{DRIVER if DRIVER in own or not own else own[0]}/{model}"


def _request(path: str, ask: Ask[MessagesBody], talk: Talk, chosen: Chosen, *, streams: bool) -> RelayRequest:
    # Whoever pays the provider itself is its customer, and says what it likes.
    end_user = None if chosen.own_key else end_user_of(talk)
    body = rewritten(ask.content, chosen.model, end_user)
    return RelayRequest(path=path, body=body, headers=_passed(ask.headers), query=ask.query, streams=streams)


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _PASSED_HEADERS if name in headers}


MESSAGE_ROUTES = (
    GatewayRoute(method="POST", path="/v1/messages", handler=create_message, body=MessagesBody, keeps_content=True),
    GatewayRoute(method="POST", path="/v1/messages/count_tokens", handler=count_tokens, body=MessagesBody, keeps_content=True),
    GatewayRoute(method="GET", path="/v1/models", handler=list_models),
    GatewayRoute(method="GET", path="/v1/models/{model}", handler=show_model, names={"model": "image_id"}),
)
