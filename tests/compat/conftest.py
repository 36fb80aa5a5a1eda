"""A server that tests share when they only look at their own corner of it; starting one takes longer than most of them."""

from collections.abc import AsyncIterator

import pytest
from tests.support.serving import Play, Served, serving


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[Served]:
    async with serving(Play()) as server:
        yield server
