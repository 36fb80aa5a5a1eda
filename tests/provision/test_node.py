import subprocess
from pathlib import Path

import pytest

from tests.provision import Unavailable
from tests.provision.node import HOME, existing, npm_ci, npm_cli


def test_node_and_npm_answer_without_anything_on_the_path(node: Path) -> None:
    for command in ([str(node), "--version"], [str(node), str(npm_cli()), "--version"]):
        answer = subprocess.run(command, env={"PATH": ""}, check=True, capture_output=True, text=True)
        assert answer.stdout.strip()


def test_a_missing_program_is_named() -> None:
    with pytest.raises(Unavailable, match="bin/gone"):
        existing(HOME / "bin" / "gone")


def test_a_folder_without_a_lock_file_is_refused(node: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="npm ci failed"):
        npm_ci(tmp_path)
