import json
import re
from pathlib import Path

import pytest
from tests.storage.engines.sqlite.backups import fill

from agentvm.cli.main import run
from agentvm.storage.engines.sqlite.restore import check_backup

Said = pytest.CaptureFixture[str]


async def test_a_file_is_written_and_the_missing_key_is_said(tmp_path: Path, capsys: Said) -> None:
    data_dir = await fill(tmp_path / "data")
    assert run(["backup", str(tmp_path / "b"), "--data-dir", str(data_dir)]) == 0
    out = capsys.readouterr().out
    assert re.match(rf"Backup {tmp_path}/b: [\d,]+ bytes\.\nCheck it: \S+ restore --check {tmp_path}/b\n", out)
    assert "server.key is not included" in out
    (tmp_path / "scratch").mkdir()
    check_backup(tmp_path / "b", tmp_path / "scratch")


@pytest.mark.parametrize("ending", ["", "/"])
async def test_in_a_folder_it_is_named_after_the_time(tmp_path: Path, capsys: Said, ending: str) -> None:
    data_dir = await fill(tmp_path / "data")
    folder = tmp_path / "kept"
    if not ending:
        folder.mkdir()
    assert run(["backup", f"{folder}{ending}", "--data-dir", str(data_dir), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert re.fullmatch(rf"{folder}/agentvm-\d{{8}}T\d{{6}}Z\.backup", answer["path"])
    assert answer["manifest"]["parts"][0]["name"] == "agentvm.db"


async def test_with_the_key_there_is_a_warning(tmp_path: Path, capsys: Said) -> None:
    data_dir = await fill(tmp_path / "data")
    command = ["backup", "--with-key", "--data-dir", str(data_dir)]
    assert run([*command, str(tmp_path / "a")]) == 0
    assert "AVM_SERVER_KEY" in capsys.readouterr().err
    (data_dir / "server.key").write_text("not to be shown")
    assert run([*command, str(tmp_path / "b")]) == 0
    said = capsys.readouterr()
    assert "Warning: The backup contains the server key" in said.err
    assert "not to be shown" not in said.out + said.err


async def test_what_cannot_be_is_explained(tmp_path: Path, capsys: Said) -> None:
    data_dir = await fill(tmp_path / "data")
    (tmp_path / "b").write_text("there")
    assert run(["backup", str(tmp_path / "b"), "--data-dir", str(data_dir)]) == 1
    assert "--force" in capsys.readouterr().err
    assert run(["backup", str(tmp_path / "b"), "--force", "--data-dir", str(data_dir)]) == 0
    assert run(["backup", str(tmp_path / "c"), "--data-dir", str(tmp_path / "none")]) == 5
    assert "There is no database in" in capsys.readouterr().err
    assert run(["backup", f"{tmp_path}/b/c/", "--data-dir", str(data_dir)]) == 1
    assert "Cannot create" in capsys.readouterr().err
    assert run(["backup"]) == 2


def test_a_server_in_memory_has_nothing_to_back_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setenv("AVM_DATA_DIR", ":memory:")
    assert run(["backup", str(tmp_path / "b")]) == 1
    assert "--memory" in capsys.readouterr().err
