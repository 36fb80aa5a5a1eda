"""Container network — the way out of a container: a forwarder inside it, a unix socket, and the egress proxy of the server.

A container has no network but its own loopback. The socket of the proxy lies in a folder that is mounted into it; a forwarder
on the port of the proxy carries connections to the socket. So there is no route, no neighbour and no token: a client of the
socket is that container. The forwarder is the container's own process, written for the languages that images have.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from agentvm.tiers.egress import EgressPolicy, serve_proxy

FOLDER = "/net"
"""The folder of the socket inside the container."""
PORT = 3128
FORWARD = ("/bin/sh", "/avm/forward.sh")
NO_FORWARDER_STATUS = 97
FORWARDER_PROCESSES_MAX = 16
"""Processes and threads of the forwarder, which are not the job's."""
_SOCKET = "proxy.sock"
_BACKLOG_MAX = 64
_SHELL = f"""\
if command -v python3 > /dev/null 2>&1; then exec python3 /avm/forward.py; fi
if command -v node > /dev/null 2>&1; then exec node /avm/forward.mjs; fi
exit {NO_FORWARDER_STATUS}
"""
_PYTHON = """\
import asyncio, os, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    listener.bind(("127.0.0.1", PORT))
except OSError:
    sys.exit(0)
listener.listen(64)
if os.fork():
    os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
for number in range(3):
    os.dup2(null, number)
async def carry(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()
async def serve(reader, writer):
    try:
        proxy = await asyncio.open_unix_connection("/net/proxy.sock")
    except OSError:
        writer.close()
        return
    await asyncio.gather(carry(reader, proxy[1]), carry(proxy[0], writer))
    writer.close()
    proxy[1].close()
async def main():
    async with await asyncio.start_server(serve, sock=listener) as server:
        await server.serve_forever()
asyncio.run(main())
"""
_JAVASCRIPT = """\
import net from "node:net";
import { spawn } from "node:child_process";
if (process.argv[2] === "serve") {
  const server = net.createServer({ allowHalfOpen: true }, (client) => {
    const proxy = net.connect({ path: "/net/proxy.sock", allowHalfOpen: true });
    const end = () => { client.destroy(); proxy.destroy(); };
    client.on("error", end);
    proxy.on("error", end);
    client.pipe(proxy);
    proxy.pipe(client);
  });
  server.on("error", (error) => process.exit(error.code === "EADDRINUSE" ? 0 : 1));
  server.listen(PORT, "127.0.0.1", () => process.stdout.write("ready"));
} else {
  const child = spawn(process.execPath, ["/avm/forward.mjs", "serve"], { stdio: ["ignore", "pipe", "ignore"] });
  child.stdout.once("data", () => process.exit(0));
  child.once("exit", (code) => process.exit(code ?? 1));
}
"""


def forwarder_files() -> dict[str, bytes]:
    """The files in `/avm` that the forwarder needs."""
    texts = {"forward.sh": _SHELL, "forward.py": _PYTHON, "forward.mjs": _JAVASCRIPT}
    return {name: text.replace("PORT", str(PORT)).encode() for name, text in texts.items()}


def proxy_variables() -> dict[str, str]:
    """Variables by which programs find the proxy."""
    return dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), f"http://127.0.0.1:{PORT}")


def make_exchange(above: str) -> str:
    """A new folder for the socket of one container, which other users may enter."""
    Path(above).mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(dir=above)
    os.chmod(folder, 0o755)
    return folder


def remove_exchange(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _unlink(folder: str) -> None:
    Path(folder, _SOCKET).unlink(missing_ok=True)


def _listen(folder: str) -> int:
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # By its descriptor: the path of a socket has at most 107 bytes.
        address = f"/proc/self/fd/{place}/{_SOCKET}"
        _unlink(folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(address)
        os.chmod(address, 0o666)
        listener.listen(_BACKLOG_MAX)
        return listener.detach()
    finally:
        os.close(place)


@asynccontextmanager
async def open_proxy(folder: str, allowed: Sequence[str], policy: EgressPolicy) -> AsyncIterator[None]:
    """Serves the proxy on the socket in the folder while the context lasts; without it, nothing leaves the container."""
    listener = _listen(folder)
    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    tasks.start_soon(serve_proxy, listener, tuple(allowed), policy)
    try:
        yield
    finally:
        # Not `async with`: it would wrap the caller's exception in an exception group.
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)
        _unlink(folder)
