"""The suite itself: stores with one planted fault each must not pass."""

from dataclasses import replace

import anyio
import pytest
from tests.testing.conformance.test_sessions import Check, Everybody, of

from agentvm.storage.engine import open_store
from agentvm.storage.sessions import FoundPage, MessageSearch
from agentvm.storage.sql.sessions import SessionStore
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import session_search as suite

pytestmark = pytest.mark.anyio


class Deaf(SessionStore):
    async def search(self, wanted: MessageSearch) -> FoundPage:
        return FoundPage((), 0, False, None)


class Loud(SessionStore):
    """Finds more than it was asked for."""

    async def search(self, wanted: MessageSearch) -> FoundPage:
        found = await super().search(replace(wanted, role=None, tool=None))
        return replace(found, items=tuple(replace(item, snippet=item.snippet.replace("<mark>", "")) for item in found.items))


class Backwards(SessionStore):
    async def search(self, wanted: MessageSearch) -> FoundPage:
        found = await super().search(replace(wanted, after=None))
        return replace(found, items=found.items[::-1], next=None)


class Restless(Store):
    async def tend_search(self, *, limit: int = 200) -> bool:
        return True


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (of(Deaf), suite.check_words_are_found_as_people_write_them),
        (of(Deaf), suite.check_what_is_deleted_is_not_found),
        (of(Deaf), suite.check_only_what_was_said_is_found),
        (of(Loud), suite.check_a_hit_leads_to_its_message),
        (of(Loud), suite.check_a_search_is_narrowed),
        (of(Backwards), suite.check_the_best_come_first_and_of_equals_the_newest),
        (of(Backwards), suite.check_pages_hold_each_hit_once),
        (of(Everybody), suite.check_nobody_finds_what_others_have_said),
        (Restless, suite.check_tending_changes_nothing_of_what_is_found),
    ],
)
async def test_a_planted_fault_is_found(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(10), pytest.raises((AssertionError, ValueError)):
        async with open_store(None) as store:
            await check(faulty(store._database))


def test_every_check_is_in_the_suite() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
