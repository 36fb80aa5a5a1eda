import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SystemSettings
from agentvm.server.announcement import FILE_NAME, announced, running_server


async def test_a_server_says_where_it_listens_while_it_does(tmp_path: Path) -> None:
    assert running_server(tmp_path) is None
    config = ServerConfig(system=SystemSettings(port=0, data_dir=str(tmp_path), shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        assert running_server(tmp_path) == server.url
        assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert running_server(tmp_path) is None
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("192.0.2.7", "http://192.0.2.7:80"),
    ],
)
def test_the_address_is_one_that_can_be_connected_to(host: str, url: str, tmp_path: Path) -> None:
    with announced(tmp_path, host, 80):
        assert running_server(tmp_path) == url


def test_a_server_that_keeps_no_data_says_nothing() -> None:
    with announced(None, "127.0.0.1", 80):
        pass


def test_a_place_where_nothing_can_be_written_keeps_no_server_from_running(tmp_path: Path) -> None:
    with announced(tmp_path / "gone", "127.0.0.1", 80):
        assert running_server(tmp_path / "gone") is None


def test_what_a_crash_left_behind_means_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(timeout=60)
    (tmp_path / FILE_NAME).write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": process.pid}))
    assert running_server(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"url": 5}', '{"url": "file:///x", "pid": 1}', '{"url": "http://h", "pid": 0}', "x" * 10_000]
)
def test_a_file_that_says_something_else_means_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(text.replace('"pid": 1', f'"pid": {os.getpid()}'))
    assert running_server(tmp_path) is None
