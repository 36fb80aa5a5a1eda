from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from bench.million_store import fill

from agentvm import ImageConfig, create_agentx, local_runtime, start_server, tool
from agentvm.app import open_agentvm
from agentvm.config import MEMORY, LlmSettings, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import ConfigInvalid, DataDirInUse, DefinitionConflict, DriverNotFound, ToolNotFound
from agentvm.model.definition import Definition
from agentvm.model.secret import Secret
from agentvm.storage.engines.sqlite.datadir import DATABASE
from agentvm.vm import AgentVM
from tests.support.serving import serving
from tests.support.steps import Steps
from tests.support.wire import client

IN_MEMORY = ServerConfig(system=SystemSettings(data_dir=MEMORY))


async def opened(config: ServerConfig, *definitions: Definition) -> None:
    with anyio.fail_after(60):
        async with open_agentvm(config, definitions=definitions, drivers={"scripted": ScriptedDriver()}):
            pass


def drivers_of(vm: AgentVM, *names: str) -> list[str]:
    found = []
    for name in names:
        try:
            vm.runtime.models.choose(name)
        except DriverNotFound:
            continue
        found.append(name)
    return found


async def test_given_drivers_replace_the_configured_and_the_first_is_the_default() -> None:
    given = {"scripted": ScriptedDriver(), "other": ScriptedDriver()}
    async with open_agentvm(IN_MEMORY, drivers=given) as vm:
        assert drivers_of(vm, "scripted", "other", "local", "anthropic") == ["scripted", "other"]


async def test_functions_of_the_program_are_tools() -> None:
    def weigh(parcel: int) -> int:
        """Weigh a parcel."""
        return 2 * parcel

    @tool(effect="read")
    def measure(parcel: int) -> int:
        """Measure a parcel."""
        return parcel

    definition = Definition(name="clerk", tools=("weigh", "measure"))
    drivers = {"scripted": ScriptedDriver()}
    async with open_agentvm(IN_MEMORY, definitions=[definition], drivers=drivers, tools=[weigh, measure]) as vm:
        made = [vm.runtime.tools.of_spec({"runtime": "builtin", "entry": name}) for name in ("weigh", "measure")]
        assert [each and (each.spec.input_schema["required"], each.effect) for each in made] == [
            (["parcel"], "write"), (["parcel"], "read"),
        ]  # fmt: skip
    source = local_runtime(IN_MEMORY, definitions=[definition], drivers=drivers, tools=[weigh, measure])
    async with create_agentx(source) as agentx:
        assert (await agentx.images.create(ImageConfig(definition="clerk"))).image_id
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY, port=0))
    async with start_server(config, definitions=[definition], drivers=drivers, tools=[weigh, measure]) as server:
        assert (await server.agentx.images.create(ImageConfig(definition="clerk"))).image_id


async def test_the_configured_driver_is_opened_and_the_embedded_one_beside_it() -> None:
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), llm=LlmSettings(provider="anthropic", api_key=Secret("sk-1")))
    async with open_agentvm(config) as vm:
        assert drivers_of(vm, "anthropic/x", "local", "openai") == ["anthropic/x", "local"]


async def test_data_is_kept_in_the_directory_and_locked_by_one_process(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(data_dir=str(tmp_path)))
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}):
        assert (tmp_path / DATABASE).exists()
        with pytest.raises(DataDirInUse):
            await opened(config)
    await opened(config)


async def test_the_servers_definitions_are_checked_at_start() -> None:
    await opened(IN_MEMORY, Definition(name="poet", tools=("calculator", "current_time")))
    with pytest.raises(DriverNotFound):
        await opened(IN_MEMORY, Definition(name="poet", model="nobody/x"))
    with pytest.raises(ToolNotFound):
        await opened(IN_MEMORY, Definition(name="poet", tools=("hammer",)))
    with pytest.raises(DefinitionConflict):
        await opened(IN_MEMORY, Definition(name="default", system_prompt="mine"))


async def test_a_wrong_setting_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid):
        async with open_agentvm(
            ServerConfig(system=SystemSettings(data_dir=str(tmp_path)), llm=LlmSettings(provider="nobody"))
        ):
            pass
    await opened(ServerConfig(system=SystemSettings(data_dir=str(tmp_path))))


async def test_a_server_whose_key_is_gone_does_not_start_as_if_nothing_were(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(data_dir=str(tmp_path), auth="on"))
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}):
        pass
    (tmp_path / "server.key").unlink()
    with pytest.raises(ConfigInvalid, match=r"server\.key.* is missing"):
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}):
            pass


async def test_a_start_reads_as_much_with_many_users_as_with_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    needed: list[int] = []
    for users in (20, 2_000):
        data_dir = tmp_path / str(users)
        async with serving(data_dir=data_dir) as server, client(server.url) as alice:
            await alice.image("bench-0")
        await anyio.to_thread.run_sync(fill, data_dir, users)
        before = steps.taken
        async with serving(data_dir=data_dir) as server:
            await server.running.server.vm.runtime.recovered.wait()
            needed.append(steps.taken - before)
    # A little of the work beside it may have begun, which takes slices.
    assert 0 < needed[1] < needed[0] * 1.5
