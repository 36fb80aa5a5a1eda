"""The way out of containers, over a real unix socket, a real forwarder and the real proxy; the engine is a double."""

import os
import shutil
import socket
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.support.container_engine import FakeEngine, open_fake_engine
from tests.tiers.test_container import IMAGE, at, now_ms
from tests.tiers.test_egress import NAMES, Upstream, upstream

from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.model.public_address import AddressRules
from agentvm.model.tier import Job, JobResult
from agentvm.tiers import container_network
from agentvm.tiers.container import ContainerSettings, ContainerTier, open_container_tier
from agentvm.tiers.egress import EgressPolicy

FETCH = """
import http.client, os
def run(url):
    host, _, port = os.environ["HTTP_PROXY"].removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", url)
    answer = connection.getresponse()
    return [answer.status, answer.read().decode()]
"""
FETCH_JAVASCRIPT = """
import http from "node:http";
export default ({ url }) => new Promise((resolve, reject) => {
  const proxy = new URL(process.env.HTTP_PROXY);
  http.get({ host: proxy.hostname, port: proxy.port, path: url }, (answer) => {
    let text = "";
    answer.on("data", (piece) => { text += piece; });
    answer.on("end", () => resolve([answer.statusCode, text]));
  }).on("error", reject);
});
"""


def settings_in(tmp_path: Path, engine_socket: str) -> ContainerSettings:
    # A container has a loopback of its own; programs of the double share that of this machine.
    images = dict.fromkeys(("python", "javascript", "shell"), IMAGE)
    return ContainerSettings(socket=engine_socket, server="tests", images=images, exchange=str(tmp_path / ("x" * 100)))


@asynccontextmanager
async def networked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *programs: str
) -> AsyncIterator[tuple[FakeEngine, ContainerTier, Upstream]]:
    """A tier whose images have these programs and a shell."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setattr(container_network, "PORT", free.getsockname()[1])
    path = tmp_path / "path"
    path.mkdir()
    for name in (*programs, "sh", "rm", "cat"):
        (path / name).symlink_to(sys.executable if name == "python3" else shutil.which(name) or "/none")
    monkeypatch.setenv("PATH", str(path))
    policy = EgressPolicy(rules=AddressRules.parse(["127.0.0.1"]), resolve=NAMES)
    async with upstream() as server, open_fake_engine(tmp_path, IMAGE) as (engine, address):
        async with open_container_tier(settings_in(tmp_path, address), now_ms, policy) as tier:
            yield engine, tier, server


async def fetch(tier: ContainerTier, url: str, *allow: str, engine: str = "python", keep: str = "") -> JobResult:
    code = FETCH if engine == "python" else FETCH_JAVASCRIPT
    with anyio.fail_after(60):
        return await tier.run(Job(engine=engine, code=code, input={"url": url}, network=allow, owner="a", keep=keep))


@pytest.mark.parametrize(("engine", "program"), [("python", "python3"), ("javascript", "node")])
async def test_allowed_hosts_are_reached_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, program: str
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"this machine has no {program}")
    async with networked(tmp_path, monkeypatch, program) as (double, tier, server):
        assert (await tier.offer()).egress
        result = await fetch(tier, f"http://api.example:{server.port}/a", f"api.example:{server.port}", engine=engine)
        assert result.value == [200, "hello"], result.stderr
        refused = await fetch(tier, f"http://evil.example:{server.port}/a", f"api.example:{server.port}", engine=engine)
        assert isinstance(refused.value, list)
        assert (refused.value[0], "not in network.allow" in refused.value[1]) == (403, True)
        assert len(server.requests) == 1
        # Nothing is left, and the proxy was there for the job alone.
        assert double.containers == {}
        assert list((tmp_path / ("x" * 100)).iterdir()) == []


async def test_a_kept_container_has_the_network_in_each_call_and_none_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with networked(tmp_path, monkeypatch, "python3") as (double, tier, server):
        url, host = f"http://api.example:{server.port}/", f"api.example:{server.port}"
        for _ in range(2):
            assert (await fetch(tier, url, host, keep="s")).value == [200, "hello"]
        (made,) = double.containers.values()
        host_config = made.config["HostConfig"]
        assert host_config["NetworkMode"] == "none"
        (mount,) = host_config["Mounts"]
        assert (mount["Type"], mount["Target"], mount["ReadOnly"]) == ("bind", "/net", True)
        assert os.listdir(mount["Source"]) == []
        # A sandbox without the network is another container.
        plain = await tier.run(Job(engine="python", code="import os\n'HTTP_PROXY' in os.environ", owner="a", keep="s"))
        assert (plain.value, len(double.containers)) == (False, 2)


async def test_an_image_without_a_language_for_the_forwarder_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with networked(tmp_path, monkeypatch) as (double, tier, _):
        with pytest.raises(TierUnavailable, match=f"python3 or node in the image, and {IMAGE} has neither"):
            await tier.run(Job(engine="shell", code="true", network=("api.example",)))
        assert double.containers == {}


async def test_an_engine_that_does_not_see_the_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.tiers.container.make_exchange", lambda above: f"{above}/elsewhere")
    async with networked(tmp_path, monkeypatch, "python3") as (_, tier, _):
        with pytest.raises(TierBroken, match="bind source path does not exist"):
            await fetch(tier, "http://api.example/", "api.example")


async def test_the_proxy_serves_a_path_of_any_length_and_goes_with_its_context(tmp_path: Path) -> None:
    folder = container_network.make_exchange(str(tmp_path / ("y" * 120)))
    async with container_network.open_proxy(folder, ("api.example",), EgressPolicy()):
        mode = os.stat(f"{folder}/proxy.sock").st_mode
        assert (stat.S_ISSOCK(mode), mode & 0o777) == (True, 0o666)
    assert os.listdir(folder) == []
    container_network.remove_exchange(folder)
    assert os.listdir(tmp_path / ("y" * 120)) == []


async def test_a_tier_in_memory_has_no_network(tmp_path: Path) -> None:
    async with open_fake_engine(tmp_path, IMAGE) as (_, address), open_container_tier(at(address), now_ms) as tier:
        assert not (await tier.offer()).egress
        with pytest.raises(TierUnavailable, match="no network here"):
            await fetch(tier, "http://api.example/", "api.example")
