"""Container programs — how a job becomes a command inside a container: its argv, and the files that the command needs.

The value of a program comes back as a file. Nothing here is run by the server.
"""

import re
from collections.abc import Mapping

import msgspec

from agentvm.errors.tool import TierUnavailable
from agentvm.model.base import Record
from agentvm.model.tier import Job
from agentvm.tiers.container_network import proxy_variables

FOLDER = "avm"
"""The folder beside the workspace that holds the program and its value."""
VALUE = "value.json"
VARIABLE_MAX_BYTES = 64 * 1024
"""The kernel refuses to start a program with a variable of more than 128 KiB, name included."""
PACKAGES = "/packages"
"""The folder of the packages of a job."""
HOLD = ("/bin/sh", "-c", "while :; do sleep 3600; done")
"""The first process of a container. It holds it open for the programs that are run in it."""
CLEAR = ("/bin/sh", "-c", "rm -rf /workspace/* /workspace/.[!.]* /workspace/..?* /avm/* /in/* /skills/*")
KILLED = (
    "/bin/sh",
    "-c",
    "for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do "
    '[ ! -r "$file" ] || while read -r name count; do [ "$name" != oom_kill ] || echo "$count"; done < "$file"; done',
)
"""Prints how many processes of the container the kernel has killed for memory, by either version of control groups."""

_PYTHON = """\
import asyncio, inspect, json, sys
is_script = sys.argv[1:] == ["script"]
names = {"__name__": "__main__", "__file__": "main.py"}
import ast
code = open("/avm/program").read()
tree = ast.parse(code, "main.py")
last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
sys.path.insert(0, "/workspace")
sys.argv = ["main.py"]
exec(compile(tree, "main.py", "exec"), names)
value = eval(compile(ast.Expression(last.value), "main.py", "eval"), names) if last is not None else None
run = names.get("run")
if not is_script and inspect.isfunction(run) and run.__globals__ is names:
    value = run(**json.load(open("/avm/input.json")))
    value = asyncio.run(value) if inspect.iscoroutine(value) else value
    text = json.dumps(value, allow_nan=False)
else:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        text = "null"
open("/avm/value.json", "w").write(text)
"""
_JAVASCRIPT = """\
import { readFileSync, writeFileSync } from "node:fs";
const module = await import("/avm/main.mjs");
if (typeof module.default === "function") {
  const value = await module.default(JSON.parse(readFileSync("/avm/input.json", "utf8")));
  writeFileSync("/avm/value.json", JSON.stringify(value === undefined ? null : value));
}
"""


class ContainerProgram(Record):
    """A command, its variables, and the files in `/avm` that it needs."""

    argv: tuple[str, ...]
    env: tuple[str, ...]
    files: dict[str, bytes]
    has_value: bool = False


def program_of(job: Job) -> ContainerProgram:
    """The command of a job; `TierUnavailable` for an engine that no container has."""
    input_json = b"{}" if job.input is None else msgspec.json.encode(job.input)
    files = {"input.json": input_json, "stdin": job.stdin or (b"" if job.input is None else input_json)}
    variables = {"HOME": "/workspace", "LANG": "C.UTF-8", **_arguments(job), **job.env}
    if job.inputs:
        variables["AVM_IN"] = "/in"
    if job.skills:
        variables["AVM_SKILLS"] = "/skills"
    if job.key:
        variables["AVM_CALL_KEY"] = job.key
    if job.network:
        variables = proxy_variables() | variables
    if job.packages:
        variables["PYTHONPATH"] = ":".join(filter(None, [variables.get("PYTHONPATH"), PACKAGES]))
    match job.engine:
        case "python":
            code = job.code or job.files.get("main.py", b"").decode()
            files |= {"program": code.encode(), "run.py": _PYTHON.encode()}
            argv: tuple[str, ...] = ("python3", "/avm/run.py", *(("script",) if job.script else ()))
        case "javascript":
            files |= {"main.mjs": job.code.encode(), "run.mjs": _JAVASCRIPT.encode()}
            argv = ("node", "/avm/run.mjs")
        case "shell":
            files["script.sh"] = job.code.encode()
            argv = ("/bin/sh", "/avm/script.sh")
        case "command":
            argv = job.argv
        case _:
            raise TierUnavailable(f"The tier container offers no {job.engine}")
    return ContainerProgram(
        argv=("/bin/sh", "-c", 'cd /workspace && exec "$@" < /avm/stdin', "sh", *argv),
        env=tuple(f"{name}={value}" for name, value in variables.items()),
        files=files,
        has_value=job.engine in ("python", "javascript"),
    )


def below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files by their paths in the container."""
    return {f"{folder}/{path}": data for path, data in files.items()}


def _arguments(job: Job) -> dict[str, str]:
    if job.engine != "shell" or not isinstance(job.input, dict):
        return {}
    texts = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in job.input.items()
    }
    # Any other is on stdin alone: the program would not start.
    fit = {name: text for name, text in texts.items() if "\0" not in text and len(text.encode()) <= VARIABLE_MAX_BYTES}
    return {"ARG_" + re.sub(r"[^A-Z0-9_]", "_", name.upper()): text for name, text in fit.items()}
