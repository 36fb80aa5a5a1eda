import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentvm.drivers import sidecar

PROGRAM = [sys.executable, "-P", str(Path(sidecar.__file__))]


def orders(model: Path, parent: int) -> bytes:
    told: sidecar.SidecarOptions = {
        "parent": parent,
        "model": str(model),
        "alias": "x",
        "api_key": "k",
        "threads": 1,
        "slots": 1,
        "window": 128,
        "pooling": "",
    }
    return json.dumps(told).encode() + b"\n"


def test_a_model_that_cannot_be_loaded_is_answered_and_nothing_else_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        PROGRAM, input=orders(tmp_path / "none.gguf", os.getpid()), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert list(json.loads(done.stdout)) == ["error"]
    assert done.stderr == b""


def test_an_orphan_ends_at_once(tmp_path: Path) -> None:
    done = subprocess.run(PROGRAM, input=orders(tmp_path / "none.gguf", 1), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def test_the_sidecar_imports_nothing_of_agentvm() -> None:
    program = "import sys, runpy; runpy.run_path(sys.argv[1]); print(*[m for m in sys.modules if m.startswith('agentvm')])"
    done = subprocess.run([sys.executable, "-c", program, sidecar.__file__], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("content", [b"", b"GGUF" + b"\0" * 100])
def test_a_broken_file_does_not_bring_the_process_down(content: bytes, tmp_path: Path) -> None:
    model = tmp_path / "broken.gguf"
    model.write_bytes(content)
    done = subprocess.run(PROGRAM, input=orders(model, os.getpid()), capture_output=True, timeout=60, check=False)
    assert "error" in json.loads(done.stdout)
