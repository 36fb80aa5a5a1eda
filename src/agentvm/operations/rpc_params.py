"""RPC params — the members of an image as clients of AgentX 2.x write them: some build it, the others are kept for the
client."""

from typing import Any, Final, Literal

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.base import Record

CLIENT_DATA_MAX_BYTES: Final = 64 * 1024
THINKING_TOKENS: Final = {"low": 5_000, "medium": 10_000, "high": 32_000}
"""The token budget for each level of thinking."""

ThinkingWord = Literal["disabled", "low", "medium", "high"]


class ClientMembers(Record):
    """Members of an image that belong to the client, or are kept for it as it wrote them."""

    role_id: str | None = None
    context_id: str | None = None
    """The name of `role_id` from 2.5 to 2.8."""
    model: str | None = None
    mcp_servers: dict[str, Any] | None = None
    thinking: ThinkingWord | None = None
    provider_options: dict[str, Any] | None = None
    custom_data: dict[str, Any] | None = None


class Embodiment(Record):
    """How an agent acts: from 2.5 to 2.8 these members stood in an object of their own."""

    model: str | None = None
    system_prompt: str | None = None
    mcp_servers: dict[str, Any] | None = None


class CreateParams(ClientMembers):
    name: str | None = None
    description: str | None = None
    system_prompt: str | None = None
    embody: Embodiment | None = None

    def flat(self) -> "CreateParams":
        """The same params with the members of `embody` beside the others."""
        if self.embody is None:
            return self
        within = {name: value for name, value in msgspec.structs.asdict(self.embody).items() if value is not None}
        return msgspec.structs.replace(self, **within)


def client_data(members: ClientMembers, before: dict[str, object]) -> dict[str, Any]:
    """Returns the data kept for the client: its members over the earlier ones."""
    own = msgspec.to_builtins(msgspec.convert(members, ClientMembers, from_attributes=True))
    data = {**before, **own}
    if len(msgspec.json.encode(data)) > CLIENT_DATA_MAX_BYTES:
        raise InvalidInput(f"customData and its like have at most {CLIENT_DATA_MAX_BYTES:,} bytes")
    return data


def tokens_of(word: ThinkingWord | None) -> int | None:
    """Returns the tokens that a word stands for."""
    return None if word is None else THINKING_TOKENS.get(word)
