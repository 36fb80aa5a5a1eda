import anyio
import pytest

from agentvm.sharing.underway import Underway


async def test_a_reader_waits_for_those_who_change_what_it_reads_and_for_no_others() -> None:
    underway, settled = Underway(), list[str]()

    async def read(name: str) -> None:
        await underway.settle({name})
        settled.append(name)

    async def change() -> None:
        with underway.changing({"a", "b"}):
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
