"""The estimate of the cost of serving users."""

from msgspec import structs
from tests.conformance.ledger import entry
from tests.server.http.fixtures import open_world

from agentvm.cost import coefficients, prices
from agentvm.cost.estimate import estimate
from agentvm.cost.shapes import SHAPES
from agentvm.cost.workload import Workload
from agentvm.model.ledger import TIER_DRIVER


async def test_the_estimate_is_that_of_the_command_line() -> None:
    async with open_world() as world:
        shown = (await world.ask("GET", "/v1/cost?users=1000&turns=30000&textBytes=2000.5")).body
        found = estimate(Workload(users=1_000, turns=30_000, text_bytes=2_000.5), coefficients.shipped(), prices.shipped())
        assert shown["total"] == found.total
        assert shown["workload"]["textBytes"] == 2_000.5
        assert [line["name"] for line in shown["lines"]] == [line.name for line in found.lines]
        assert shown["measuredOn"] == coefficients.shipped().date
        too_many = (await world.ask("GET", "/v1/cost?turns=30000000000")).body
        assert "total" not in too_many
        assert "several nodes" in too_many["problem"]


async def test_a_shape_without_measurements_says_how_to_get_them() -> None:
    async with open_world() as world:
        assert (await world.ask("GET", "/v1/cost?shape=tower")).code == "invalid_input"
        for shape in SHAPES:
            shown = (await world.ask("GET", f"/v1/cost?shape={shape}")).body
            assert shown["shape"] == shape
            assert ("total" in shown) is not ("problem" in shown)


async def test_the_margin_of_each_tenant_is_shown_to_the_operator() -> None:
    async with open_world() as world:
        acme = world.acme.tenant_id
        job = structs.replace(entry("b", at=20, of=acme, driver=TIER_DRIVER, price=0, cost=0), wall_ms=3_600_000)
        await world.vm.tenancy.store.accounts(acme).ledger.add([entry("a", at=10, of=acme, price=105, cost=100), job])
        page = await world.ask("GET", "/v1/cost/tenants?since=1970-01-01T00:00:00Z")
        (row,) = [item for item in page.items if item["tenantId"] == acme]
        assert (row["price"], row["cost"], row["margin"]) == (105, 100, 5)
        assert (row["sandboxMs"], row["saved"]) == (3_600_000, 50_400_000)
        first = await world.ask("GET", "/v1/cost/tenants?limit=1")
        assert len(first.items) == 1
        assert first.body["nextCursor"] == first.items[0]["slug"]
        assert (await world.ask("GET", "/v1/cost/tenants", key=world.acme.admin)).code == "permission_denied"


async def test_an_estimate_is_for_the_operator_and_bad_numbers_are_refused() -> None:
    async with open_world() as world:
        assert (await world.ask("GET", "/v1/cost", key=world.acme.admin)).code == "permission_denied"
        assert (await world.ask("GET", "/v1/cost?connected=2")).code == "invalid_input"
        assert (await world.ask("GET", "/v1/cost?users=0")).code == "invalid_input"
