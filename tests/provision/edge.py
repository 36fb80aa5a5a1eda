"""Edge — the tools of the edge Worker, installed below .cache from its lock file, and the Worker built with them."""

import fcntl
from dataclasses import dataclass
from pathlib import Path

from agentvm.cli.edge_build import build_worker
from agentvm.errors import NotAvailable
from tests.provision import CACHE, ROOT, Unavailable
from tests.provision.node import npm_install

SOURCE = ROOT / "edge"


@dataclass(frozen=True, slots=True)
class EdgeTools:
    """A folder in which programs can import miniflare, and the bundle of the Worker."""

    folder: Path
    bundle: Path


def edge_tools(folder: Path = CACHE / "edge") -> EdgeTools:
    """The installed tools and the bundle of the sources as they are now; or Unavailable."""
    npm_install(SOURCE, folder)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return EdgeTools(folder, build_worker(SOURCE, folder, folder / "bundle"))
        except NotAvailable as error:
            raise Unavailable(f"the edge Worker could not be built: {error}") from None
