"""Chat relay — a chat completion with `<provider>/<model>` as its model goes to that model itself, without an agent."""

import msgspec

from agentvm.drivers.models import Chosen
from agentvm.drivers.relay import RelayingDriver, RelayRequest
from agentvm.drivers.weighing import ENTRY_TOKENS, PAGE_TOKENS, PROMPT_TOKENS, TOOLS_TOKENS, count_pages, image_tokens
from agentvm.errors import InvalidInput
from agentvm.gateways.openai.chat_body import ChatBody, ContentPart, ImageUrl
from agentvm.gateways.openai.errors import shape
from agentvm.gateways.relaying import (
    USE_PERMISSION,
    RelayedRequest,
    end_user_of,
    members_of,
    provider_kinds,
    relay,
)
from agentvm.gateways.routes import Ask, GatewayReply
from agentvm.gateways.talk import Talk
from agentvm.sessions.relays import RelayPlan

DRIVER = "openai"
CONTAINER_HEADER = "x-avm-container"
ANSWER_TOKENS = 32_000
"""The longest answer of a request that names no limit: the tokens of a call are reserved before it is made."""
OUTPUT_MAX = 1_000_000
CHOICES_MAX = 128
WINDOW_TOKENS = 1_000_000
"""Tokens of a document that cannot be looked into."""
TOKEN_BYTES = 4
_PDF = "data:application/pdf;base64,"


def relayed_model(talk: Talk, model: str) -> str | None:
    """Returns the name of a model that is asked itself; None for the name of an agent."""
    if talk.vm.config.gateways.openai.models == "off" or "://" in model:
        return None
    provider, slash, name = model.partition("/")
    # A tenant may have a key of its own for OpenAI where the server has none.
    return model if slash and name and (provider == DRIVER or provider in provider_kinds(talk)) else None


def listed_models(talk: Talk) -> list[str]:
    """Returns the models that lists name: the default one of each provider. Its others can be asked for, too."""
    if talk.vm.config.gateways.openai.models == "off":
        return []
    return [
        f"{provider.name}/{provider.default_model}" for provider in talk.vm.runtime.models.health() if provider.driver == DRIVER
    ]


async def relay_chat(ask: Ask[ChatBody], talk: Talk, model: str) -> GatewayReply:
    """Answers a chat completion with the provider's answer."""
    talk.principal.require(USE_PERMISSION)
    body, content, streams = ask.body, ask.content, bool(ask.body.stream)
    limit = body.max_completion_tokens or body.max_tokens or ANSWER_TOKENS
    choices = 1 if body.n is None else body.n
    if not (0 < limit <= OUTPUT_MAX and 0 < choices <= CHOICES_MAX):
        raise InvalidInput(f"max_tokens is from 1 to {OUTPUT_MAX:,}, and n from 1 to {CHOICES_MAX}")
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER), body.safety_identifier or body.user)
    plan = RelayPlan(
        model=model,
        driver=DRIVER,
        size=len(content),
        most_input=most_input(body, len(content), model.partition("/")[2]),
        input_tokens=len(content) // TOKEN_BYTES,
        most_output=limit * choices,
    )

    def build(chosen: Chosen, driver: RelayingDriver) -> RelayRequest:
        end_user = None if chosen.own_key else end_user_of(talk)
        written = rewritten(ask, chosen.model, driver.answer_limit, end_user)
        hides_usage = body.stream_options is None or not body.stream_options.include_usage
        return RelayRequest(path="chat/completions", body=written, streams=streams, hides_usage=hides_usage)

    request = RelayedRequest(container_id=container_id, content=content, streams=streams, key=ask.key)
    return await relay(talk, request, plan, build, shape)


def most_input(body: ChatBody, size: int, model: str) -> int:
    """Returns more tokens than the request can have: a token has at least a byte, and files count by their kind."""
    picture, weight, spared = image_tokens(DRIVER, model), 0, 0
    for part in (part for message in body.messages if isinstance(message.content, tuple) for part in message.content):
        tokens, data = _file(part, picture)
        weight, spared = weight + tokens, spared + data
    tools = TOOLS_TOKENS + ENTRY_TOKENS * len(body.tools) if body.tools else 0
    return PROMPT_TOKENS + ENTRY_TOKENS * len(body.messages) + tools + max(0, size - spared) + weight


def rewritten(ask: Ask[ChatBody], model: str, limit: str, end_user: str | None) -> bytes:
    """Returns the request for its provider: with the provider's name of the model, a limit, and usage in a stream.

    `end_user` takes the place of the client's own names of users.
    """
    body, members = ask.body, members_of(ask.content)
    changed: dict[str, object] = {"model": model}
    if body.max_tokens is None and body.max_completion_tokens is None:
        changed[limit] = ANSWER_TOKENS
    if body.stream:
        options = members_of(bytes(members["stream_options"])) if body.stream_options is not None else {}
        changed["stream_options"] = {**options, "include_usage": True}
    if end_user is not None:
        changed |= {name: end_user for name in ("user", "safety_identifier") if name in members}
    return msgspec.json.encode({**members, **changed})


def _file(part: ContentPart, picture: int) -> tuple[int, int]:
    """Returns the tokens of a picture or document at most, and the bytes that it has in the request."""
    if part.image_url is not None:
        url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
        return picture, len(url)
    if part.file is None:
        return 0, 0
    data = part.file.file_data or ""
    pages = count_pages(data.removeprefix(_PDF)) if data else None
    return WINDOW_TOKENS if pages is None else min(WINDOW_TOKENS, pages * PAGE_TOKENS), len(data)
