import io
from pathlib import Path

import pytest
from tests.cli.fake_server import answering
from tests.cli.program import at_terminal, environment

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.cli import progress
from agentvm.cli.api import Api
from agentvm.cli.progress import Progress, line, size
from agentvm.config import MEMORY, SystemSettings


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_takes_a_while_is_told_on_one_line_that_goes_away(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    tell = Progress(live=True, clock=clock)
    tell("Sending", 1_000, 10_000)
    assert capsys.readouterr().err == ""
    clock.now = 1.0
    tell("Sending", 5_000, 10_000)
    tell("Sending", 5_001, 10_000)
    said = capsys.readouterr().err
    assert said == "\r\x1b[KSending  [############            ]  50 %  5.0 kB of 10.0 kB  5.0 kB/s"
    tell("Sending", 10_000, 10_000)
    assert capsys.readouterr().err == "\r\x1b[K"
    tell.clear()
    assert capsys.readouterr().err == ""


def test_a_step_that_counts_no_bytes_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    tell = Progress(live=True, of_bytes=False, clock=Clock())
    tell("checking", 0, 1)
    assert capsys.readouterr().err == f"\r\x1b[Kchecking  [{' ' * 24}]   0 %"
    tell("checking", 1, 1)
    assert capsys.readouterr().err == "\r\x1b[K"


def test_a_line_is_never_wider_than_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    Progress(live=True, of_bytes=False, clock=Clock())("checking", 0, 1)
    assert len(capsys.readouterr().err.removeprefix("\r\x1b[K")) == 19


def test_what_has_no_known_size_is_counted() -> None:
    assert line("Receiving", 2_500_000, None, 2.0) == "Receiving  2.5 MB  1.2 MB/s"
    assert (size(999), size(0), size(10**16)) == ("999 bytes", "0 bytes", "10000.0 TB")


def test_where_nobody_looks_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    tell = progress.at_terminal()
    tell("Sending", 1, 2)
    tell.wait("waiting")
    assert capsys.readouterr().err == ""


def test_uploads_and_downloads_tell_how_far_they_are(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []

    class Heard(Progress):
        def __call__(self, what: str, done: int, of: int | None) -> None:
            told.append((what, done, of))

    (tmp_path / "file").write_bytes(b"x" * 100_000)
    with (tmp_path / "file").open("rb") as source:
        assert b"".join(progress.read_blocks(source, Heard(live=True))) == b"x" * 100_000
    assert told == [("Sending", 65_536, 100_000), ("Sending", 100_000, 100_000)]
    with answering(lambda asked: (200, b"y" * 50_000)) as (url, _), Api(url, None, progress=Heard(live=True)) as api:
        api.download(io.BytesIO(), "transfer.export")
    assert told[-1] == ("Receiving", 50_000, 50_000)


async def test_an_error_stands_alone_on_its_line(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        (tmp_path / "odd.zip").write_bytes(b"no archive")
        env = environment(tmp_path, AVM_URL=server.url)
        async with at_terminal("import", str(tmp_path / "odd.zip"), env=env) as keyboard:
            before = await keyboard.see("Error: ")
            assert before.strip() in ("", "\x1b[K")
            assert await keyboard.wait() == 1
