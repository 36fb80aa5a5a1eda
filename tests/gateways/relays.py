"""A server with gateways to models themselves, and the providers behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import httpx2
from tests.support.provider import ScriptedProvider, open_provider

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, LlmSettings, SessionSettings, SystemSettings
from agentvm.model.gateway_settings import AnthropicSwitch, GatewaySettings, OpenAISwitch
from agentvm.model.money import ModelRate
from agentvm.model.secret import Secret
from agentvm.model.settings import BillingSettings, ProviderSettings

KEY = "sk-operator-secret"
DOLLAR = ModelRate(input=Decimal(1), output=Decimal(10))


@dataclass(frozen=True, slots=True)
class RelayScene:
    url: str
    provider: ScriptedProvider
    web: httpx2.AsyncClient

    async def billed(self, calls: int = 1) -> dict[str, Any]:
        """The sum of the ledger, as soon as it has that many calls."""
        with anyio.fail_after(60):
            while True:
                sums = (await self.web.get("/v1/usage")).json()["items"]
                if sums and sums[0]["calls"] >= calls:
                    found: dict[str, Any] = sums[0]
                    return found
                await anyio.lowlevel.checkpoint()


def config_of(provider: str, data_dir: Path | None = None, port: int = 0) -> ServerConfig:
    providers = {
        "anthropic": ProviderSettings(driver="anthropic", model="claude-test", api_key=Secret(KEY), base_url=provider),
        "deep": ProviderSettings(driver="openai", model="deep-1", api_key=Secret(KEY), base_url=f"{provider}/v1"),
    }
    return ServerConfig(
        system=SystemSettings(port=port, data_dir=str(data_dir or MEMORY), shutdown_seconds=0),
        sessions=SessionSettings(titles="off"),
        llm=LlmSettings(provider="anthropic", providers=providers),
        gateways=GatewaySettings(anthropic=AnthropicSwitch(enabled="on"), openai=OpenAISwitch(models="on")),
        billing=BillingSettings(prices={"anthropic": DOLLAR, "deep": DOLLAR}, markup=Decimal(2)),
    )


@asynccontextmanager
async def relay_scene() -> AsyncIterator[RelayScene]:
    async with (
        open_provider() as provider,
        start_server(config_of(provider.base_url)) as server,
        httpx2.AsyncClient(base_url=server.url, trust_env=False) as web,
    ):
        yield RelayScene(server.url, provider, web)
