import os
import stat
from pathlib import Path

import anyio
import pytest

from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.private import is_open_to_others, make_private, restrict_to_owner

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_its_owners_alone_whether_it_was_there_or_not(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("kept")
    old.chmod(0o664)
    for path in (new, old):
        make_private(path)
        assert mode(path) == 0o600
    assert old.read_text() == "kept"
    restrict_to_owner(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_where_nothing_can_be_made_the_next_one_says_so(tmp_path: Path) -> None:
    make_private(tmp_path / "absent" / "file")


def test_a_directory_is_open_when_others_may_enter_or_list_it(tmp_path: Path) -> None:
    for bits, is_open in ((0o700, False), (0o755, True), (0o710, True), (0o704, True)):
        tmp_path.chmod(bits)
        assert is_open_to_others(tmp_path) == is_open
    tmp_path.chmod(0o700)


def prepare(directory: Path) -> None:
    directory.chmod(0o755)
    for name in ("old.db", "old.db-wal"):
        (directory / name).touch(mode=0o644)


def modes(directory: Path, name: str) -> dict[str, int]:
    return {path.name: mode(path) for path in directory.iterdir() if path.name.startswith(name)}


async def test_a_database_and_what_is_beside_it_are_private_in_an_open_directory(tmp_path: Path) -> None:
    prepare(tmp_path)
    with anyio.fail_after(60):
        for name in ("new.db", "old.db"):
            async with open_store(tmp_path / name) as store:
                await store.directory.has_keys()
                found = modes(tmp_path, name)
                assert set(found) >= {name, f"{name}-wal", f"{name}-shm"}
                assert set(found.values()) == {0o600}
