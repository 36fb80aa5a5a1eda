"""Backups — a data directory with something in it, and backups that somebody has tampered with."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import apsw
from tests.conformance.records import HOME, SESSION, default_session, image, message
from tests.conformance.store import ACME

from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.backup import MANIFEST, make_backup
from agentvm.storage.engines.sqlite.datadir import DATABASE

NOW = 1_763_000_000_000


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def fill(data_dir: Path, messages: int = 3) -> Path:
    await anyio.Path(data_dir).mkdir(exist_ok=True)
    async with open_store(data_dir / DATABASE) as store:
        home = store.tenant(ACME).container(HOME)
        await home.create(1)
        await home.add_image(image(), default_session(image()))
        await home.log(SESSION).record(messages=[message(f"m{number}") for number in range(messages)], now=2)
    return data_dir


async def message_ids(data_dir: Path) -> list[str]:
    async with open_store(data_dir / DATABASE) as store:
        return [one.id for one in await store.tenant(ACME).container(HOME).list_messages(SESSION)]


def back_up(data_dir: Path, target: Path, *, with_key: bool = False) -> Path:
    return make_backup(data_dir, target, clock=lambda: NOW, with_key=with_key).path


Files = dict[str, bytes]


def rewritten(backup: Path, change: Callable[[Files, dict[str, Any]], None], *, honest: bool = False) -> Path:
    """The backup with other files or another manifest; an honest one has the digests of what it holds."""
    with zipfile.ZipFile(backup) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files.pop(MANIFEST))
    change(files, manifest)
    if honest:
        for part in manifest["parts"]:
            body = files[part["name"]]
            part |= {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    target = backup.with_suffix(".changed")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
        if manifest:
            archive.writestr(MANIFEST, json.dumps(manifest))
    return target


def through_sql(files: Files, scratch: Path, *statements: str) -> None:
    """What a hand in the database does to it."""
    scratch.write_bytes(files[DATABASE])
    connection = apsw.Connection(str(scratch))
    for statement in statements:
        connection.execute(statement)
    connection.close()
    files[DATABASE] = scratch.read_bytes()
