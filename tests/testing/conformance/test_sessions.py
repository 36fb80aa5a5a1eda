"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio
import pytest
from msgspec import structs

from agentvm.model.ids import ContainerId, MessageId, SessionId
from agentvm.model.session import Session
from agentvm.storage.engine import open_store
from agentvm.storage.sessions import ANYBODY, Listed, MessagePage, MessageQuery, SessionPage, SessionQuery, SessionReader
from agentvm.storage.sql.sessions import SessionStore
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import sessions as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


class Unpinned(SessionStore):
    async def list(self, wanted: SessionQuery, reader: SessionReader = ANYBODY) -> SessionPage:
        page = await super().list(wanted, reader)
        items = sorted(page.items, key=lambda item: -item.session.active_at)
        return replace(page, items=tuple(items))


class Forgetful(SessionStore):
    async def get(self, session_id: SessionId, reader: SessionReader = ANYBODY) -> Listed | None:
        found = await super().get(session_id, reader)
        return found and replace(found, session=structs.replace(found.session, forked_from=None, preview=None))


class Broad(SessionStore):
    async def list(self, wanted: SessionQuery, reader: SessionReader = ANYBODY) -> SessionPage:
        return await super().list(replace(wanted, title=None), reader)


class OnePage(SessionStore):
    async def list(self, wanted: SessionQuery, reader: SessionReader = ANYBODY) -> SessionPage:
        return replace(await super().list(wanted, reader), next=None)


class Everybody(SessionStore):
    def __init__(self, database: object, tenant_id: object, containers: object) -> None:
        super().__init__(database, tenant_id, None)  # type: ignore[arg-type]


class Late(SessionStore):
    async def restore(self, session_id: SessionId, now: int, *, deleted_after: int) -> Session | None:
        return await super().restore(session_id, now, deleted_after=0)


class Renaming(SessionStore):
    async def name(self, session_id: SessionId, title: str, now: int) -> Session | None:
        found = await self.get(session_id)
        return None if found is None else structs.replace(found.session, title=title, updated_at=now)


class Backwards(SessionStore):
    async def messages(self, session_id: SessionId, wanted: MessageQuery) -> MessagePage | None:
        return await super().messages(session_id, replace(wanted, order="oldest", around=None))


class Careless(SessionStore):
    async def mark_read(
        self,
        session_id: SessionId,
        reader: SessionReader,
        now: int,
        *,
        cursor: str | None = None,
        message_id: MessageId | None = None,
    ) -> Listed | None:
        return await super().mark_read(session_id, reader, now)


def of(kind: type[SessionStore]) -> type[Store]:
    class Tenant(TenantStore):
        def sessions(self, containers: Sequence[ContainerId] | None) -> SessionStore:
            return kind(self._database, self._tenant_id, containers)

    class Faulty(Store):
        def tenant(self, tenant_id: object) -> TenantStore:
            return Tenant(self._database, tenant_id)  # type: ignore[arg-type]

    return Faulty


class NeverPurging(Store):
    async def purge_sessions(self, deleted_before: int, *, limit: int = 100) -> tuple[()]:
        return ()


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (of(Unpinned), suite.check_sessions_are_listed_by_what_was_last_said_and_pinned_ones_first),
        (of(Forgetful), suite.check_a_session_tells_what_was_done_with_it),
        (of(Forgetful), suite.check_the_last_that_was_said_is_shown),
        (of(Broad), suite.check_lists_are_narrowed),
        (of(OnePage), suite.check_pages_hold_each_session_once_and_know_the_total),
        (of(Everybody), suite.check_containers_and_tenants_do_not_see_each_other),
        (of(Late), suite.check_a_deleted_session_is_out_of_sight_until_it_is_restored),
        (NeverPurging, suite.check_what_was_deleted_long_ago_is_purged),
        (of(Renaming), suite.check_only_a_session_without_a_title_is_given_one),
        (of(Backwards), suite.check_messages_are_read_by_page_from_either_end),
        (of(Backwards), suite.check_a_message_is_shown_among_those_around_it),
        (of(Careless), suite.check_what_somebody_has_not_read_is_counted_for_them),
    ],
)
async def test_a_planted_fault_is_found(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(10), pytest.raises(AssertionError):
        async with open_store(None) as store:
            await check(faulty(store._database))


def test_every_check_is_in_the_suite() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
