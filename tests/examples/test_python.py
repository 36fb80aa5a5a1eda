import sys
from pathlib import Path

import anyio
from tests.examples.scripts import EXAMPLES, IN_MEMORY, NOBODY, environment, talk

from agentvm import ScriptedDriver, start_server


async def run(example: str, *arguments: str, **more: str) -> tuple[int, str, str]:
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    with anyio.fail_after(60):
        done = await anyio.run_process(command, env=environment(**more), check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_the_local_example_talks_in_a_session_that_remembers(tmp_path: Path) -> None:
    code, out, err = await run("python_local.py", LLM_PROVIDER="scripted", AVM_DATA_DIR=str(tmp_path))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "> Why is the sky blue?",
        "Why is the sky blue?",
        "> And the sunset red?",
        "And the sunset red?",
        "4 messages in 'Light'",
    ]


async def test_the_local_example_says_what_is_wrong_with_the_settings(tmp_path: Path) -> None:
    code, out, err = await run("python_local.py", LLM_PROVIDER="nobody", AVM_DATA_DIR=str(tmp_path))
    assert (code, out) == (1, "")
    assert "(config_invalid)" in err


async def test_the_remote_example_streams_an_answer_and_stops_another() -> None:
    driver = ScriptedDriver(talk)
    async with start_server(IN_MEMORY, drivers={"scripted": driver}) as server:
        code, out, err = await run("python_remote.py", server.ws_url)
        assert await server.agentx.images.list("user-alice") == ()
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Hello! What can you do?",
        "-- completed",
        "-- once more, stopped at its first words",
        "one, two",
        "-- interrupted",
    ]
    assert driver.closed_early == 1


async def test_the_remote_example_says_that_nobody_listens() -> None:
    code, out, err = await run("python_remote.py", NOBODY)
    assert (code, out) == (1, "")
    assert "(channel_closed)" in err
