"""A server with tenants, people and money, whose names are hostile, and the way to each page of them."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from playwright.async_api import Page, expect
from tests.console.route_table import read_routes
from tests.console.test_journeys import driver
from tests.console.test_sign_in import GUARDED, first_key

from agentvm import start_server
from agentvm.model.account import Quota, Tenant, User, UserRole
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, KeyId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import Credit, LedgerEntry
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.usage import Usage
from agentvm.server.local import RunningServer
from agentvm.tenants.rights import DEFAULT_PERMISSIONS

HOSTILE = '<img src=x onerror="document.title=1"> "quoted" שלום'
OPERATOR = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)
ACME = TenantId("ten_acme")
DAY_MS = 24 * 3600 * 1000
ROUTES = tuple(
    route.address({"user": "usr_ada", "tenant": "acme"})
    for route in read_routes()
    if route.source == "people" and route.name != "shared"
)
"""The pages of people and money; a shared conversation is among those of conversations."""


@dataclass(frozen=True)
class PeopleServer:
    server: RunningServer
    operator: str
    admin: str
    member: str

    @property
    def url(self) -> str:
        return self.server.url


async def add_user(
    server: RunningServer, name: str, role: UserRole, display_name: str | None = None, tenant_id: TenantId = ACME
) -> str:
    """Adds a user, of acme unless another tenant is named; returns their key."""
    access = server.server.vm.tenancy.access
    user = User(
        user_id=UserId(f"usr_{name}"),
        tenant_id=tenant_id,
        external_id=name,
        display_name=display_name,
        role=role,
        created_at=1,
        updated_at=1,
    )
    await access.add_user(user)
    _, key = await access.issue(
        tenant_id, name=f"{HOSTILE} {name}", granter=OPERATOR, user_id=user.user_id, permissions=DEFAULT_PERMISSIONS[role]
    )
    return key.reveal()


async def spend(
    server: RunningServer,
    number: int,
    at: int,
    model: str,
    price: int | None,
    *,
    estimated: bool = False,
    key_id: KeyId | None = None,
) -> None:
    entry = LedgerEntry(
        key=str(number),
        at=at,
        tenant_id=ACME,
        user_id=UserId("usr_ada"),
        key_id=key_id,
        container_id=ContainerId("user-ada"),
        image_id=ImageId("img_1"),
        session_id=SessionId(f"sess_{number % 2}"),
        turn_id=TurnId(f"turn_{number}"),
        driver="scripted",
        model=model,
        usage=Usage(input_tokens=1_000 * number, output_tokens=100, estimated=estimated),
        cost=price,
        price=price,
    )
    await server.server.vm.tenancy.store.accounts(ACME).ledger.add([entry])


@asynccontextmanager
async def people_server() -> AsyncIterator[PeopleServer]:
    async with start_server(GUARDED, drivers=driver()) as server:
        tenancy = server.server.vm.tenancy
        await tenancy.store.directory.add_tenant(Tenant(tenant_id=ACME, slug="acme", name=HOSTILE, created_at=1, updated_at=1))
        admin = await add_user(server, "root", "owner")
        member = await add_user(server, "ada", "member", HOSTILE)
        now = int(time.time() * 1000)
        models = ("anthropic/claude-sonnet-5", "openai/gpt-5.4-mini", HOSTILE)
        for number in range(1, 41):
            at = now - (number % 20) * DAY_MS
            await spend(server, number, at, models[number % 3], 1_234_567 * number, estimated=number % 10 == 0)
        await spend(server, 100, now, "free", None)
        accounts = tenancy.store.accounts(ACME)
        await accounts.ledger.credit(Credit(reference=HOSTILE, at=now, amount=25_000_000_000, actor="operator", note=HOSTILE))
        await accounts.quotas.put(Quota(metric="budget_per_month", hard=2_000_000_000, soft=1_000_000), now)
        await accounts.quotas.put(Quota(metric="connections", hard=50), now)
        await tenancy.quotas.reread(ACME)
        yield PeopleServer(server, first_key(server), admin, member)


async def visit(page: Page, people: PeopleServer, route: str, *, tenant: str | None = "acme") -> None:
    """Opens a page and waits until it shows what it has read."""
    await page.goto(f"{people.url}{route}" + (f"?tenant={tenant}" if tenant else ""))
    await expect(page.locator("main h1")).to_be_visible()
    await expect(page.locator(".bones")).to_have_count(0)
