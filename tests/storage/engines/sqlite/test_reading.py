"""A data directory that is looked into stays as it is, whatever state it is in."""

import shutil
from pathlib import Path

import apsw
import pytest
from tests.conformance.store import ACME
from tests.storage.engines.sqlite.backups import fill

from agentvm.errors import NotFound, StoreFailed
from agentvm.model.ids import ContainerId
from agentvm.storage.engines.sqlite.reading import ReadStore, read_data_dir

LATE = f"INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES ('{ACME}', 'late', 5, 5)"


async def containers(store: ReadStore) -> tuple[ContainerId, ...]:
    return await store.tenant(ACME).list_containers()


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def test_a_directory_at_rest_is_read_and_nothing_appears_beside_it(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path)
    before = listing(data_dir)
    assert await read_data_dir(data_dir, containers)
    assert listing(data_dir) == before


async def test_what_a_writer_has_only_in_its_log_is_read_too(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path)
    writer = apsw.Connection(str(data_dir / "agentvm.db"))
    writer.pragma("wal_autocheckpoint", 0)
    writer.execute(LATE)
    found = await read_data_dir(data_dir, containers)
    writer.close()
    assert "late" in found


async def test_who_begins_to_write_meanwhile_makes_it_be_read_again(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path)
    looks, writers = [], list[apsw.Connection]()

    async def look(store: ReadStore) -> tuple[ContainerId, ...]:
        found = await containers(store)
        looks.append(found)
        if not writers:
            writers.append(apsw.Connection(str(data_dir / "agentvm.db")))
            writers[0].execute(LATE)
        return found

    assert "late" in await read_data_dir(data_dir, look)
    assert len(looks) == 2
    writers[0].close()


async def test_a_log_without_its_index_is_refused_with_a_remedy(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path / "one")
    writer = apsw.Connection(str(data_dir / "agentvm.db"))
    writer.execute(LATE)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("agentvm.db", "agentvm.db-wal"):
        shutil.copy(data_dir / name, copy)
    writer.close()
    with pytest.raises(StoreFailed, match="start the server on it once"):
        await read_data_dir(copy, containers)
    assert not (copy / "agentvm.db-shm").exists()


async def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no database"):
        await read_data_dir(tmp_path, containers)
    (tmp_path / "agentvm.db").write_bytes(b"not a database, by any means" * 100)
    with pytest.raises(StoreFailed, match="Cannot read the database"):
        await read_data_dir(tmp_path, containers)


async def test_nothing_can_be_written_through_it(tmp_path: Path) -> None:
    data_dir = await fill(tmp_path)

    async def look(store: ReadStore) -> None:
        await store.tenant(ACME).container(ContainerId("new")).create(1)

    with pytest.raises(StoreFailed):
        await read_data_dir(data_dir, look)
