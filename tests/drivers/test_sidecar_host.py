import os
import sys
from pathlib import Path

import anyio
import pytest
from tests.support.processes import wait_ended

from agentvm.drivers.sidecar_host import LIVES_MAX, Shape, _environment, open_host
from agentvm.errors import ModelUnavailable, ProviderOverloaded, ProviderUnreachable

SHAPE = Shape(slots=1, window=100)
MODEL = Path("tiny.gguf")

ANSWERS = 'import sys; sys.stdin.readline(); print(\'{"url": "http://127.0.0.1:1"}\', flush=True); '
SERVES = ANSWERS + "sys.stdin.read()"
DIES = "import sys; sys.stderr.write('a\\nboom\\n'); sys.exit(3)"
STALLS = "import time; time.sleep(60)"
NONSENSE = "import sys; sys.stdin.readline(); print('hello', flush=True); sys.stdin.read()"
REFUSES = 'import sys; sys.stdin.readline(); print(\'{"error": "no such model"}\', flush=True); sys.stdin.read()'


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


async def test_one_process_serves_every_lease() -> None:
    with anyio.fail_after(60):
        async with open_host(command=program(SERVES)) as host:
            async with host.lease(MODEL, SHAPE) as first, host.lease(MODEL, SHAPE) as second:
                assert first == second
                assert len(first.key) > 30
            assert len(host.process_ids) == 1


async def test_leaving_the_host_ends_the_process() -> None:
    with anyio.fail_after(60):
        async with open_host(command=program(SERVES)) as host:
            async with host.lease(MODEL, SHAPE):
                [pid] = host.process_ids
        await wait_ended(pid)


def children() -> set[str]:
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


@pytest.mark.skipif(sys.platform != "linux", reason="children are read from /proc")
@pytest.mark.parametrize("steps", range(1, 7))
async def test_leaving_while_the_process_starts_leaves_none(steps: int) -> None:
    async def hold() -> None:
        async with host.lease(MODEL, SHAPE):
            await anyio.sleep_forever()

    before = children()
    with anyio.fail_after(60):
        async with open_host(command=program(STALLS)) as host, anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert children() <= before


async def test_an_idle_process_ends_and_the_next_lease_starts_another() -> None:
    with anyio.fail_after(60):
        async with open_host(command=program(SERVES), idle_seconds=0.01) as host:
            async with host.lease(MODEL, SHAPE) as first:
                [pid] = host.process_ids
            await wait_ended(pid)
            async with host.lease(MODEL, SHAPE) as second:
                assert second != first


async def test_a_leased_process_is_not_idle() -> None:
    with anyio.fail_after(60):
        async with open_host(command=program(SERVES), idle_seconds=0.0) as host, host.lease(MODEL, SHAPE):
            await anyio.wait_all_tasks_blocked()
            assert len(host.process_ids) == 1


async def test_a_crash_is_noticed_and_the_next_lease_starts_another() -> None:
    with anyio.fail_after(60):
        async with open_host(command=program(SERVES)) as host:
            async with host.lease(MODEL, SHAPE) as first:
                [pid] = host.process_ids
                os.kill(pid, 9)
                while host.process_ids:
                    await anyio.lowlevel.checkpoint()
            async with host.lease(MODEL, SHAPE) as second:
                assert second != first


async def test_a_process_that_a_caller_found_unreachable_is_not_leased_again() -> None:
    with anyio.fail_after(60):
        async with open_host(command=program(SERVES)) as host:
            with pytest.raises(ProviderUnreachable):
                async with host.lease(MODEL, SHAPE) as first:
                    raise ProviderUnreachable("broke")
            async with host.lease(MODEL, SHAPE) as second:
                assert second != first


@pytest.mark.parametrize(
    ("text", "reason"),
    [(DIES, "status 3: boom"), (NONSENSE, "nonsense"), (REFUSES, "no such model"), (STALLS, "within 0.3 s")],
)
async def test_a_process_that_does_not_start_says_why(text: str, reason: str) -> None:
    with anyio.fail_after(60):
        async with open_host(command=program(text), start_seconds=0.3 if text is STALLS else 5.0) as host:
            with pytest.raises(ModelUnavailable, match=reason):
                async with host.lease(MODEL, SHAPE):
                    pass
            assert host.process_ids == []


async def test_a_program_that_is_not_there_says_so() -> None:
    with anyio.fail_after(60):
        async with open_host(command=["/nowhere/python"]) as host:
            with pytest.raises(ModelUnavailable, match="cannot be started"):
                async with host.lease(MODEL, SHAPE):
                    pass


async def test_everyone_who_waits_for_a_start_hears_of_its_failure() -> None:
    failed: list[str] = []

    async def ask() -> None:
        with pytest.raises(ModelUnavailable):
            async with host.lease(MODEL, SHAPE):
                pass
        failed.append("")

    with anyio.fail_after(60):
        async with open_host(command=program(DIES)) as host, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
    assert len(failed) == 3


async def test_models_in_memory_are_bounded_and_an_idle_one_gives_way() -> None:
    with anyio.fail_after(60):
        async with open_host(command=program(SERVES)) as host:
            async with host.lease(Path("a"), SHAPE):
                async with host.lease(Path("b"), SHAPE):
                    with pytest.raises(ProviderOverloaded):
                        async with host.lease(Path("c"), SHAPE):
                            pass
                async with host.lease(Path("c"), SHAPE):
                    assert len(host.process_ids) == LIVES_MAX


async def test_what_the_caller_raises_is_not_wrapped() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_host(command=program(SERVES)) as host, host.lease(MODEL, SHAPE):
            raise ZeroDivisionError


def test_the_child_inherits_no_secrets() -> None:
    environment = _environment({"PATH": "/bin", "LLM_API_KEY": "k", "AWS_SECRET_ACCESS_KEY": "k"})
    assert environment == {"PATH": "/bin", "GOMP_SPINCOUNT": "0"}
