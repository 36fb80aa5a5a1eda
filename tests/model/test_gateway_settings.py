from agentvm.model.gateway_settings import GatewaySettings


def test_agents_are_served_and_models_themselves_only_when_the_operator_says_so() -> None:
    gateways = GatewaySettings()
    assert (gateways.openai.enabled, gateways.openai.models, gateways.anthropic.enabled) == ("on", "off", "off")
