import anyio
import pytest

from agentvm.errors import StoreFailed
from agentvm.runtime.tasks import open_tasks


async def fail(error: Exception) -> None:
    raise error


async def test_an_error_of_the_body_is_raised_as_it_was() -> None:
    cause = ValueError("cause")
    with pytest.raises(StoreFailed) as raised:
        async with open_tasks():
            raise StoreFailed("full") from cause
    assert raised.value.__cause__ is cause


async def run_failing(*errors: Exception) -> None:
    async with open_tasks() as tasks:
        for error in errors:
            tasks.start_soon(fail, error)
        await anyio.sleep_forever()


async def test_the_only_error_of_a_task_is_raised_as_it_was() -> None:
    with anyio.fail_after(60), pytest.raises(StoreFailed):
        await run_failing(StoreFailed("full"))


async def test_of_several_expected_errors_the_first_is_raised() -> None:
    with anyio.fail_after(60), pytest.raises(StoreFailed, match="first"):
        await run_failing(StoreFailed("first"), StoreFailed("second"))


async def test_several_errors_stay_a_group() -> None:
    with anyio.fail_after(60), pytest.raises(ExceptionGroup) as raised:
        await run_failing(StoreFailed("full"), ValueError("bug"))
    assert {type(error) for error in raised.value.exceptions} == {StoreFailed, ValueError}


async def test_cancelling_it_from_inside_is_quiet() -> None:
    with anyio.fail_after(60):
        async with open_tasks() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            tasks.cancel_scope.cancel()
