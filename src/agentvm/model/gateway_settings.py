"""Gateway settings — which protocols of other clients are served; declared as those in `agentvm.model.settings`."""

from dataclasses import dataclass
from typing import Annotated

from agentvm.model.setting import Group, OnOff, setting


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GatewaySwitch(Group):
    """The switch of a gateway."""

    enabled: Annotated[OnOff, setting("Whether clients of this protocol are served.")] = "on"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AnthropicSwitch(Group):
    """The gateway of Anthropic, whose clients ask models themselves, without an agent."""

    enabled: Annotated[OnOff, setting("Whether clients of Anthropic use the models of this server, whatever agents allow.")] = (
        "off"
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OpenAISwitch(Group):
    """The gateway of OpenAI."""

    enabled: Annotated[OnOff, setting("Whether clients of this protocol are served.")] = "on"
    models: Annotated[
        OnOff, setting("Whether `<provider>/<model>` as the model asks that model itself, whatever agents allow.")
    ] = "off"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GatewaySettings(Group):
    """Protocols of other clients; see docs/gateways.md."""

    a2a: GatewaySwitch = GatewaySwitch()
    agui: GatewaySwitch = GatewaySwitch()
    ai_sdk: GatewaySwitch = GatewaySwitch()
    anthropic: AnthropicSwitch = AnthropicSwitch()
    langgraph: GatewaySwitch = GatewaySwitch()
    mcp: GatewaySwitch = GatewaySwitch()
    openai: OpenAISwitch = OpenAISwitch()
