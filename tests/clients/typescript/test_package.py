"""The package of the TypeScript client: what `npm pack` packs, and that what is packed works."""

import json
import os
import re
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
    assert not {"dependencies", "peerDependencies", "scripts"} & package.keys()


def test_the_packed_client_can_be_imported_and_names_no_machine(node: Path, tmp_path: Path) -> None:
    if not (HOME / "dist" / "index.js").exists():
        pytest.skip("client: it is not built; make console")
    pack = [str(node), str(npm_cli()), "pack", "--offline", "--loglevel=error", "--pack-destination", str(tmp_path)]
    env = {**os.environ, "npm_config_cache": str(tmp_path / "cache")}
    subprocess.run(pack, cwd=HOME, env=env, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
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
