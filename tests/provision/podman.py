"""Podman — a container engine for the tests: the one that runs, or an installed Podman with folders of its own."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.provision import Unavailable
from tests.provision.postgres import die_with_parent

START_SECONDS = 60.0
PAUSE_SECONDS = 0.02
ADVICE = "start Docker or Podman, name its socket in AVM_TEST_DOCKER, or install Podman and run the tests as root"
RUNNING = ("/var/run/docker.sock", "/run/podman/podman.sock", f"/run/user/{os.getuid()}/podman/podman.sock")
# Each program that was run in a container else leaves a process for five minutes.
CONFIG = "[engine]\nexit_command_delay = 5\n"
# Where a host has control groups of both versions, crun refuses to start; the engine then sees those of the first only.
SERVICE = 'umount /sys/fs/cgroup/unified 2> /dev/null; exec "$@"'


@contextmanager
def engine() -> Generator[str]:
    """The socket of an engine that speaks Docker's API; or Unavailable."""
    named = os.environ.get("AVM_TEST_DOCKER")
    running = next((path for path in (named, *RUNNING) if path and Path(path).is_socket()), None)
    if running is not None:
        yield running
        return
    if shutil.which("podman") is None or os.getuid() != 0:
        raise Unavailable(f"no container engine runs here: {ADVICE}")
    folder = Path(tempfile.mkdtemp(prefix="avm-podman-"))
    private = ["unshare", "-m", "--propagation", "private", "sh", "-c", SERVICE, "sh"]
    # `--cgroup-manager`: systemd answers in few of the places where tests run.
    podman = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--cgroup-manager", "cgroupfs"]
    (folder / "containers.conf").write_text(CONFIG)
    variables = {"CONTAINERS_CONF": f"{folder}/containers.conf", "TMPDIR": str(folder)}
    try:
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*private, *podman, "system", "service", "--time", "0", f"unix://{folder}/engine.sock"],
                env={**os.environ, **variables},
                # Its monitors leave files in the current folder, such as `oom`.
                cwd=folder,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        try:
            _wait(folder, process)
            yield f"{folder}/engine.sock"
        finally:
            process.kill()
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(folder: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while not (folder / "engine.sock").is_socket():
        if process.poll() is not None or time.monotonic() > until:
            raise Unavailable(f"Podman does not start: {(folder / 'log').read_text()[-400:]}")
        time.sleep(PAUSE_SECONDS)
