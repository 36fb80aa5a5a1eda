import os
import zipfile
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.conformance.records import HOME, SESSION, message
from tests.conformance.store import ACME
from tests.storage.engines.sqlite.backups import NOW, back_up, fill, names_in

from agentvm.errors import Conflict, NotFound, StoreFailed
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.backup import (
    CONFIG,
    MANIFEST,
    PAGES,
    SERVER_KEY,
    BackupManifest,
    copy_database,
    make_backup,
)
from agentvm.storage.engines.sqlite.datadir import DATABASE, lock_data_dir
from agentvm.storage.engines.sqlite.migrations import load_migrations
from agentvm.tenants import server_key
from agentvm.version import VERSION


def count(database: Path) -> int:
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(next(iter(connection.execute("SELECT count(*) FROM messages")))[0])
    finally:
        connection.close()


async def test_a_backup_is_one_file_that_says_what_is_in_it(tmp_path: Path) -> None:
    made = make_backup(await fill(tmp_path / "data"), tmp_path / "b", clock=lambda: NOW)
    assert made.size == (tmp_path / "b").stat().st_size
    with zipfile.ZipFile(made.path) as archive:
        assert archive.namelist() == [DATABASE, MANIFEST]
        assert msgspec.json.decode(archive.read(MANIFEST), type=BackupManifest) == made.manifest
        assert made.manifest.parts[0].size == archive.getinfo(DATABASE).file_size
    assert (made.manifest.agentvm, made.manifest.schema, made.manifest.at) == (VERSION, len(load_migrations()), NOW)
    assert names_in(tmp_path) == ["b", "data"]


@pytest.mark.skipif(os.name != "posix", reason="files have no modes here")
async def test_nobody_else_may_read_a_backup(tmp_path: Path) -> None:
    assert back_up(await fill(tmp_path / "data"), tmp_path / "b").stat().st_mode & 0o777 == 0o600


async def test_the_key_and_the_configuration_come_along_only_if_asked_for(tmp_path: Path) -> None:
    assert server_key.FILE_NAME == SERVER_KEY
    data_dir = await fill(tmp_path / "data")
    for name in (SERVER_KEY, CONFIG):
        (data_dir / name).write_text(name)
    for with_key, names in ((False, [DATABASE]), (True, [DATABASE, SERVER_KEY, CONFIG])):
        path = back_up(data_dir, tmp_path / f"b{with_key}", with_key=with_key)
        with zipfile.ZipFile(path) as archive:
            assert archive.namelist() == [*names, MANIFEST]


async def test_a_running_server_is_backed_up_with_all_it_has_acknowledged(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path / "data")
    with lock_data_dir(data_dir):
        async with open_store(data_dir / DATABASE) as store:
            log = store.tenant(ACME).container(HOME).log(SESSION)
            await log.record(messages=[message("late")], now=3)
            copy_database(data_dir / DATABASE, tmp_path / "copy", lambda: NOW)
            await log.record(messages=[message("later")], now=4)
    assert (count(tmp_path / "copy"), count(data_dir / DATABASE)) == (4, 5)


async def test_what_is_written_during_the_copy_is_not_in_it_and_does_not_wait_for_it(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path / "data")
    async with open_store(data_dir / DATABASE) as store:
        log = store.tenant(ACME).container(HOME).log(SESSION)
        for number in range(40):
            await log.record(messages=[message(f"big{number}", "x" * 400_000)], now=3)
    other = apsw.Connection(str(data_dir / DATABASE))
    heard: list[tuple[int, int]] = []

    def write_meanwhile(what: str, done: int, of: int) -> None:
        assert what == "copying"
        heard.append((done, of))
        other.execute(
            "INSERT INTO all_messages (session_key, message_id, body) VALUES (1, ?, zeroblob(100000))", (f"x{len(heard)}",)
        )

    before = count(data_dir / DATABASE)
    copy_database(data_dir / DATABASE, tmp_path / "copy", lambda: NOW, write_meanwhile)
    other.close()
    assert heard[0] == (PAGES, heard[0][1])
    assert heard[-1][0] == heard[-1][1] > PAGES
    assert (count(tmp_path / "copy"), count(data_dir / DATABASE)) == (before, before + len(heard))


async def test_a_copy_needs_no_file_beside_it(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path / "data")
    copy_database(data_dir / DATABASE, tmp_path / "copy", lambda: NOW)
    assert names_in(tmp_path) == ["copy", "data"]
    # Journal mode `delete`, written and read.
    assert (tmp_path / "copy").read_bytes()[18:20] == b"\x01\x01"


async def test_what_a_killed_server_left_in_its_write_ahead_log_is_in_the_backup(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path / "data")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    async with open_store(data_dir / DATABASE) as store:
        await store.tenant(ACME).container(HOME).log(SESSION).record(messages=[message("late")], now=3)
        for ending in ("", "-wal"):
            (crashed / f"{DATABASE}{ending}").write_bytes((data_dir / f"{DATABASE}{ending}").read_bytes())
    copy_database(crashed / DATABASE, tmp_path / "copy", lambda: NOW)
    assert count(tmp_path / "copy") == 4


async def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path / "data")
    (tmp_path / "b").write_text("precious")
    with pytest.raises(Conflict, match="--force"):
        back_up(data_dir, tmp_path / "b")
    assert (tmp_path / "b").read_text() == "precious"
    make_backup(data_dir, tmp_path / "b", clock=lambda: NOW, force=True)
    assert zipfile.is_zipfile(tmp_path / "b")


async def test_a_file_that_comes_to_be_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path / "data")

    def somebody_else(what: str, done: int, of: int) -> None:
        (tmp_path / "b").write_text("theirs")

    with pytest.raises(Conflict):
        make_backup(data_dir, tmp_path / "b", clock=lambda: NOW, progress=somebody_else)
    assert (tmp_path / "b").read_text() == "theirs"
    assert names_in(tmp_path) == ["b", "data"]


async def test_a_directory_without_a_database_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="--data-dir"):
        back_up(tmp_path, tmp_path / "b")


async def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / DATABASE).write_bytes(b"no database" * 1000)
    with pytest.raises(StoreFailed, match="Nothing was left"):
        back_up(data_dir, tmp_path / "b")
    with pytest.raises(StoreFailed):
        back_up(await fill(tmp_path / "other"), tmp_path / "nowhere" / "b")
    assert names_in(tmp_path) == ["data", "other"]
