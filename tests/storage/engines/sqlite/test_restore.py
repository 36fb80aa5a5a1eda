import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.conformance.attachments import BODY, digest_of, referring, upload
from tests.conformance.records import HOME, SESSION
from tests.conformance.store import ACME
from tests.storage.engines.sqlite.backups import NOW, Files, back_up, fill, message_ids, names_in, rewritten, through_sql

from agentvm.errors import Conflict, DataDirInUse, MigrationUnknown, NotFound, StoreFailed
from agentvm.errors.archive import BackupInvalid
from agentvm.errors.attachment import AttachmentInUse
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.backup import CONFIG, SERVER_KEY, make_backup
from agentvm.storage.engines.sqlite.datadir import DATABASE, LOCK_NAME, lock_data_dir
from agentvm.storage.engines.sqlite.migrations import load_migrations, migrate
from agentvm.storage.engines.sqlite.restore import check_backup, restore_backup
from agentvm.storage.sql.attachments import read_all


async def made(tmp_path: Path, *, with_key: bool = False) -> Path:
    data_dir = await fill(tmp_path / "data")
    (data_dir / SERVER_KEY).write_text("secret")
    (data_dir / CONFIG).write_text("system: {}")
    return back_up(data_dir, tmp_path / "b", with_key=with_key)


async def test_what_was_backed_up_is_there_again(tmp_path: Path) -> None:
    restored = restore_backup(await made(tmp_path, with_key=True), tmp_path / "new")
    assert await message_ids(tmp_path / "new") == ["m0", "m1", "m2"]
    assert ((tmp_path / "new" / SERVER_KEY).read_text(), restored.has_key, restored.replaced) == ("secret", True, None)
    assert (tmp_path / "new" / CONFIG).read_text() == "system: {}"
    if os.name == "posix":
        assert (tmp_path / "new" / SERVER_KEY).stat().st_mode & 0o777 == 0o600


async def test_uploaded_files_are_there_again_with_what_refers_to_them(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path / "data")
    async with open_store(data_dir / DATABASE) as store:
        home = store.tenant(ACME).container(HOME)
        await upload(home)
        await home.log(SESSION).record(messages=[referring("m", BODY)], now=3)
    restore_backup(back_up(data_dir, tmp_path / "b"), tmp_path / "new")
    async with open_store(tmp_path / "new" / DATABASE) as store:
        files = store.tenant(ACME).container(HOME).attachments
        assert await read_all(files, digest_of(BODY)) == BODY
        with pytest.raises(AttachmentInUse):
            await files.delete(digest_of(BODY))


async def test_a_backup_without_the_key_says_so(tmp_path: Path) -> None:
    assert not restore_backup(await made(tmp_path), tmp_path / "new").has_key


async def test_a_directory_that_is_used_is_replaced_only_by_force_and_kept(tmp_path: Path) -> None:
    backup = await made(tmp_path)
    target = await fill(tmp_path / "new", messages=1)
    (target / f"{DATABASE}-wal").write_bytes(b"of the old one")
    with pytest.raises(Conflict, match=r"agentvm\.db.*--force"):
        restore_backup(backup, target)
    assert (target / f"{DATABASE}-wal").exists()
    restored = restore_backup(backup, target, force=True)
    assert await message_ids(target) == ["m0", "m1", "m2"]
    assert restored.replaced is not None
    assert (restored.replaced / f"{DATABASE}-wal").read_bytes() == b"of the old one"
    (restored.replaced / f"{DATABASE}-wal").unlink()
    assert await message_ids(restored.replaced) == ["m0"]


async def test_a_directory_that_only_holds_what_was_replaced_before_is_free(tmp_path: Path) -> None:
    (tmp_path / "new" / "replaced-1").mkdir(parents=True)
    restore_backup(await made(tmp_path), tmp_path / "new")


async def test_nothing_is_put_under_a_running_server(tmp_path: Path) -> None:
    backup = await made(tmp_path)
    with lock_data_dir(tmp_path / "new"), pytest.raises(DataDirInUse):
        restore_backup(backup, tmp_path / "new", force=True)


async def test_there_must_be_a_backup(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        restore_backup(tmp_path / "none", tmp_path / "new")


async def test_a_backup_can_be_verified_without_being_restored(tmp_path: Path) -> None:
    heard: set[str] = set()
    (tmp_path / "scratch").mkdir()
    manifest = check_backup(await made(tmp_path), tmp_path / "scratch", lambda what, done, of: heard.add(what))
    assert [part.name for part in manifest.parts] == [DATABASE]
    assert heard == {"unpacking", "checking"}


def flip(files: Files, manifest: dict[str, Any]) -> None:
    body = bytearray(files[DATABASE])
    body[len(body) // 2] ^= 1
    files[DATABASE] = bytes(body)


def cut(files: Files, manifest: dict[str, Any]) -> None:
    files[DATABASE] = files[DATABASE][:-4096]


def lengthen(files: Files, manifest: dict[str, Any]) -> None:
    files[DATABASE] += bytes(100_000_000)


def other_format(files: Files, manifest: dict[str, Any]) -> None:
    manifest["format"] = 2


def stranger(files: Files, manifest: dict[str, Any]) -> None:
    files["../evil"] = b""


def named_stranger(files: Files, manifest: dict[str, Any]) -> None:
    files["../evil"] = b""
    manifest["parts"].append({"name": "../evil", "size": 0, "sha256": ""})


def twice(files: Files, manifest: dict[str, Any]) -> None:
    manifest["parts"] *= 2


def nothing(files: Files, manifest: dict[str, Any]) -> None:
    manifest.clear()


def no_database(files: Files, manifest: dict[str, Any]) -> None:
    manifest["parts"] = []


def typo(files: Files, manifest: dict[str, Any]) -> None:
    manifest["shcema"] = 1


def huge(files: Files, manifest: dict[str, Any]) -> None:
    manifest["agentvm"] = "x" * 100_000


def other_schema(files: Files, manifest: dict[str, Any]) -> None:
    manifest["schema"] = 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (flip, "differs from its"), (cut, "differs from its"), (lengthen, "differs from its"), (other_format, "format"),
        (stranger, "files differ"), (named_stranger, "must name"), (twice, "must name"), (nothing, "no manifest"),
        (no_database, "must name"), (typo, "unknown field"), (huge, "too long"), (other_schema, "schema version"),
    ],
)  # fmt: skip
async def test_a_bad_backup_is_refused_and_nothing_changes(
    tmp_path: Path, change: Callable[[Files, dict[str, Any]], None], said: str
) -> None:
    target = await fill(tmp_path / "new", messages=1)
    with pytest.raises(BackupInvalid, match=said):
        restore_backup(rewritten(await made(tmp_path), change), target, force=True)
    assert await message_ids(target) == ["m0"]
    assert set(names_in(target)) - {LOCK_NAME} == {DATABASE}


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["PRAGMA foreign_keys = off", "DELETE FROM sessions"], "refers to one that is not there"),
        (["PRAGMA writable_schema = on", "UPDATE sqlite_schema SET rootpage = 3 WHERE name = 'turns'"], "damaged"),
    ],
)
async def test_a_database_that_does_not_hold_together_is_refused(tmp_path: Path, statements: list[str], said: str) -> None:
    bad = rewritten(await made(tmp_path), lambda files, _: through_sql(files, tmp_path / "scratch", *statements), honest=True)
    with pytest.raises(BackupInvalid, match=said):
        restore_backup(bad, tmp_path / "new")


async def test_a_backup_of_a_newer_release_is_left_to_it(tmp_path: Path) -> None:
    def newer(files: Files, manifest: dict[str, Any]) -> None:
        through_sql(files, tmp_path / "scratch", "PRAGMA user_version = 9999")
        manifest |= {"schema": 9999, "agentvm": "99.0"}

    with pytest.raises(MigrationUnknown, match=r"AgentVM 99\.0"):
        restore_backup(rewritten(await made(tmp_path), newer, honest=True), tmp_path / "new")


async def test_an_older_schema_is_restored_and_brought_up_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    connection = apsw.Connection(str(tmp_path / "old" / DATABASE))
    migrate(connection, load_migrations()[:3])
    connection.close()
    restore_backup(back_up(tmp_path / "old", tmp_path / "b"), tmp_path / "new")
    assert await message_ids(tmp_path / "new") == []


async def test_a_file_that_is_cut_off_anywhere_or_flipped_is_refused(tmp_path: Path) -> None:
    whole = (await made(tmp_path)).read_bytes()
    (tmp_path / "scratch").mkdir()
    for share in range(8):
        (tmp_path / "bad").write_bytes(whole[: len(whole) * share // 8])
        with pytest.raises(BackupInvalid):
            check_backup(tmp_path / "bad", tmp_path / "scratch")
        for left in (tmp_path / "scratch").iterdir():
            left.unlink()
    with zipfile.ZipFile(tmp_path / "b") as archive:
        at = archive.getinfo(DATABASE).header_offset + 200
    body = bytearray(whole)
    body[at] ^= 0xFF
    (tmp_path / "bad").write_bytes(body)
    with pytest.raises(BackupInvalid):
        check_backup(tmp_path / "bad", tmp_path / "scratch")


async def test_a_backup_that_claims_more_than_the_disk_has_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    def claim(files: Files, manifest: dict[str, Any]) -> None:
        manifest["parts"][0]["size"] = 1 << 60

    with pytest.raises(StoreFailed, match="make room"):
        restore_backup(rewritten(await made(tmp_path), claim), tmp_path / "new")
    assert names_in(tmp_path / "new") == [LOCK_NAME]


KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("CREATE TRIGGER evil AFTER INSERT ON api_keys BEGIN UPDATE api_keys SET permissions = '[]'; END", "trigger 'evil'"),
        ("CREATE VIEW evil AS SELECT 1", "view 'evil'"),
        ("CREATE TABLE evil (x)", "table 'evil'"),
        ("CREATE INDEX evil ON users (role)", "index 'evil'"),
        ("DROP TRIGGER ledger_stays", "'ledger_stays' is missing"),
        ("ALTER TABLE users ADD COLUMN evil TEXT", "table 'users'"),
    ],
)
async def test_a_database_with_another_schema_than_the_migrations_make_is_refused(tmp_path: Path, sql: str, said: str) -> None:
    def tamper(files: Files, manifest: dict[str, Any]) -> None:
        through_sql(files, tmp_path / "scratch", sql)

    with pytest.raises(BackupInvalid, match=said):
        restore_backup(rewritten(await made(tmp_path), tamper, honest=True), tmp_path / "new")
    assert not (tmp_path / "new" / DATABASE).exists()


async def test_statistics_of_sqlite_are_no_tampering(tmp_path: Path) -> None:
    def analyze(files: Files, manifest: dict[str, Any]) -> None:
        through_sql(files, tmp_path / "scratch", "ANALYZE")

    restore_backup(rewritten(await made(tmp_path), analyze, honest=True), tmp_path / "new")


async def test_a_backup_is_authentic_where_the_same_server_key_is(tmp_path: Path) -> None:
    backup = make_backup(await fill(tmp_path / "data"), tmp_path / "b", clock=lambda: NOW, seal_key=KEY).path
    assert restore_backup(backup, tmp_path / "same", seal_key=KEY).is_authentic
    assert not restore_backup(backup, tmp_path / "none").is_authentic
    with pytest.raises(BackupInvalid, match="another server key"):
        restore_backup(backup, tmp_path / "other", seal_key=OTHER)
    with pytest.raises(BackupInvalid, match="--trust"):
        check_backup(backup, tmp_path, seal_key=OTHER)
    assert not restore_backup(backup, tmp_path / "other", seal_key=OTHER, trust=True).is_authentic


async def test_a_backup_that_was_changed_or_never_sealed_is_not_authentic(tmp_path: Path) -> None:
    def promote(files: Files, manifest: dict[str, Any]) -> None:
        through_sql(files, tmp_path / "scratch", "UPDATE containers SET updated_at = 99")

    sealed = make_backup(await fill(tmp_path / "data"), tmp_path / "b", clock=lambda: NOW, seal_key=KEY).path
    with pytest.raises(BackupInvalid, match="changed since"):
        restore_backup(rewritten(sealed, promote, honest=True), tmp_path / "new", seal_key=KEY)
    plain = make_backup(tmp_path / "data", tmp_path / "plain", clock=lambda: NOW).path
    with pytest.raises(BackupInvalid, match="without a server key"):
        restore_backup(plain, tmp_path / "new", seal_key=KEY)
