"""The suite itself: stores with one planted fault each must not pass."""

from dataclasses import replace

import pytest
from tests.testing.conformance.test_resources import Blind, Check, is_seen

from agentvm.storage.resources import Hits, Search
from agentvm.storage.sql.resources import ResourceStore
from agentvm.testing.conformance import resource_search as suite

pytestmark = pytest.mark.anyio


class Literal(ResourceStore):
    async def search(self, search: Search) -> Hits:
        return await super().search(replace(search, text=search.text and f"{search.text}x"))


class Worst(ResourceStore):
    async def search(self, search: Search) -> Hits:
        hits = await super().search(search)
        return replace(hits, items=hits.items[::-1])


class Wide(ResourceStore):
    async def search(self, search: Search) -> Hits:
        return await super().search(replace(search, tag=None))


class Estimating(ResourceStore):
    async def search(self, search: Search) -> Hits:
        hits = await super().search(search)
        return replace(hits, total=len(hits.items))


class Forgiving(ResourceStore):
    async def search(self, search: Search) -> Hits:
        return await super().search(replace(search, after=None))


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (Literal, suite.check_words_are_found_as_people_write_them),
        (Literal, suite.check_what_is_typed_is_never_syntax),
        (Worst, suite.check_the_best_hit_comes_first),
        (Wide, suite.check_every_member_of_a_search_narrows_it),
        (Blind, suite.check_every_member_of_a_search_narrows_it),
        (Estimating, suite.check_pages_hold_every_hit_once_while_others_write),
        (Worst, suite.check_pages_hold_every_hit_once_while_others_write),
        (Forgiving, suite.check_a_place_that_is_none_is_refused),
    ],
)
async def test_a_planted_fault_is_seen(faulty: type[ResourceStore], check: Check) -> None:
    await is_seen(faulty, check)


def test_every_check_is_in_the_list() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
