"""The page of production: its blocks are walked, and what is in deploy/ names nothing that is not there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.program import running
from tests.docs.documents import ROOT, blocks, read
from tests.docs.tour import first_key, marked, run, script, serving

from agentvm.config.load import VARIABLES

PAGE = read("docs/production.md")
DEPLOY = ROOT / "deploy"
MANIFESTS = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))}
COMPOSED = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in sorted(DEPLOY.glob("compose*.yml"))}


async def test_the_page_works_as_it_is_written(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with serving(PAGE, tmp_path) as (server, env):
        key = await first_key(server)
        said, _ = await run(script(PAGE, key), tmp_path, env)
    assert "laptop.backup is valid" in said
    there = {**env, "AVM_DATABASE": database_url, "AVM_KEY": key}
    said, _ = await run(marked(PAGE, "then").text, tmp_path, there)
    assert "the same in PostgreSQL" in said
    async with running("serve", "--data-dir", "data", "--auth", "on", "--port", "0", env=there, errors=tmp_path / "e") as moved:
        url = (await moved.line_with("listening on")).split()[-1]
        said, _ = await run("avm whoami", tmp_path, {**there, "AVM_URL": url})
    assert "system:admin" in said


def test_every_file_is_named_and_every_name_is_a_file() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in DEPLOY.rglob("*") if path.is_file()}
    named = set(re.findall(r"`(deploy/[\w./]+)`", PAGE))
    folders = {name for name in named if name.endswith("/")}
    assert {
        name for name in files - named if not name.startswith(("deploy/kubernetes/", "deploy/kubernetes_cluster/"))
    } == set()
    assert named - folders - files == set()


def variables(where: Any) -> set[str]:
    """The names of environment variables of ours in a file."""
    return set(re.findall(r"\bAVM_[A-Z_]+\b|\b[A-Z]+_API_KEY\b", where))


@pytest.mark.parametrize("path", [path for path in DEPLOY.rglob("*") if path.is_file()], ids=lambda path: path.name)
def test_every_variable_is_one_of_a_setting(path: Path) -> None:
    assert variables(path.read_text("utf-8")) - VARIABLES.keys() == set()


def test_what_the_image_is_built_of_is_there() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    copied = [words for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for words in line.split()]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert re.search(r"^USER agentvm$", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    assert "VOLUME /data" in text


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_services_have_what_they_name(name: str) -> None:
    composed = COMPOSED[name]
    for service in composed["services"].values():
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
            assert service["read_only"]
            assert service["cap_drop"] == ["ALL"]
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in composed["volumes"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nothing is open to the network before there is a proxy"
        assert set(service.get("depends_on", ())) <= composed["services"].keys()


def test_the_manifests_fit_together() -> None:
    listed = MANIFESTS["kustomization.yaml"]["resources"]
    assert {*listed, "kustomization.yaml", "secret.example.yaml"} == MANIFESTS.keys()
    deployment = MANIFESTS["deployment.yaml"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == MANIFESTS["service.yaml"]["spec"]["selector"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": MANIFESTS["secret.example.yaml"]["metadata"]["name"]}}]
    assert {probe["httpGet"]["path"] for name, probe in container.items() if name.endswith("Probe")} == {"/health", "/ready"}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"]
    assert MANIFESTS["service.yaml"]["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert MANIFESTS["kustomization.yaml"]["images"][0]["name"] == container["image"]


def test_the_manifests_of_several_nodes_fit_to_those_of_one() -> None:
    folder = DEPLOY / "kubernetes_cluster"
    several = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in folder.glob("*.yaml")}
    listed = several["kustomization.yaml"]
    used = {*listed["resources"], *(patch["path"] for patch in listed["patches"]), "kustomization.yaml"}
    assert used == {*several, "../kubernetes"}
    nodes, one = several["nodes.yaml"], MANIFESTS["deployment.yaml"]
    assert (nodes["kind"], nodes["metadata"]["name"]) == (one["kind"], one["metadata"]["name"])
    (changed,), (container,) = (each["spec"]["template"]["spec"]["containers"] for each in (nodes, one))
    assert changed["name"] == container["name"]
    assert nodes["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert several["disruption.yaml"]["spec"]["selector"] == one["spec"]["selector"]
    assert several["disruption.yaml"]["spec"]["minAvailable"] < nodes["spec"]["replicas"]


def test_the_proxies_are_those_of_their_page() -> None:
    shown = [block.text for block in blocks(read("docs/proxy.md"), "text")]
    nginx = (DEPLOY / "nginx.conf").read_text("utf-8")
    assert any(nginx.endswith(block) for block in shown)
    caddy = re.sub(r"\s*#.*|\t", "", (DEPLOY / "Caddyfile").read_text("utf-8")).split()
    assert any(block.split() == caddy for block in shown)
