"""Gateway settings — which protocols of other clients are served; declared as those in `agentvm.model.settings`."""

from dataclasses import dataclass
from typing import Annotated

from agentvm.model.setting import Group, OnOff, Text, setting


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GatewaySwitch(Group):
    """The switch of a gateway."""

    enabled: Annotated[OnOff, setting("Whether clients of this protocol are served.")] = "on"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AnthropicSwitch(Group):
    """The gateway of Anthropic, whose clients ask models themselves, without an agent."""

    enabled: Annotated[
        OnOff, setting("Whether clients of the Anthropic API may call the models of this server directly, without an agent.")
    ] = "off"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OpenAISwitch(Group):
    """The gateway of OpenAI."""

    enabled: Annotated[OnOff, setting("Whether clients of this protocol are served.")] = "on"
    models: Annotated[OnOff, setting("Whether the model `<provider>/<model>` means that model itself, without an agent.")] = (
        "off"
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class A2ASwitch(Group):
    """The gateway of A2A, by which agents of others find those of this server."""

    enabled: Annotated[OnOff, setting("Whether clients of this protocol are served.")] = "on"
    published: Annotated[
        tuple[Text, ...], setting("Agents of the operator's tenant whose cards are shown without a key. Using them needs one.")
    ] = ()
    default: Annotated[
        Text | None,
        setting("The agent whose card is at `/.well-known/agent-card.json`.", unset="no card is there"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GatewaySettings(Group):
    """Protocols of other clients; see docs/gateways.md."""

    a2a: A2ASwitch = A2ASwitch()
    agui: GatewaySwitch = GatewaySwitch()
    ai_sdk: GatewaySwitch = GatewaySwitch()
    anthropic: AnthropicSwitch = AnthropicSwitch()
    langgraph: GatewaySwitch = GatewaySwitch()
    mcp: GatewaySwitch = GatewaySwitch()
    openai: OpenAISwitch = OpenAISwitch()
