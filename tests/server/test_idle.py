import anyio

from agentvm.server.idle import Inbox, OpenGate


async def test_an_inbox_hands_out_messages_in_order_and_wakes_its_reader() -> None:
    inbox, read = Inbox(), []

    async def reader() -> None:
        for _ in range(3):
            read.append(await inbox.get())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            for message in ("a", "b", "c"):
                inbox.put_nowait(message)
    assert read == ["a", "b", "c"]
    assert inbox.empty()


async def test_a_reader_that_gave_up_takes_no_message_with_it() -> None:
    inbox = Inbox()
    with anyio.move_on_after(0):
        await inbox.get()
    inbox.put_nowait("a")
    with anyio.fail_after(60):
        assert await inbox.get() == "a"


async def test_a_gate_holds_everybody_back_only_while_it_is_shut() -> None:
    gate, passed = OpenGate(), []

    async def passer(name: str) -> None:
        await gate.wait()
        passed.append(name)

    with anyio.fail_after(60):
        await passer("open")
        gate.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(passer, "first")
            tasks.start_soon(passer, "second")
            await anyio.wait_all_tasks_blocked()
            assert passed == ["open"]
            gate.set()
    assert passed == ["open", "first", "second"]


async def test_an_inbox_counts_what_waits_and_what_was_taken_last() -> None:
    inbox = Inbox()
    for message in ({"text": "abc"}, {"bytes": b"12345"}, {"type": "websocket.disconnect"}):
        inbox.put_nowait(message)
    assert inbox.held == 8
    with anyio.fail_after(60):
        await inbox.get()
    assert inbox.held == 8
    inbox.recount()
    assert inbox.held == 5
    inbox.clear()
    inbox.recount()
    assert inbox.held == 0
