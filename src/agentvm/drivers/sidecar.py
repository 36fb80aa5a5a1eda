"""Sidecar — the program of the embedded model's process: llama.cpp's HTTP server, bound to its parent.

The program reads its options as one line of JSON from stdin, so that the key is in no process list; answers with one line,
`{"url": …}` or `{"error": …}`, on stdout; and serves until stdin closes, which happens when its parent ends in any way.
Loading holds the interpreter's lock, so on Linux the kernel watches the parent as well.

Nothing of AgentVM is imported: this process should hold a model, not a server.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
from typing import Any, TypedDict

_PARENT_DEATH_SIGNAL_CODE = 1


class SidecarOptions(TypedDict):
    """The options from the parent. `window` tokens for each of `slots` chats at a time.

    `pooling` is for a model that turns texts into vectors: `own`, as its file says, or `mean`; empty for one that answers.
    """

    parent: int
    model: str
    alias: str
    api_key: str
    threads: int
    slots: int
    window: int
    pooling: str


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL_CODE, signal.SIGKILL)
    # The parent may have died before the kernel was told.
    if os.getppid() != parent:
        os._exit(0)


def _serve(orders: SidecarOptions) -> Any:
    # Late, so that a missing package becomes an answer and not a traceback.
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = orders["model"]
    # Otherwise the model would be named by its path, visible to every client.
    params.model_alias = {orders["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [orders["api_key"]]
    params.n_parallel = orders["slots"]
    # Divided evenly: with one pool for all (`kv_unified`) a long chat could starve the others mid-answer.
    params.n_ctx = orders["slots"] * orders["window"]
    params.cpuparams.n_threads = orders["threads"]
    params.cpuparams_batch.n_threads = orders["threads"]
    # The default keeps up to 8 GiB of old prompts in memory.
    params.cache_ram_mib = 0
    params.fit_params = False
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = -1
    if orders["pooling"]:
        params.embedding = True
        # A text is read in one piece.
        params.n_batch = params.n_ubatch = orders["window"]
        if orders["pooling"] == "mean":
            params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    return xllamacpp.Server(params)


def main() -> None:
    """Runs until stdin closes."""
    answers = os.fdopen(os.dup(1), "w")
    # llama.cpp writes where it likes; only we speak on stdout.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    orders: SidecarOptions = json.loads(sys.stdin.readline())
    _die_with(orders["parent"])
    try:
        server = _serve(orders)
        answer = {"url": server.listening_address}
    except (ImportError, RuntimeError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    sys.stdin.read()
    # No farewell: llama.cpp's threads may be in the middle of a token.
    os._exit(0)


if __name__ == "__main__":
    main()
