"""Isolate worker — the program in the jail that runs jobs one after the other, each in an interpreter of its own.

Its text is the code of a Python job; the server talks to it over stdin and stdout. A request is one frame: the engine, the code
and all that belongs to it; so is the reply. An interpreter is thrown away with its job, and the next one is prepared between
jobs.

Standard library and the interpreters only; those are loaded before the jail is closed.
"""

import base64
import json
import os
import re
import shlex
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

WORKSPACE = "/workspace"
_INPUTS = ("/in", "/skills")
MEMORY_BYTES = 128 * 1024 * 1024
"""Memory of the interpreter that is made ready beforehand."""
_HEADER = struct.Struct("!I")
_ABSENT_IN_JAVASCRIPT = frozenset({
    "process", "Buffer", "require", "module", "exports", "global", "setTimeout", "setInterval", "setImmediate", "fetch", "URL",
    "URLSearchParams", "TextEncoder", "TextDecoder", "AbortController", "structuredClone", "Intl", "crypto", "__dirname",
})  # fmt: skip
"""Names that JavaScript has elsewhere: code that uses one needs another engine."""

Request = dict[str, Any]
Reply = dict[str, Any]


class WorkerLine:
    """Frames to and from the server."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def receive(self) -> Request | None:
        """The next frame; None when the server has closed the line."""
        header = self._exactly(_HEADER.size)
        if header is None or (body := self._exactly(_HEADER.unpack(header)[0])) is None:
            return None
        request: Request = json.loads(body)
        return request

    def send(self, message: Reply) -> None:
        body = json.dumps(message, allow_nan=False).encode()
        data = memoryview(_HEADER.pack(len(body)) + body)
        while data:
            data = data[os.write(self._outgoing, data) :]

    def _exactly(self, length: int) -> bytes | None:
        body = b""
        while len(body) < length:
            piece = os.read(self._incoming, length - len(body))
            if not piece:
                return None
            body += piece
        return body


class ShellInterpreter:
    """Scripts in bashkit, whose files are in its own memory."""

    def __init__(self) -> None:
        self._next = self._new(MEMORY_BYTES)

    def run(self, request: Request) -> Reply:
        bash = self._next if request["memory"] >= MEMORY_BYTES else self._new(request["memory"])
        files = _bytes_of(request["files"])
        _place_in(bash, WORKSPACE, files)
        for root in _INPUTS:
            _place_in(bash, root, _bytes_of(request["inputs"].get(root, {})))
        code = request["code"]
        if request["stdin"]:
            bash.fs().write_file("/tmp/.stdin", request["stdin"].encode())
            code = "{\n" + code + "\n} < /tmp/.stdin"
        if variables := _variables(request["input"]) | request["env"]:
            bash.execute_sync("export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items()))
        result = bash.execute_sync(code)
        changed, deleted = _collect(_files_of(bash), files)
        fault = result.error or ""
        lacking = _lacking_of_shell(result.exit_code, result.stderr, fault)
        return {
            "exit": result.exit_code,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "truncated": bool(result.stdout_truncated or result.stderr_truncated),
            "oom": "memory" in fault,
            "files": changed,
            "deleted": deleted,
            "lacking": "" if changed or deleted else lacking,
        }

    def rest(self) -> None:
        self._next.reset()

    def _new(self, memory: int) -> Any:
        bashkit = sys.modules["bashkit"]
        endless = 2**31
        return bashkit.Bash(
            cwd=WORKSPACE,
            profile=bashkit.ExecutionProfile.Interactive,
            max_memory=memory,
            max_commands=endless,
            max_loop_iterations=endless,
            # The server ends the worker at the job's deadline.
            timeout_seconds=86_400.0,
        )


def _variables(arguments: Any) -> dict[str, str]:
    if not isinstance(arguments, dict):
        return {}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()}
    return {"ARG_" + re.sub(r"[^A-Z0-9_]", "_", name.upper()): text for name, text in texts.items() if "\0" not in text}


def _bytes_of(files: dict[str, str]) -> dict[str, bytes]:
    return {path: base64.b64decode(data) for path, data in files.items()}


def _place_in(bash: Any, root: str, files: dict[str, bytes]) -> None:
    system = bash.fs()
    system.mkdir(root, True)
    for path, data in files.items():
        if "/" in path:
            system.mkdir(f"{root}/{path.rpartition('/')[0]}", True)
        system.write_file(f"{root}/{path}", data)


def _files_of(bash: Any) -> dict[str, bytes]:
    system = bash.fs()
    files: dict[str, bytes] = {}
    folders = [""]
    for folder in folders:
        for entry in system.read_dir(f"{WORKSPACE}/{folder}"):
            path = f"{folder}{entry['name']}"
            kind = entry["metadata"]["file_type"]
            if kind == "directory":
                folders.append(f"{path}/")
            elif kind == "file":
                files[path] = system.read_file(f"{WORKSPACE}/{path}")
    return files


def _lacking_of_shell(status: int, stderr: str, fault: str) -> str:
    if fault.startswith("parse error"):
        return fault
    return stderr.strip().rpartition("\n")[2] if status == 127 and "command not found" in stderr else ""


class JavaScriptInterpreter:
    """ES modules in quickjs: the language and `console`, without files and without a loop of timers."""

    def __init__(self) -> None:
        self._next = self._new()

    def run(self, request: Request) -> Reply:
        quickjs, context = sys.modules["_quickjs"], self._next
        context.set_memory_limit(request["memory"])
        output: dict[str, list[str]] = {"stdout": [], "stderr": []}
        context.add_callable("__print", lambda stream, text: output[stream].append(text + "\n"))
        reply: Reply = {"exit": 0}
        try:
            context.eval(_PRELUDE)
            reply["value"] = self._value(context, request)
        except quickjs.JSException as error:
            text = str(error)
            reply |= {"exit": 1, "oom": "out of memory" in text, "lacking": _lacking_of_javascript(text)}
            output["stderr"].append(text)
        return reply | {stream: "".join(lines) for stream, lines in output.items()}

    def _value(self, context: Any, request: Request) -> Any:
        # The module's exports are its own; its default is handed out by a second module, which is told the first one's text.
        context.set("__input", json.dumps(request["input"] or {}))
        code, exports = _exported(request["code"])
        context.module(code)
        if not exports:
            return None
        context.eval(_RUN)
        while context.eval("__state") == "waiting" and context.execute_pending_job():
            pass
        state = context.eval("__state")
        if state != "done":
            context.eval("throw __error" if state == "failed" else "throw new Error('the promise is never fulfilled')")
        value = context.eval("__value")
        return None if value is None else json.loads(value)

    def rest(self) -> None:
        self._next = self._new()

    def _new(self) -> Any:
        return sys.modules["_quickjs"].Context()


_PRELUDE = """
globalThis.console = Object.fromEntries(["log", "info", "debug", "warn", "error"].map((name) => [name, (...values) =>
  __print(name === "warn" || name === "error" ? "stderr" : "stdout",
    values.map((value) => typeof value === "string" ? value : JSON.stringify(value)).join(" "))]));
"""
_RUN = """
globalThis.__state = "waiting";
(async () => globalThis.__default(JSON.parse(__input)))().then(
  (value) => { globalThis.__value = JSON.stringify(value === undefined ? null : value); globalThis.__state = "done"; },
  (error) => { globalThis.__error = error; globalThis.__state = "failed"; });
"""


def _exported(code: str) -> tuple[str, bool]:
    """The module with its default export as a global, and whether it has one."""
    marker = "export default "
    at = 0 if code.startswith(marker) else code.find("\n" + marker) + 1 or -1
    if at < 0:
        return code, False
    return code[:at] + "globalThis.__default = " + code[at + len(marker) :], True


def _lacking_of_javascript(text: str) -> str:
    first = text.partition("\n")[0]
    if "could not load module" in first:
        return first
    name = first.removeprefix("ReferenceError: ").removesuffix(" is not defined")
    return first if name in _ABSENT_IN_JAVASCRIPT else ""


class PythonInterpreter:
    """Programs in Monty, whose interpreter is a process of its own beside this one. Its files are a folder of the jail."""

    def __init__(self, binary: str) -> None:
        monty = sys.modules["pydantic_monty"]
        self._pool = monty.Monty(binary_path=binary, min_processes=1, max_processes=1)
        self._pool.__enter__()

    def run(self, request: Request) -> Reply:
        monty = sys.modules["pydantic_monty"]
        files = _bytes_of(request["files"])
        folder, inputs = tempfile.mkdtemp(dir="/tmp"), tempfile.mkdtemp(dir="/tmp")
        output: dict[str, list[str]] = {"stdout": [], "stderr": []}
        reply: Reply = {"exit": 0, "oom": False, "lacking": ""}
        try:
            _write_folder(folder, files)
            for root, shown in request["inputs"].items():
                _write_folder(f"{inputs}{root}", _bytes_of(shown))
            try:
                reply["value"] = self._value(request, folder, inputs, lambda stream, text: output[stream].append(text))
            except monty.MontyError as error:
                text = f"{error.__class__.__name__}: {error}" if isinstance(error, monty.MontySyntaxError) else str(error)
                reply |= {"exit": 1, "oom": text.startswith("MemoryError"), "lacking": _lacking_of_python(error, text)}
                output["stderr"].append(text + "\n")
            changed, deleted = _collect(dict(_read_folder(folder)), files)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(inputs, ignore_errors=True)
        if changed or deleted:
            reply["lacking"] = ""
        return reply | {"files": changed, "deleted": deleted} | {stream: "".join(texts) for stream, texts in output.items()}

    def _value(self, request: Request, folder: str, inputs: str, show: Callable[[str, str], None]) -> Any:
        monty = sys.modules["pydantic_monty"]
        arguments: dict[str, Any] = request["input"] or {}
        mount = [monty.MountDir(virtual_path=WORKSPACE, host_path=folder, mode="read-write")]
        for root in request["inputs"]:
            mount.append(monty.MountDir(virtual_path=root, host_path=f"{inputs}{root}", mode="read-only"))
        options = {"print_callback": show, "mount": mount, "cwd": WORKSPACE}
        code = request["code"] or base64.b64decode(request["files"]["main.py"]).decode()
        with self._pool.checkout(limits={"max_memory": request["memory"]}) as session:
            value = session.feed_run(code, **options)
            if "def run(" in code and not request["script"]:
                names = ", ".join(f"{name}={name}" for name in arguments)
                value = session.feed_run(f"run({names})", inputs=arguments, **options)
        return value if _is_json(value) else None

    def rest(self) -> None:
        """The pool replaces its process by itself."""


def _lacking_of_python(error: Any, text: str) -> str:
    if isinstance(error, sys.modules["pydantic_monty"].MontySyntaxError):
        return text
    unsupported = text.startswith(("ModuleNotFoundError", "NotImplementedError: The monty", "ImportError"))
    return text if unsupported else ""


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _write_folder(folder: str, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
        with open(f"{folder}/{path}", "wb") as file:
            file.write(data)


def _read_folder(folder: str) -> Iterator[tuple[str, bytes]]:
    for root, _, names in os.walk(folder):
        for name in names:
            path = f"{root}/{name}"
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    yield os.path.relpath(path, folder), file.read()


def _collect(after: dict[str, bytes], before: dict[str, bytes]) -> tuple[dict[str, str], list[str]]:
    """The files that were added or changed, in base64, and those that are gone."""
    changed = {path: base64.b64encode(data).decode() for path, data in after.items() if before.get(path) != data}
    return changed, [path for path in before if path not in after]


def serve(engine: str, binary: str) -> None:
    """Runs the jobs of one engine until the server closes the line."""
    line = WorkerLine(os.dup(0), os.dup(1))
    # An interpreter that writes to stdout itself must not reach the line.
    os.dup2(2, 1)
    makers: dict[str, Callable[[], Any]] = {
        "shell-subset": ShellInterpreter,
        "javascript": JavaScriptInterpreter,
        "python-subset": lambda: PythonInterpreter(binary),
    }
    interpreter = makers[engine]()
    line.send({})
    while (request := line.receive()) is not None:
        began = time.process_time()
        reply = interpreter.run(request)
        line.send(reply | {"cpuMs": round((time.process_time() - began) * 1000)})
        interpreter.rest()


if __name__ == "__main__":
    serve(os.environ["AVM_ENGINE"], os.environ["AVM_BINARY"])
