"""Own thread — runs work that cannot be interrupted in a thread of its own, which its caller may leave behind."""

import asyncio
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import TypeVar

from agentvm.errors import AgentVMError

T = TypeVar("T")


async def run_in_own_thread(name: str, work: Callable[[], T], ended: Callable[[], None]) -> T:
    """Returns the result of the work, or raises its `AgentVMError`, `OSError` or `ValueError`.

    `ended` is called on the event loop when the thread has ended, also if the caller has been cancelled by then. `OSError` if
    the machine has no thread left.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        settle = partial(_fail, answer, RuntimeError(f"{name} has failed; stderr has the traceback"))
        try:
            settle = partial(_give, answer, work())
        except (AgentVMError, OSError, ValueError) as error:
            settle = partial(_fail, answer, error)
        finally:
            _call(loop, partial(_end, ended, settle))

    try:
        # A daemon: it must not keep a server that stops waiting.
        Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        ended()
        raise OSError(str(error)) from error
    return await answer


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        # The loop is closed: the server has stopped meanwhile.
        pass


def _end(ended: Callable[[], None], settle: Callable[[], None]) -> None:
    ended()
    settle()


def _give(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
