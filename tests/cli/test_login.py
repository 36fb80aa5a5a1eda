import os
from pathlib import Path

import anyio
from tests.cli.desk import Desk, Done, avm, open_desk
from tests.cli.fake_server import answering
from tests.cli.program import at_terminal, environment

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.cli import profiles
from agentvm.config import MEMORY, SystemSettings


async def at(home: Path, *arguments: str, given: str = "", url: str | None = None, **variables: str) -> Done:
    """A command of somebody whose settings are there, with nothing in the environment but what is given."""
    here = {"XDG_CONFIG_HOME": str(home), "AVM_DATA_DIR": str(home / "data"), **variables}
    with anyio.fail_after(60):
        return await anyio.to_thread.run_sync(lambda: avm(*arguments, url=url, given=given, variables=here))


async def log_in(desk: Desk, home: Path, *arguments: str) -> str:
    done = await at(home, "login", desk.server.url, *arguments, given=f"{desk.operator}\n")
    assert done.code == 0, done.err
    return done.out


async def test_after_a_login_commands_need_neither_url_nor_key(tmp_path: Path) -> None:
    async with open_desk() as desk:
        said = await log_in(desk, tmp_path)
        assert f"at {desk.server.url}" in said
        assert desk.operator not in said
        shown = await at(tmp_path, "whoami")
        assert (shown.code, f"Server          {desk.server.url}" in shown.out) == (0, True)


async def test_a_key_that_the_server_does_not_accept_is_not_stored(tmp_path: Path) -> None:
    async with open_desk() as desk:
        done = await at(tmp_path, "login", desk.server.url, given="avm_wrong\n")
        assert (done.code, done.out) == (4, "")
        assert "avm_wrong" not in done.err
        assert os.listdir(tmp_path) == []
        assert (await at(tmp_path, "login", desk.server.url)).code == 2


async def test_a_server_that_asks_for_no_key_is_stored_without_one(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        done = await at(tmp_path, "login", server.url)
        assert (done.code, "No API key is required" in done.out) == (0, True)
        assert (await at(tmp_path, "tenant", "list")).code == 0


async def test_a_server_that_is_away_is_not_stored(tmp_path: Path) -> None:
    assert (await at(tmp_path, "login", "http://127.0.0.1:1")).code == 3
    assert os.listdir(tmp_path) == []


async def test_each_profile_has_a_server_of_its_own(tmp_path: Path) -> None:
    async with open_desk() as one, open_desk() as two:
        await log_in(one, tmp_path)
        await log_in(two, tmp_path, "--profile", "work")
        for arguments, variables, url in (
            ((), {}, one.server.url),
            (("--profile", "work"), {}, two.server.url),
            ((), {"AVM_PROFILE": "work"}, two.server.url),
            (("--profile", "default"), {"AVM_PROFILE": "work"}, one.server.url),
        ):
            shown = await at(tmp_path, "whoami", *arguments, **variables)
            assert (shown.code, url in shown.out) == (0, True), arguments
        missing = await at(tmp_path, "whoami", "--profile", "home")
        assert (missing.code, "default, work" in missing.err) == (5, True)
        assert (await at(tmp_path, "logout", "--profile", "work")).code == 0
        assert (await at(tmp_path, "whoami", "--profile", "work")).code == 5
        assert (await at(tmp_path, "logout", "--profile", "work")).code == 5
        assert (await at(tmp_path, "whoami")).code == 0


async def test_flags_go_before_variables_and_variables_before_the_profile(tmp_path: Path) -> None:
    async with open_desk() as one, open_desk() as two:
        await log_in(one, tmp_path)
        variables = {"AVM_URL": two.server.url, "AVM_KEY": two.operator}
        assert two.server.url in (await at(tmp_path, "whoami", **variables)).out
        assert one.server.url in (await at(tmp_path, "whoami", "--profile", "default", **variables)).out
        assert (await at(tmp_path, "whoami", "--profile", "default", "--url", two.server.url)).code == 2


async def test_a_profiles_key_goes_to_its_own_server_alone(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await log_in(desk, tmp_path)
        with answering(lambda asked: (200, {})) as (url, asked):
            await at(tmp_path, "whoami", "--url", url)
            await at(tmp_path, "whoami", AVM_URL=url)
            assert [one.key for one in asked] == [None, None]
        assert (await at(tmp_path, "whoami", "--url", f"{desk.server.url}/ws")).code == 0


async def test_the_one_running_server_is_found_from_its_data_directory(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=str(tmp_path / "data"), shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        assert server.url in (await at(tmp_path, "whoami")).out
        assert (await at(tmp_path, "whoami", AVM_PORT="1")).code == 3


async def test_a_name_that_is_none_and_a_second_url_are_refused(tmp_path: Path) -> None:
    assert (await at(tmp_path, "login", "http://127.0.0.1:1", "--profile", "../x")).code == 2
    assert (await at(tmp_path, "login", "http://a:1", "http://b:1")).code == 2
    assert (await at(tmp_path, "login", "ftp://a")).code == 1


async def test_variables_that_go_before_the_profile_are_pointed_out(tmp_path: Path) -> None:
    async with open_desk() as desk:
        done = await at(tmp_path, "login", given=desk.operator, AVM_URL=desk.server.url)
        assert (done.code, "AVM_URL is set" in done.err) == (0, True)


async def test_at_a_terminal_the_key_is_asked_for_and_not_echoed(tmp_path: Path) -> None:
    async with open_desk() as desk:
        async with at_terminal("login", desk.server.url, env=environment(tmp_path)) as keyboard:
            await keyboard.see("Your key: ")
            keyboard.press(f"{desk.operator}\n")
            assert desk.operator not in await keyboard.see("stored in")
            assert await keyboard.wait() == 0
        done = await at(tmp_path / ".config", "whoami")
        assert (done.code, desk.server.url in done.out) == (0, True)
        assert (tmp_path / ".config" / "agentvm" / profiles.FILE_NAME).is_file()
