import json
from pathlib import Path

import pytest
from tests.storage.engines.sqlite.backups import back_up, fill, message_ids, names_in

from agentvm.cli.main import run
from agentvm.storage.engines.sqlite.datadir import lock_data_dir

Said = pytest.CaptureFixture[str]


async def test_a_backup_is_restored_and_says_how_to_start(tmp_path: Path, capsys: Said) -> None:
    backup = back_up(await fill(tmp_path / "data"), tmp_path / "b")
    assert run(["restore", str(backup), "--data-dir", str(tmp_path / "new")]) == 0
    said = capsys.readouterr()
    assert f"Restored to {tmp_path}/new: agentvm.db as of 2025-11-13 02:13 UTC" in said.out
    assert f"serve --data-dir {tmp_path}/new" in said.out
    assert "Warning: no server.key" in said.err
    assert await message_ids(tmp_path / "new") == ["m0", "m1", "m2"]


async def test_what_was_there_is_replaced_by_force_and_kept(tmp_path: Path, capsys: Said) -> None:
    data_dir = await fill(tmp_path / "data")
    (data_dir / "server.key").write_text("ab" * 32)
    backup = tmp_path / "b"
    assert run(["backup", "--with-key", "--data-dir", str(data_dir), str(backup)]) == 0
    capsys.readouterr()
    assert run(["restore", str(backup), "--data-dir", str(data_dir)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert run(["restore", str(backup), "--data-dir", str(data_dir), "--force"]) == 0
    said = capsys.readouterr()
    assert f"The replaced files are in {data_dir}/replaced-1" in said.out
    assert said.err == ""
    assert run(["restore", str(backup), "--data-dir", str(data_dir), "--force", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["replaced"], answer["hasKey"], answer["authentic"]) == (f"{data_dir}/replaced-2", True, True)


async def test_a_backup_of_another_server_key_needs_trust(tmp_path: Path, capsys: Said) -> None:
    data_dir = await fill(tmp_path / "data")
    (data_dir / "server.key").write_text("ab" * 32)
    assert run(["backup", "--data-dir", str(data_dir), str(tmp_path / "b")]) == 0
    (data_dir / "server.key").write_text("cd" * 32)
    check = ["restore", "--check", str(tmp_path / "b"), "--data-dir", str(data_dir)]
    assert run(check) == 1
    assert "another server key" in capsys.readouterr().err
    assert run([*check, "--trust"]) == 0
    assert "authenticity of the backup was not checked" in capsys.readouterr().out
    assert run(["restore", str(tmp_path / "b"), "--data-dir", str(data_dir), "--force"]) == 1
    assert "--trust" in capsys.readouterr().err
    assert run(["restore", str(tmp_path / "b"), "--data-dir", str(data_dir), "--force", "--trust"]) == 0
    assert "authenticity of the backup was not checked" in capsys.readouterr().err


async def test_a_backup_can_be_only_checked(tmp_path: Path, capsys: Said) -> None:
    backup = back_up(await fill(tmp_path / "data"), tmp_path / "b")
    assert run(["restore", "--check", str(backup)]) == 0
    assert "is valid: agentvm.db" in capsys.readouterr().out
    assert run(["restore", "--check", str(backup), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest"]["format"] == 1
    backup.write_bytes(backup.read_bytes()[:-10])
    assert run(["restore", "--check", str(backup)]) == 1
    assert "is not a backup of AgentVM, or is damaged" in capsys.readouterr().err
    assert names_in(tmp_path) == ["b", "data"]


async def test_what_cannot_be_is_explained(tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = back_up(await fill(tmp_path / "data"), tmp_path / "b")
    with lock_data_dir(tmp_path / "new"):
        assert run(["restore", str(backup), "--data-dir", str(tmp_path / "new"), "--force"]) == 1
    assert "in use by another AgentVM server" in capsys.readouterr().err
    (tmp_path / "text").write_text("not a backup")
    assert run(["restore", str(tmp_path / "text"), "--data-dir", str(tmp_path / "empty")]) == 1
    assert not (tmp_path / "empty").exists()
    assert run(["restore", str(tmp_path / "none")]) == 2
    monkeypatch.setenv("AVM_DATA_DIR", ":memory:")
    assert run(["restore", str(backup)]) == 1
    assert "--data-dir" in capsys.readouterr().err
