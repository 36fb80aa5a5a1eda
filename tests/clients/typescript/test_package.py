"""The package of the TypeScript client: what `npm pack` packs, and that what is packed works."""

import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from tests.provision.node import npm_cli

import agentvm

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "clients" / "typescript"
NAMES = 'import * as client from "agentvm-client"; console.log(JSON.stringify(Object.keys(client)))'
TIMEOUT_SECONDS = 120


def test_the_package_has_the_version_of_the_server_and_no_dependencies() -> None:
    package = json.loads((HOME / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == agentvm.__version__
    assert not {"dependencies", "peerDependencies"} & package.keys()
    # Nothing runs where it is installed.
    assert package["scripts"].keys() == {"prepack"}


def pack(node: Path, home: Path, to: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(node), str(npm_cli()), "pack", "--offline", "--loglevel=error", "--pack-destination", str(to)]
    env = {**os.environ, "npm_config_cache": str(to / "cache"), "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


def test_a_client_that_is_not_built_is_not_packed(node: Path, tmp_path: Path) -> None:
    shutil.copy(HOME / "package.json", tmp_path)
    done = pack(node, tmp_path, tmp_path)
    assert (done.returncode, "run make console" in done.stderr) == (1, True), done.stderr
    assert not list(tmp_path.glob("*.tgz"))


def test_the_packed_client_can_be_imported_and_names_no_machine(node: Path, tmp_path: Path) -> None:
    if not (HOME / "dist" / "index.js").exists():
        pytest.skip("client: it is not built; make console")
    pack(node, HOME, tmp_path).check_returncode()
    packed = tmp_path / f"agentvm-client-{agentvm.__version__}.tgz"
    home = tmp_path / "node_modules" / "agentvm-client"
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    home.parent.mkdir()
    (tmp_path / "package").rename(home)
    texts = {path.name: path.read_text(encoding="utf-8") for path in home.rglob("*") if path.is_file()}
    assert {"package.json", "README.md", "LICENSE", "index.js", "index.d.ts", "types.d.ts"} <= texts.keys()
    assert [name for name, text in texts.items() if str(ROOT) in text or str(Path.home()) in text] == []
    # Each module of types is there under the name by which others import it.
    imported = {name for text in texts.values() for name in re.findall(r'from "\./(\w+)\.js"', text)}
    assert {f"{name}.d.ts" for name in imported} <= texts.keys()
    assert [name for name, text in texts.items() if name.endswith(".d.ts") and re.search(r'"\./\w+\.ts"', text)] == []
    command = [str(node), "--input-type=module", "--eval", NAMES]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert {"createAgentX", "remoteRuntime", "Channel", "AgentVMError", "HttpClient"} <= set(json.loads(done.stdout))
