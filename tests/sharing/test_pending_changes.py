import anyio
import pytest

from agentvm.sharing.pending_changes import PendingChanges


async def test_a_reader_waits_for_those_who_change_what_it_reads_and_for_no_others() -> None:
    changes, settled = PendingChanges(), list[str]()

    async def read(name: str) -> None:
        await changes.settle({name})
        settled.append(name)

    async def change() -> None:
        with changes.changing({"a", "b"}):
            await read("c")
            tasks.start_soon(read, "b")
            await anyio.wait_all_tasks_blocked()
            assert settled == ["c"]
            raise ValueError("refused")

    async with anyio.create_task_group() as tasks:
        with pytest.raises(ValueError, match="refused"):
            await change()
    assert settled == ["c", "b"]
    await read("a")
