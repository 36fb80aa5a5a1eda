"""F29, a tenant whose calls fail by its own doing: the provider stays open to the others, over real HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest
from tests.support import answers as play
from tests.support.provider import ScriptedProvider, Stall, open_provider
from tests.support.wire import Client19, client

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, BillingSettings, LlmSettings, SessionSettings, SystemSettings
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.models import Models, Provider
from agentvm.model.account import Tenant
from agentvm.model.ids import TenantId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.model.setting import ChangeRequest
from agentvm.server.local import RunningServer

OPERATOR = Principal(tenant_id=TenantId("default"), permissions=EVERYTHING)
ATTACKER, VICTIM = TenantId("tnt_attacker"), TenantId("tnt_victim")
NO_ACCESS: dict[str, object] = {
    "error": {"message": "Project does not have access to model `o1-pro`", "code": "model_not_found"}
}
ROUNDS = 6


@dataclass(slots=True)
class Place:
    provider: ScriptedProvider
    server: RunningServer
    attacker: Client19
    victim: Client19

    @property
    def models(self) -> Models:
        return self.server.server.vm.runtime.models

    async def outcome(self, who: Client19, image_id: str) -> str:
        turn_id = (await who.request("message_send_request", imageId=image_id, content="go"))["turnId"]
        return str((await who.end_of(turn_id))["data"]["outcome"])


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0, auth="on"),
        llm=LlmSettings(provider="scripted"),
        billing=BillingSettings(allow_unpriced="on"),
        sessions=SessionSettings(titles="off"),
    )
    with anyio.fail_after(200):
        async with open_provider() as provider, start_server(config) as server:
            vm = server.server.vm
            url = f"{provider.base_url}/v1"
            settings = DriverSettings(base_url=url, api_key=Secret("sk"), model="gpt-4o", timeout=60, max_retries=0)
            await vm.runtime.models.configure([Provider(name="corp", driver="openai", settings=settings)], default="corp")
            urls = []
            for tenant_id in (ATTACKER, VICTIM):
                tenant = Tenant(tenant_id=tenant_id, slug=tenant_id, name="T", created_at=1, updated_at=1)
                await vm.tenancy.store.directory.add_tenant(tenant)
                _, key = await vm.tenancy.access.issue(tenant_id, name="k", granter=OPERATOR)
                urls.append(f"{server.ws_url}?token={key.reveal()}")
            async with client(urls[0]) as attacker, client(urls[1]) as victim:
                yield Place(provider, server, attacker, victim)


async def test_f29_a_model_that_the_account_may_not_use_fails_only_the_turn_that_asks_for_it() -> None:
    async with place() as here:
        image = (await here.attacker.image(model="corp/o1-pro"))["imageId"]
        here.provider.play(play.failure(403, NO_ACCESS))
        for _ in range(ROUNDS):
            assert await here.outcome(here.attacker, image) == "failed"
        assert len(here.provider.requests) == ROUNDS
        here.provider.play(play.openai_text("hello"))
        assert await here.outcome(here.victim, (await here.victim.image())["imageId"]) == "completed"
        assert here.models.health()[0].state == "ok"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 529])
async def test_f29_errors_that_one_tenant_provokes_keep_nobody_else_from_being_answered(status: int) -> None:
    async with place() as here:
        image = (await here.attacker.image())["imageId"]
        here.provider.play(play.failure(status, headers={"retry-after": "3600"}))
        assert await here.outcome(here.attacker, image) == "failed"
        here.provider.play(play.openai_text("hello"))
        assert await here.outcome(here.victim, (await here.victim.image())["imageId"]) == "completed"


async def test_f29_a_tenants_own_short_timeout_says_nothing_about_the_provider() -> None:
    async with place() as here:
        vm = here.server.server.vm
        await vm.settings.change(ATTACKER, {"defaults.timeout": 1}, ChangeRequest(actor="test"))
        image = (await here.attacker.image())["imageId"]
        here.provider.play(play.stream([Stall()]))
        for _ in range(ROUNDS):
            assert await here.outcome(here.attacker, image) == "failed"
        assert here.models.health(VICTIM)[0].state == "unknown"
        here.provider.play(play.openai_text("hello"))
        assert await here.outcome(here.victim, (await here.victim.image())["imageId"]) == "completed"
