from typing import Any

import pytest
from tests.server.http.fixtures import NOON, World, open_world

MANY = 100_000


def entry(**changes: object) -> dict[str, Any]:
    return {
        "id": "turn_1:0:1",
        "at": NOON,
        "containerId": "user-alice",
        "imageId": "img_1",
        "sessionId": "sess_1",
        "turnId": "turn_1",
        "driver": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {"inputTokens": MANY, "outputTokens": MANY},
        **changes,
    }


async def book(world: World, key: str, *entries: dict[str, Any]) -> Any:
    return await world.ask("POST", "/v1/usage/entries", {"entries": list(entries)}, key=key)


async def test_a_call_of_the_edge_is_entered_once_with_a_price_and_counts_against_the_quota() -> None:
    async with open_world() as world:
        key = await world.key(world.acme.tenant_id, ["usage:write"])
        await world.ask("PUT", "/v1/quotas", {"metric": "tokens_per_day", "hard": 100 * MANY}, key=world.acme.admin)
        first = await book(world, key, entry(), entry(id="turn_2:0:1"))
        again = await book(world, key, entry(), entry(id="turn_3:0:1"))
        assert (first.body, again.body) == ({"booked": 2, "known": 0}, {"booked": 1, "known": 1})
        (row,) = (await world.ask("GET", "/v1/usage?by=model,container", key=world.acme.admin)).items
        # $3 in, $15 out for a million: $1.80, three times, and the markup.
        assert (row["calls"], row["cost"], row["price"]) == (3, 5_400_000_000, 5_670_000_000)
        quotas = (await world.ask("GET", "/v1/quotas", key=world.acme.admin)).items
        assert [row["used"] for row in quotas if row["metric"] == "tokens_per_day"] == [6 * MANY]
        assert (await world.ask("GET", "/v1/wallet", key=world.acme.admin)).body["spent"] == 5_670_000_000
        assert (await world.ask("GET", "/v1/usage?by=model", key=world.bolt.admin)).items == []


async def test_a_model_without_a_price_is_entered_without_one() -> None:
    async with open_world() as world:
        key = await world.key(world.acme.tenant_id, ["usage:write"])
        assert (await book(world, key, entry(model="nobody-knows-it"))).body == {"booked": 1, "known": 0}
        (row,) = (await world.ask("GET", "/v1/usage", key=world.acme.admin)).items
        assert (row["unpricedCalls"], row["price"]) == (1, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"usage": {"inputTokens": -1, "outputTokens": 0}},
        {"usage": {"inputTokens": 10**13, "outputTokens": 0}},
        {"id": ""},
        {"id": "a\nb"},
        {"at": NOON + 10 * 86_400_000},
        {"containerId": "../etc"},
        {"price": 0},
        {"model": "x" * 201},
    ],
)
async def test_an_entry_that_cannot_be_is_refused_and_nothing_of_its_request_is_booked(change: dict[str, Any]) -> None:
    async with open_world() as world:
        key = await world.key(world.acme.tenant_id, ["usage:write"])
        assert (await book(world, key, entry(id="good"), entry(**change))).code == "invalid_input"
        assert (await world.ask("GET", "/v1/usage/entries", key=world.acme.admin)).items == []


async def test_only_a_key_for_it_books_and_only_into_containers_that_it_reaches() -> None:
    async with open_world() as world:
        assert (await book(world, world.acme.user, entry())).status == 403
        bound = await world.key(world.acme.tenant_id, ["usage:write"], containers=["user-bob"])
        assert (await book(world, bound, entry())).code == "container_forbidden"
        assert (await book(world, bound)).code == "invalid_input"
