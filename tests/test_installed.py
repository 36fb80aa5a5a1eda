"""Installed — the package as people get it: source archive and wheel have the same, and serve without the checkout."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import anyio
import httpx2
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tests.cli.program import WAIT, environment

ROOT = Path(__file__).resolve().parent.parent
BUILD = "import sys; from hatchling.builders.wheel import WheelBuilder; print(*WheelBuilder('.').build(directory=sys.argv[1]))"
WEIGHTS = "(default)"
"""What `avm model list` says of the weights that are used without any setting."""


def contents(wheel: Path) -> set[tuple[str, ...]]:
    """The names, digests and sizes of its files."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
        return {tuple(line.split(",")) for line in archive.read(record).decode().splitlines() if "direct_url" not in line}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the source archive, in a process that knows nothing of the checkout."""
    if not (ROOT / "src" / "agentvm" / "server" / "_console" / "index.html").exists():
        pytest.skip("the web console is not built: make console")
    folder = tmp_path_factory.mktemp("built")
    archive = next(SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"]))
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=source, capture_output=True, text=True, timeout=4 * WAIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.split()[-1])


def test_the_wheel_of_the_source_archive_is_the_wheel_of_the_checkout(wheel: Path, tmp_path: Path) -> None:
    here = Path(next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    assert contents(wheel) == contents(here)


@pytest.fixture
def python(wheel: Path, tmp_path: Path) -> Path:
    """The interpreter of an environment with the wheel. The packages it depends on are those of the tests."""
    home = tmp_path / "env"
    venv.create(home, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # A path in such a file is not looked through for others, so the checkout does not come along.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return home / "bin" / "python"


async def test_the_wheel_serves_the_console_and_the_embedded_model(python: Path, tmp_path: Path) -> None:
    env = environment(tmp_path, HOME=os.environ["HOME"])
    del env["PYTHONPATH"], env["LLM_PROVIDER"]
    avm = [str(python), "-m", "agentvm.cli.main"]

    async def run(*arguments: str, given: str = "") -> str:
        with anyio.fail_after(4 * WAIT):
            done = await anyio.run_process([*avm, *arguments], input=given.encode(), env=env, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    where = [str(python), "-c", "import agentvm; print(agentvm.__file__)"]
    imported = await anyio.run_process(where, env=env, cwd=tmp_path)
    assert imported.stdout.decode().startswith(str(tmp_path))
    async with await anyio.open_process([*avm, "serve", "--memory", "--port", "0"], env=env, cwd=tmp_path) as server:
        assert server.stdout is not None
        said = ""
        with anyio.fail_after(WAIT):
            while not (found := re.search(r"listening on (\S+)\n", said)):
                said += (await server.stdout.receive()).decode()
        async with httpx2.AsyncClient(base_url=found[1], timeout=WAIT) as http:
            page = await http.get("/")
            (script,) = set(re.findall(r'<script type="module"[^>]* src="([^"]+)"', page.text))
            assert (await http.get(script)).status_code == 200
            assert (await http.get("/ready")).status_code == 200
        if WEIGHTS not in await run("model", "list"):
            server.terminate()
            pytest.skip("the weights of the embedded model are not there: avm model pull")
        assert (await run("chat", "--url", found[1], given="Say hello.")).strip()
        server.terminate()
