from pathlib import Path

from tests.support.container_engine import open_fake_engine

from agentvm.model.settings import MEMORY, Settings, SystemSettings
from agentvm.model.tier import Offer
from agentvm.model.tier_settings import DockerSettings, RemoteSettings
from agentvm.model.tool_settings import ToolSettings
from agentvm.tiers.opening import container_settings, open_tiers, probe_others
from agentvm.tools.remote_server import open_remote_server


async def test_a_server_without_settings_has_the_tiers_that_need_none() -> None:
    async with open_tiers(Settings(system=SystemSettings(data_dir=MEMORY), tools=ToolSettings(slots=3)), lambda: 0) as opened:
        assert {tier.name for tier in opened.tiers} == {"isolate", "process"}
        assert opened.slots["process"] == 3
        for tier in opened.tiers:
            offer = await tier.offer()
            assert offer.tier == tier.name
            assert offer.engines or offer.missing


async def test_a_probe_of_the_other_tiers_names_what_is_missing_and_deletes_nothing(tmp_path: Path) -> None:
    jail = Offer(tier="process", engines=frozenset({"python"}))
    labels = {"agentvm.deadline": "0"}
    async with open_fake_engine(tmp_path, "image:1") as (engine, socket):
        docker = DockerSettings(socket=socket, images={"python": "image:1", "ruby": "gone:1"})
        remote = RemoteSettings(url="http://127.0.0.1:9")
        settings = Settings(system=SystemSettings(data_dir=str(tmp_path)), tools=ToolSettings(docker=docker, remote=remote))
        configured = container_settings(settings)
        assert configured is not None
        engine._create({"Image": "image:1", "Labels": {**labels, "agentvm.server": configured.server}})
        isolate, container, other = await probe_others(settings, jail, open_remote_server)
        assert (isolate.tier, bool(isolate.engines or isolate.missing)) == ("isolate", True)
        assert container.engines == {"python", "image:python", "image:image:1"}
        assert other.missing.startswith("tools.remote: ")
        assert len(engine.containers) == 1


def test_the_id_of_a_server_is_the_same_after_a_restart_and_another_elsewhere(tmp_path: Path) -> None:
    def server(data_dir: str) -> str:
        settings = Settings(system=SystemSettings(data_dir=data_dir), tools=ToolSettings(docker=DockerSettings(socket="/s")))
        configured = container_settings(settings)
        assert configured is not None
        return configured.server

    assert server(str(tmp_path)) == server(str(tmp_path))
    assert len({server(str(tmp_path)), server(str(tmp_path / "other")), server(MEMORY), server(MEMORY)}) == 4
