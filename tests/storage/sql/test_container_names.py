"""The containers of a tenant, by age and by name, in every engine."""

import anyio
import pytest
from tests.conformance.store import ACME

from agentvm.errors import InvalidInput
from agentvm.model.ids import ContainerId
from agentvm.storage.sql.store import Store

NAMES = ("b", "a", "Ä", "😀", "ab", "a b")
"""From the oldest on."""

pytestmark = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)


async def filled(store: Store) -> None:
    for age, name in enumerate(NAMES):
        await store.tenant(ACME).container(ContainerId(name)).create(age)


async def test_names_follow_each_other_as_their_characters_do(store: Store) -> None:
    tenant = store.tenant(ACME)
    with anyio.fail_after(60):
        await filled(store)
        assert await tenant.next_containers("", 10) == tuple(sorted(NAMES))
        assert await tenant.next_containers("a", 2) == ("a b", "ab")
        assert await tenant.next_containers("😀", 2) == ()


async def test_ranges_are_found_once_and_oldest_first(store: Store) -> None:
    tenant = store.tenant(ACME)
    with anyio.fail_after(60):
        await filled(store)
        last = "a" + "\U0010ffff" * 128
        assert [name for name, _ in await tenant.find_containers([("a", last), ("b", "b"), ("a", "a")])] == [
            "b",
            "a",
            "ab",
            "a b",
        ]
        assert await tenant.find_containers([]) == ()


async def test_pages_are_by_age_and_know_their_cursors(store: Store) -> None:
    tenant = store.tenant(ACME)
    with anyio.fail_after(60):
        await filled(store)
        first, cursor = await tenant.page_containers(None, 4)
        assert (first, await tenant.page_containers(cursor, 4)) == (NAMES[:4], (NAMES[4:], None))
        with pytest.raises(InvalidInput):
            await tenant.page_containers("nonsense", 4)
