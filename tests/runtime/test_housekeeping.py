"""Nobody waits for ever for a recovery that has failed."""

from typing import cast

import anyio
import pytest

from agentvm.errors import StoreFailed
from agentvm.runtime.housekeeping import recover
from agentvm.runtime.recovery.restart import Recovery
from agentvm.runtime.runtime import Runtime


class FailingRecovery:
    async def find(self) -> None:
        raise StoreFailed("no database")


class WaitedFor:
    def __init__(self) -> None:
        self.recovered = anyio.Event()


async def test_a_recovery_that_fails_is_over_all_the_same() -> None:
    runtime = WaitedFor()
    with pytest.raises(StoreFailed):
        await recover(cast(Recovery, FailingRecovery()), cast(Runtime, runtime))
    assert runtime.recovered.is_set()
