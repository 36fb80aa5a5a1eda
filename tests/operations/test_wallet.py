import anyio
import pytest
from tests.server.http.fixtures import NOON, open_world

CREDITS = "/v1/wallet/credits?tenant=acme"


async def test_money_is_paid_in_once_per_reference() -> None:
    async with open_world() as world:
        before = (await world.ask("GET", "/v1/wallet", key=world.acme.admin)).body
        assert before == {"balance": 0, "credited": 0, "spent": 0, "prepaid": False}
        first = await world.ask("POST", CREDITS, {"amountUsd": "12.50", "reference": "inv-1", "note": "thanks"})
        assert (first.status, first.body["added"]) == (201, True)
        again = await world.ask("POST", CREDITS, {"amountNanoUsd": 12_500_000_000, "reference": "inv-1"})
        assert (again.status, again.body["added"]) == (200, False)
        other = await world.ask("POST", CREDITS, {"amountUsd": "99", "reference": "inv-1"})
        assert (other.status, other.code) == (409, "conflict")
        await world.spend(world.acme.tenant_id, "1")
        after = (await world.ask("GET", "/v1/wallet", key=world.acme.admin)).body
        assert after == {"balance": 12_500_000_000 - 105, "credited": 12_500_000_000, "spent": 105, "prepaid": True}
        assert (await world.audit(world.acme.tenant_id))[0] == ("wallet.credit", "inv-1", "refused:conflict")


async def test_paid_in_money_counts_at_once() -> None:
    async with open_world() as world:
        quotas = world.vm.tenancy.quotas
        assert not (await quotas.book(world.acme.tenant_id)).wallet.prepaid
        await world.ask("POST", CREDITS, {"amountUsd": "1", "reference": "a"})
        assert (await quotas.book(world.acme.tenant_id)).balance == 1_000_000_000


@pytest.mark.parametrize(
    "amount",
    [
        {},
        {"amountUsd": "1", "amountNanoUsd": 1},
        {"amountUsd": "0"},
        {"amountUsd": "0.0000000001"},
        {"amountUsd": "1e9"},
        {"amountUsd": "NaN"},
        {"amountUsd": "-Infinity"},
        {"amountUsd": "1,000"},
        {"amountUsd": "１２"},
        {"amountUsd": " 1"},
        {"amountUsd": 12.5},
        {"amountUsd": "1000000.01"},
        {"amountNanoUsd": 0},
        {"amountNanoUsd": 1.5},
        {"amountNanoUsd": "5"},
        {"amountNanoUsd": 10**30},
        {"amountNanoUsd": True},
    ],
)
async def test_an_amount_that_is_none_is_refused(amount: dict[str, object]) -> None:
    async with open_world() as world:
        refused = await world.ask("POST", CREDITS, {**amount, "reference": "a"})
        assert (refused.status, refused.code) == (400, "invalid_input")
        assert (await world.ask("GET", "/v1/wallet?tenant=acme")).body["credited"] == 0


@pytest.mark.parametrize("reference", ["", " ", "a\nb", "x" * 201])
async def test_a_payment_needs_a_name(reference: str) -> None:
    async with open_world() as world:
        assert (await world.ask("POST", CREDITS, {"amountUsd": "1", "reference": reference})).status == 400


async def test_no_more_is_taken_back_than_there_is() -> None:
    async with open_world() as world:
        await world.ask("POST", CREDITS, {"amountUsd": "5", "reference": "a"})
        assert (await world.ask("POST", CREDITS, {"amountUsd": "-5.01", "reference": "b"})).status == 409
        assert (await world.ask("POST", CREDITS, {"amountUsd": "-5", "reference": "b"})).status == 201
        assert (await world.ask("GET", "/v1/wallet?tenant=acme")).body["balance"] == 0


async def test_those_who_take_back_at_once_get_no_more_than_there_is() -> None:
    async with open_world() as world:
        await world.ask("POST", CREDITS, {"amountUsd": "5", "reference": "a"})
        statuses: list[int] = []

        async def take(number: int) -> None:
            body = {"amountUsd": "-5", "reference": f"back {number}"}
            statuses.append((await world.ask("POST", CREDITS, body)).status)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(take, number)
        assert sorted(statuses) == [201, 409, 409, 409, 409]
        assert (await world.ask("GET", "/v1/wallet?tenant=acme")).body["balance"] == 0


async def test_what_a_call_has_set_aside_or_settled_is_not_taken_back() -> None:
    async with open_world() as world:
        await world.ask("POST", CREDITS, {"amountNanoUsd": 1_000, "reference": "a"})
        quotas = world.vm.tenancy.quotas
        held = await quotas.hold(world.acme.tenant_id, None, 1, 600, force=False)
        assert (await world.ask("POST", CREDITS, {"amountNanoUsd": -401, "reference": "b"})).status == 409
        held.settle(1, 500)
        assert (await world.ask("POST", CREDITS, {"amountNanoUsd": -501, "reference": "b"})).status == 409
        assert (await world.ask("POST", CREDITS, {"amountNanoUsd": -500, "reference": "b"})).status == 201
        assert (await quotas.book(world.acme.tenant_id)).balance == 0


async def test_nobody_pays_themselves() -> None:
    async with open_world() as world:
        body = {"amountUsd": "1", "reference": "a"}
        refused = await world.ask("POST", "/v1/wallet/credits", body, key=world.acme.admin)
        assert (refused.status, refused.code) == (403, "permission_denied")
        assert (await world.ask("GET", "/v1/wallet", key=world.acme.user)).status == 403


async def test_the_lines_of_a_statement_add_up_to_the_balance() -> None:
    async with open_world() as world:
        for number, amount in enumerate(("10", "5", "-2")):
            world.clock.now += 1
            await world.ask("POST", CREDITS, {"amountUsd": amount, "reference": f"r{number}"})
        await world.spend(world.acme.tenant_id, "1")
        await world.spend(world.acme.tenant_id, "2", at=NOON + 86_400_000)
        await world.spend(world.acme.tenant_id, "3", at=NOON + 86_400_000)
        lines = []
        after = ""
        while True:
            page = await world.ask("GET", f"/v1/wallet/statement?limit=2{after}", key=world.acme.admin)
            lines += page.items
            if "nextCursor" not in page.body:
                break
            after = f"&cursor={page.body['nextCursor']}"
        assert [line["reference"] for line in lines] == ["2023-11-15", "r2", "r1", "r0", "2023-11-14"]
        assert lines[0] == {"kind": "usage", "at": 1_700_006_400_000, "amount": -210, "reference": "2023-11-15", "calls": 2}
        balance = (await world.ask("GET", "/v1/wallet", key=world.acme.admin)).body["balance"]
        assert sum(line["amount"] for line in lines) == balance
        late = await world.ask("GET", "/v1/wallet/statement?since=2023-11-15", key=world.acme.admin)
        assert [line["reference"] for line in late.items] == ["2023-11-15"]
        early = await world.ask("GET", "/v1/wallet/statement?until=2023-11-14", key=world.acme.admin)
        assert early.items == []
