"""The process of a job: the program itself where there are namespaces, behind a guard where there are none."""

import pytest
from tests.tiers.conftest import settings_of

from agentvm.model.tier import Job
from agentvm.tiers.process import ProcessTier, open_process_tier


async def test_the_program_is_the_first_process_of_its_namespace(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="python", code="import os\n[os.getpid(), os.getppid(), os.getsid(0)]"))
    assert result.value == [1, 0, 1]


async def test_a_program_ends_with_its_own_status_in_every_mode(any_tier: ProcessTier) -> None:
    assert (await any_tier.run(Job(engine="shell", code="exit 7"))).exit_code == 7
    segfault = await any_tier.run(Job(engine="python", code="import ctypes\nctypes.string_at(0)"))
    assert (segfault.signal, segfault.exit_code) == ("SIGSEGV", None)


@pytest.mark.parametrize("mode", ["landlock", "landlock-nobody"])
async def test_a_guard_ends_as_the_program_did(mode: str) -> None:
    async with open_process_tier(settings_of(mode)) as tier:
        for name in ("SIGTERM", "SIGKILL", "SIGABRT"):
            result = await tier.run(Job(engine="shell", code=f"kill -{name.removeprefix('SIG')} $$"))
            assert (result.signal, result.exit_code) == (name, None)
