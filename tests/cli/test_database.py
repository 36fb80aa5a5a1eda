import re
from pathlib import Path

import pytest
from tests.storage.engines.sqlite.backups import back_up, fill

from agentvm.cli.main import run

Said = pytest.CaptureFixture[str]


async def test_what_cannot_be_copied_is_explained(tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    data_dir = await fill(tmp_path / "data")
    monkeypatch.delenv("AVM_DATABASE", raising=False)
    assert run(["database", "copy", "--data-dir", str(data_dir)]) == 1
    assert "AVM_DATABASE=postgresql://" in capsys.readouterr().err
    monkeypatch.setenv("AVM_DATABASE", "postgresql://avm:hunter2@127.0.0.1:1/none")
    assert run(["database", "copy", "--data-dir", str(tmp_path / "none")]) == 5
    assert "There is no database in" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert run(["database", "copy", "--data-dir", str(data_dir)]) == 1
    said = capsys.readouterr().err
    assert "Cannot open the PostgreSQL database" in said
    assert "hunter2" not in said


async def test_backup_and_restore_know_of_postgresql(tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    data_dir = await fill(tmp_path / "data")
    back_up(data_dir, tmp_path / "b")
    monkeypatch.setenv("AVM_DATABASE", "postgresql://avm:hunter2@db.example.com:5433/agentvm")
    assert run(["backup", str(tmp_path / "c"), "--data-dir", str(data_dir)]) == 1
    refused = capsys.readouterr().err
    assert all(word in refused for word in ("pg_dump", "pg_restore", "point-in-time", "server.key"))
    assert run(["restore", str(tmp_path / "b"), "--data-dir", str(tmp_path / "restored")]) == 0
    warned = capsys.readouterr().err
    assert "avm database copy" in warned
    assert "hunter2" not in refused + warned


async def test_a_copy_says_what_to_do_next(
    tmp_path: Path, database_url: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = await fill(tmp_path / "data")
    monkeypatch.setenv("AVM_DATABASE", database_url)
    assert run(["database", "copy", "--data-dir", str(data_dir)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"Copied \d+ rows of \d+ tables; all of them are the same in PostgreSQL\.", said)
    assert "serve" in said
    assert run(["database", "copy", "--data-dir", str(data_dir), "--json"]) == 1
    assert "not empty" in capsys.readouterr().err
