"""A book is read with what the ledger knows, and knows its users again when they come back."""

import pytest
from tests.tenants.test_quota import ACME, opened

from agentvm.model.account import EACH_USER, Quota
from agentvm.model.ids import UserId
from agentvm.tenants import book_reader


async def test_users_who_have_not_come_for_long_are_forgotten_and_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_reader, "USERS_MAX", 2)
    async with opened(Quota(metric="requests_per_minute", hard=5, user_id=EACH_USER)) as (quotas, _, _):
        for number in range(6):
            await quotas.hit(ACME, UserId(f"u{number}"))
        book = await quotas.book(ACME)
        assert (list(book.users), len(book.counters)) == (["u4", "u5"], 2)
