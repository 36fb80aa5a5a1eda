"""The process tier in every mode that this machine has: with and without namespaces, as root and as an ordinary user."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.provision import Unavailable
from tests.provision.podman import engine
from tests.tiers import as_nobody

from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import ProcessTier, open_process_tier

SRC = Path(__file__).resolve().parent.parent.parent / "src"
MODES = ("namespaces", "landlock", "namespaces-nobody", "landlock-nobody")


def settings_of(mode: str) -> LauncherSettings:
    """How a launcher is started for a mode; the test is skipped where the mode cannot be had."""
    if sys.platform != "linux":
        pytest.skip("jails need Linux")
    namespaces = mode.startswith("namespaces")
    if not mode.endswith("nobody"):
        return LauncherSettings(namespaces=namespaces)
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user: the mode without -nobody is this one")
    program = f"import sys; sys.path.insert(0, {str(SRC)!r}); sys.path.insert(0, {str(SRC.parent)!r}); "
    program += f"import runpy; runpy.run_path({as_nobody.__file__!r}, run_name='__main__')"
    return LauncherSettings(namespaces=namespaces, command=(sys.executable, "-I", "-c", program))


@pytest.fixture(scope="module")
async def tier(anyio_backend: str) -> AsyncIterator[ProcessTier]:
    """The tier as a server has it."""
    async with open_process_tier(settings_of("namespaces")) as tier:
        if "mount" not in (await tier.offer()).walls:
            pytest.skip("this host forbids namespaces: the tests of the mode `landlock` stand alone")
        yield tier


@pytest.fixture(scope="module", params=MODES)
async def any_tier(anyio_backend: str, request: pytest.FixtureRequest) -> AsyncIterator[ProcessTier]:
    """The tier in each mode."""
    async with open_process_tier(settings_of(request.param)) as tier:
        offer = await tier.offer()
        if offer.missing or ("mount" in offer.walls) != request.param.startswith("namespaces"):
            pytest.skip(f"this host does not have the mode {request.param}: {offer.missing}")
        yield tier


@pytest.fixture(scope="session")
def container_engine() -> Iterator[str]:
    """The socket of a real container engine."""
    with ExitStack() as stack:
        try:
            socket = stack.enter_context(engine())
        except Unavailable as reason:
            pytest.skip(str(reason))
        yield socket


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """A folder that every user of the machine may read. Each run of pytest closes the folder above `tmp_path` to others."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
