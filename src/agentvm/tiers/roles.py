"""Roles — the programs of a payload: Python code, shell scripts, JavaScript modules, commands.

The only module that executes foreign text, and it runs in a jail only: every function here is called after all walls are
built and never returns. Python code runs in the launcher's own interpreter, forked, so it starts in no time; the others are
programs of the host.

Part of the launcher's process: standard library and msgspec only.
"""

import _thread
import ast
import atexit
import importlib
import json
import linecache
import os
import re
import socket
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from agentvm.tiers import frames
from agentvm.tiers.frames import VALUE_MAX_BYTES, Asking, HostAnswer, JobWork, Value
from agentvm.tiers.mounts import PACKAGES

PATH = "/usr/local/bin:/usr/bin:/bin"
MAIN = "main.py"
COMMON_MODULES = (
    "asyncio", "base64", "bisect", "calendar", "collections", "copy", "csv", "datetime", "decimal", "difflib", "fractions",
    "functools", "hashlib", "heapq", "html", "itertools", "math", "operator", "pathlib", "random", "secrets", "shutil",
    "sqlite3", "statistics", "string", "subprocess", "tempfile", "textwrap", "unicodedata", "urllib.parse", "uuid", "zipfile",
    "zoneinfo",
)  # fmt: skip
"""Modules that are loaded beforehand where jailed code cannot read the standard library."""
VARIABLE_MAX_BYTES = 64 * 1024
"""The kernel refuses to start a program with a variable of more than 128 KiB, name included."""
NOT_FOUND_STATUS = 127
NOT_RUNNABLE_STATUS = 126

_TOO_LARGE = f"The value has more than {VALUE_MAX_BYTES:,} bytes as JSON; write it into a file"
_RUNNER = f"""
import {{ readFileSync, writeSync }} from "node:fs";
const module = await import("./main.mjs");
if (typeof module.default === "function") {{
  const value = await module.default(JSON.parse(readFileSync(new URL("./input.json", import.meta.url), "utf8")));
  const bytes = Buffer.from(JSON.stringify(value === undefined ? null : value));
  if (bytes.length > {VALUE_MAX_BYTES}) throw new Error("{_TOO_LARGE}");
  for (let at = 0; at < bytes.length; ) at += writeSync(3, bytes, at);
}}
"""


class ToolError(RuntimeError):
    """A function of the server failed; the text says why."""

    __module__ = "__main__"


_HIDDEN: dict[str, types.ModuleType] = {}
_LIBRARY: list[str] = []


def prepare() -> None:
    """Hides modules that code must not find, once for all jobs. Called by the launcher, when it has loaded everything."""
    names = [name for name in sys.modules if name.partition(".")[0] in {"agentvm", "msgspec"}]
    # Kept, since their functions run on.
    _HIDDEN.update({name: sys.modules.pop(name) for name in names})
    # The standard library; nothing that was installed for the server.
    _LIBRARY[:] = [path for path in sys.path if path and "-packages" not in path]


def environment(work: JobWork, workspace: str, temporary: str, inputs: str, skills: str) -> dict[str, str]:
    """All variables of a job: a few that programs cannot do without, its arguments, and those it states itself."""
    variables = {"PATH": PATH, "HOME": workspace, "TMPDIR": temporary, "LANG": "C.UTF-8"}
    if work.inputs:
        variables["AVM_IN"] = inputs
    if work.skills:
        variables["AVM_SKILLS"] = skills
    if work.network:
        proxy = "http://127.0.0.1:3128"
        variables |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
    if work.role == "shell" and work.input is not None:
        arguments = json.loads(work.input)
        variables |= _as_variables(arguments if isinstance(arguments, dict) else {})
    variables |= work.env
    if work.layer:
        variables["PYTHONPATH"] = ":".join(filter(None, [work.env.get("PYTHONPATH"), PACKAGES]))
    return variables


def _as_variables(arguments: Mapping[str, Any]) -> dict[str, str]:
    names = {name: "ARG_" + re.sub(r"[^A-Z0-9_]", "_", name.upper()) for name in arguments}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()}
    # Any other is on stdin alone: the program would not start.
    fit = {name: text for name, text in texts.items() if "\0" not in text and len(text.encode()) <= VARIABLE_MAX_BYTES}
    return {names[name]: text for name, text in fit.items()}


def script_of(work: JobWork) -> dict[str, bytes]:
    """Files that the role needs beside the job's own, in the folder for temporary files."""
    match work.role:
        case "shell":
            return {"script.sh": work.code.encode()}
        case "javascript":
            # Not a variable: the kernel takes none of more than 128 KiB.
            arguments = b"{}" if work.input is None else work.input
            return {"main.mjs": work.code.encode(), "run.mjs": _RUNNER.encode(), "input.json": arguments}
        case _:
            return {}


def execute(work: JobWork, temporary: str, variables: dict[str, str], calls: socket.socket) -> NoReturn:
    """Becomes the program of the job."""
    match work.role:
        case "python":
            run_python(work, variables, calls)
        case "shell":
            argv = ["/bin/sh", f"{temporary}/script.sh"]
        case "javascript":
            # The value is written to descriptor 3.
            os.dup2(calls.fileno(), 3, inheritable=True)
            argv = ["node", f"--max-old-space-size={max(16, work.bounds.memory_bytes // 2**20)}", f"{temporary}/run.mjs"]
        case _:
            argv = work.argv
    program = find_program(argv[0], variables.get("PATH", PATH))
    if program is None:
        os.write(2, f"{argv[0]}: not found\n".encode())
        os._exit(NOT_FOUND_STATUS)
    try:
        os.execve(program, argv, variables)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(NOT_RUNNABLE_STATUS)


def find_program(name: str, path: str) -> str | None:
    """The file of a program: as named if that is a path, else the first in the folders of `path`."""
    candidates = [name] if "/" in name else [f"{folder}/{name}" for folder in path.split(":") if folder]
    return next((file for file in candidates if os.path.isfile(file) and os.access(file, os.X_OK)), None)


def run_python(work: JobWork, variables: dict[str, str], calls: socket.socket) -> NoReturn:
    """Runs code in this interpreter and sends its value: that of `run(**input)`, or of the last expression."""
    _isolate(variables)
    status, out_of_memory, value = 1, False, b""
    try:
        value = _encoded(_evaluate(work, calls))
        status = 0
    finally:
        # Not an `except`: whatever the code raises ends here, and the process with it.
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):
            status = _status(error.code)
        elif error is not None:
            out_of_memory = isinstance(error, MemoryError)
            _show(error)
        _farewell()
        if value or out_of_memory:
            _send(calls, Value(value=value, out_of_memory=out_of_memory))
        os._exit(status)


def _send(calls: socket.socket, value: Value) -> None:
    try:
        frames.send(calls, value)
    except OSError:
        # The code has closed the line, or nobody listens.
        pass


def _isolate(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [MAIN]
    sys.path = [os.getcwd(), *_LIBRARY, *filter(None, variables.get("PYTHONPATH", "").split(":"))]
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def _evaluate(work: JobWork, calls: socket.socket) -> Any:
    code = work.code
    if not code:
        with open(MAIN, encoding="utf-8") as file:
            code = file.read()
    linecache.cache[MAIN] = (len(code), None, code.splitlines(keepends=True), MAIN)
    tree = ast.parse(code, MAIN)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    names: dict[str, Any] = {"__name__": "__main__", "__file__": MAIN}
    if work.functions:
        names |= {"tools": _Tools(_HostLine(calls, work.known), work.functions), "ToolError": ToolError}
        if "random" in code:
            # A program that is run again makes the same calls.
            importlib.import_module("random").seed(work.env.get("AVM_CALL_KEY"))
    exec(compile(tree, MAIN, "exec"), names)
    value = None
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), MAIN, "eval"), names)
    run = names.get("run")
    if work.script or not (isinstance(run, types.FunctionType) and run.__globals__ is names):
        return value if _is_json(value) else None
    arguments = {} if work.input is None else json.loads(work.input)
    result = run(**arguments)
    # Loaded only now: it would make every fork of the launcher cost four times as much.
    return importlib.import_module("asyncio").run(result) if isinstance(result, types.CoroutineType) else result


def _encoded(value: Any) -> bytes:
    """The value of a program as JSON, unless the server would not take it."""
    encoded = json.dumps(value, allow_nan=False).encode()
    if len(encoded) > VALUE_MAX_BYTES:
        raise ValueError(_TOO_LARGE)
    return encoded


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


class _Tools:
    """The functions of the server that code can call: `tools.name(…)`, or `tools["any-name"](…)`."""

    def __init__(self, line: "_HostLine", functions: Mapping[str, list[str]]) -> None:
        self.__dict__.update({name: line.function(name, parameters) for name, parameters in functions.items()})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no tool {name!r}; there are: {', '.join(self.__dict__)}")

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


class _HostLine:
    """Calls functions of the server, one at a time.

    Of a program that is run again the first calls have their answers already. The server hears of each and ends the program if
    it is another call than before, but the program does not wait for that.
    """

    def __init__(self, calls: socket.socket, answers: list[HostAnswer]) -> None:
        self._calls = calls
        self._answers = answers
        self._lock = _thread.allocate_lock()
        self._count = 0

    def function(self, name: str, parameters: list[str]) -> Callable[..., Any]:
        def call(*values: Any, **arguments: Any) -> Any:
            if len(values) > len(parameters):
                raise TypeError(f"{name}({', '.join(parameters)}) was called with {len(values)} positional arguments")
            return self._request(name, dict(zip(parameters, values, strict=False)) | arguments)

        call.__name__ = call.__qualname__ = name
        return call

    def _request(self, name: str, arguments: Mapping[str, Any]) -> Any:
        body = json.dumps(arguments, allow_nan=False).encode()
        with self._lock:
            self._count += 1
            earlier = self._answers[self._count - 1] if self._count <= len(self._answers) else None
            frames.send(self._calls, Asking(id=self._count, name=name, args=body, known=earlier is not None))
            answer = earlier or frames.receive(self._calls)[0]
        if not isinstance(answer, HostAnswer) or answer.error is not None:
            raise ToolError(answer.error if isinstance(answer, HostAnswer) else f"{name} was not answered")
        return json.loads(answer.value)


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    os.write(2, f"{code}\n".encode("utf-8", "backslashreplace"))
    return 1


def _show(error: BaseException) -> None:
    """Prints the traceback of the job's own code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != MAIN:
        trace = trace.tb_next
    shown = traceback.TracebackException(type(error), error, trace)
    shown.stack = traceback.StackSummary.from_list([frame for frame in shown.stack if frame.filename != __file__])
    sys.stderr.write("".join(shown.format()))


def _farewell() -> None:
    """Ends as an interpreter does: threads, exit functions, output."""
    # Not imported here: what it does after a fork would make each fork of the launcher dearer by half.
    if (threading := sys.modules.get("threading")) is not None:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
