"""Packages of sandboxes: installed once, from an index on this machine, seen by the jobs that name them and by no other."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.tiers.conftest import settings_of
from tests.tiers.package_index import PackageIndex, serve_index

from agentvm.errors.tool import TierUnavailable
from agentvm.model.public_address import AddressRules
from agentvm.model.tier import Job
from agentvm.tiers import layers
from agentvm.tiers.egress import EgressPolicy
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.layers import PACKAGE, LayerLock, LayerSettings
from agentvm.tiers.process import ProcessTier, open_process_tier

POLICY = EgressPolicy(rules=AddressRules.parse(["127.0.0.1"]))
PYTHON = os.path.realpath(sys.executable)
GREET = Job(engine="python", code="import greeting\ngreeting.text()", packages=("greeting",))


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    with serve_index() as index:
        index.add("greeting", "1.0", {"greeting.py": "from words import WORD\ndef text():\n    return WORD"}, "words>=1")
        index.add("words", "1.2", {"words.py": "WORD = 'hello'"})
        index.add("big", "1.0", {"big.py": f"TEXT = '{'x' * 2_000_000}'"})
        yield index


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of layers for tests that only use one: each installation costs more than such a test."""
    return tmp_path_factory.mktemp("layers")


@asynccontextmanager
async def opened(
    folder: Path, index: PackageIndex, most_bytes: int = 2**30, settings: LauncherSettings | None = None
) -> AsyncIterator[ProcessTier]:
    packages = LayerSettings(folder=folder, index=index.url, most_bytes=most_bytes)
    async with open_process_tier(settings, POLICY, packages) as tier:
        if "mount" not in (await tier.offer()).walls:
            pytest.skip("this host forbids private mounts")
        yield tier


def layers_in(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if os.path.isdir(folder / name))


async def test_a_package_and_what_it_requires_are_imported_and_installed_once(index: PackageIndex, tmp_path: Path) -> None:
    index.asked.clear()
    async with opened(tmp_path, index) as tier:
        values = []

        async def run() -> None:
            values.append((await tier.run(GREET)).value)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(run)
        assert values == ["hello"] * 3
        assert sum("files" in path for path in index.asked) == 2
        assert len(layers_in(tmp_path)) == 1
    async with opened(tmp_path, index) as tier:
        assert (await tier.run(GREET)).value == "hello"
    assert sum("files" in path for path in index.asked) == 2


async def test_the_hashes_are_kept_and_a_layer_is_rebuilt_from_the_same_files_only(index: PackageIndex, tmp_path: Path) -> None:
    async with opened(tmp_path, index) as tier:
        await tier.run(GREET)
        [name] = layers_in(tmp_path)
        lock = msgspec.json.decode((tmp_path / f"{name}.json").read_bytes(), type=LayerLock)
        assert {(file.name, file.version) for file in lock.files} == {("greeting", "1.0"), ("words", "1.2")}
        kept = dict(index.wheels)
        (tmp_path / name).rename(tmp_path / "taken")
        index.add("words", "1.3", {"words.py": "WORD = 'newer'"})
        assert (await tier.run(GREET)).value == "hello"
        (tmp_path / name).rename(tmp_path / "taken too")
        index.add("words", "1.2", {"words.py": "WORD = 'changed'"})
        with pytest.raises(TierUnavailable, match=r"(?i)hash"):
            await tier.run(GREET)
        index.wheels.clear()
        index.wheels.update(kept)


async def test_a_job_sees_its_own_packages_only_and_cannot_change_them(index: PackageIndex, shared: Path) -> None:
    async with opened(shared, index) as tier:
        await tier.run(GREET)
        code = "import os\n[os.path.exists('/layers') and os.listdir('/layers'), os.listdir('/packages')]"
        assert (await tier.run(Job(engine="python", code=code))).value == [[], []]
        code = "import os\ntry:\n    open('/packages/words.py', 'w')\nexcept OSError as error:\n    why = error.errno\nwhy"
        assert (await tier.run(Job(engine="python", code=code, packages=("greeting",)))).value in (13, 30)
        shell = Job(engine="shell", code='ls "$PYTHONPATH"; ls /layers', packages=("greeting",))
        assert b"words.py" in (await tier.run(shell)).stdout


async def test_a_program_that_lives_on_has_its_packages(index: PackageIndex, shared: Path) -> None:
    code = "import greeting; print(greeting.text(), flush=True)"
    job = Job(engine="command", argv=(PYTHON, "-c", code), packages=("greeting",))
    async with opened(shared, index) as tier, tier.open(job) as process:
        with anyio.fail_after(60):
            assert await process.receive() == b"hello\n"


async def test_an_ordinary_user_has_packages_as_well(index: PackageIndex, readable_folder: Path) -> None:
    # The interpreter may lie where this user cannot read, and pip with it.
    async with opened(readable_folder, index) as tier:
        await tier.run(GREET)
    async with opened(readable_folder, index, settings=settings_of("namespaces-nobody")) as tier:
        assert (await tier.run(GREET)).value == "hello"


async def test_a_server_that_keeps_its_files_to_itself_has_packages_as_well(index: PackageIndex, tmp_path: Path) -> None:
    before = os.umask(0o077)  # as `avm serve` does
    try:
        async with opened(tmp_path, index) as tier:
            assert (await tier.run(GREET)).value == "hello"
    finally:
        os.umask(before)


async def test_layers_beyond_the_bound_are_collected_those_unused_for_longest_first(
    index: PackageIndex, tmp_path: Path
) -> None:
    async with opened(tmp_path, index, most_bytes=3_000_000) as tier:
        await tier.run(GREET)
        [greeting] = layers_in(tmp_path)
        os.utime(tmp_path / greeting, (1, 1))
        (tmp_path / "left.new").mkdir()
        await tier.run(Job(engine="python", code="import big", packages=("big",)))
        assert greeting in layers_in(tmp_path)
        await tier.run(Job(engine="python", code="import big", packages=("big", "words")))
        assert greeting not in layers_in(tmp_path)
        assert "left.new" not in layers_in(tmp_path)
        # It is one layer too many all the same, but a job holds the newest.
        assert len(layers_in(tmp_path)) == 1


async def test_locks_of_layers_that_are_gone_are_few(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "LOCKS_MAX", 2)
    for age in range(5):
        (tmp_path / f"{age}.json").write_text("{}")
        os.utime(tmp_path / f"{age}.json", (age, age))
    async with opened(tmp_path, index) as tier:
        await tier.run(GREET)
    [greeting] = layers_in(tmp_path)
    assert {name for name in os.listdir(tmp_path) if name.endswith(".json")} == {"3.json", "4.json", f"{greeting}.json"}


async def test_a_package_that_the_index_lacks_is_told_and_leaves_nothing(index: PackageIndex, tmp_path: Path) -> None:
    async with opened(tmp_path, index) as tier:
        with pytest.raises(TierUnavailable, match="no-such-package"):
            await tier.run(Job(engine="python", code="1", packages=("no-such-package",)))
    assert os.listdir(tmp_path) == []


async def test_without_an_index_or_private_mounts_packages_are_unavailable_with_the_remedy(tmp_path: Path) -> None:
    async with open_process_tier(layers=LayerSettings(folder=tmp_path)) as tier:
        with pytest.raises(TierUnavailable, match=r"tools\.packages\.index"):
            await tier.run(GREET)
    async with open_process_tier(settings_of("landlock")) as tier:
        assert not (await tier.offer()).packages


async def test_packages_are_those_of_python(index: PackageIndex, tmp_path: Path) -> None:
    async with opened(tmp_path, index) as tier:
        if "javascript" not in (await tier.offer()).engines:
            pytest.skip("node is not installed where jails see it")
        with pytest.raises(TierUnavailable, match="javascript"):
            await tier.run(Job(engine="javascript", code="export default () => 1", packages=("greeting",)))


@pytest.mark.parametrize(
    "package",
    ["a", "A.b-c_d", "a==1.0", "a >= 1, <2", "a[x, y]~=1.4", "a==1.* --hash=sha256:" + "0" * 64, "a!=1.5rc1", "a===1+local"],
)
def test_a_package_is_a_name_with_versions_and_hashes(package: str) -> None:
    assert PACKAGE.fullmatch(package)


@pytest.mark.parametrize(
    "package",
    ["", "-r /etc/passwd", "a @ https://example.org/a.whl", "git+https://example.org/a", "./a", "/a", "a --index-url x",
     "a\n--pre", "a; python_version>'3'", "--hash=sha256:" + "0" * 64, "a --hash=md5:0", "a=1", "-e ."],
)  # fmt: skip
async def test_whatever_else_the_installer_would_understand_is_refused(
    index: PackageIndex, tmp_path: Path, package: str
) -> None:
    assert PACKAGE.fullmatch(package) is None
    async with opened(tmp_path, index) as tier:
        with pytest.raises(TierUnavailable, match="not a package"):
            await tier.run(Job(engine="python", code="1", packages=(package,)))
