"""Histories — stores with something said in them, their archives, and archives that somebody has tampered with."""

import io
import json
import zipfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import msgspec
from tests.conformance.records import EVERY_KIND, default_session, image, session, turn

from agentvm.model.definition import Definition
from agentvm.model.ids import ContainerId, NewId, TenantId
from agentvm.model.image import Image
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.model.usage import Usage
from agentvm.sessions.archive import BLOB_MAX_BYTES, MANIFEST
from agentvm.sessions.export import ExportSource, Selection, export_archive
from agentvm.sessions.import_reader import Kind, Orders, Reading, read
from agentvm.sessions.intake import ImportReport, plan, report, stage, write
from agentvm.storage.carry import Carried, SessionContent
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

TENANT = TenantId("acme")
ENDED = turn("turn_1", outcome="completed", usage=Usage(input_tokens=1, output_tokens=2), ended=9)


def ids() -> NewId:
    numbers = count(1)
    return lambda prefix: f"{prefix}_new_{next(numbers)}"


def source(store: Store) -> ExportSource:
    return ExportSource(store.tenant(TENANT), store.carrier(TENANT))


async def put(store: Store, *records: Carried) -> None:
    await store.carrier(TENANT).add(lambda: iter(records), 5)


def history(
    messages: Sequence[Message] = EVERY_KIND, turns: Sequence[Turn] = (ENDED,)
) -> tuple[Image, Session, SessionContent]:
    prompted = image(definition=Definition(name="helper", system_prompt="你好"), now=3)
    return prompted, default_session(prompted), SessionContent(tuple(messages), tuple(turns))


async def fill(store: Store) -> None:
    """An image with two sessions, and one in another container."""
    one, first, said = history()
    pinned = msgspec.structs.replace(session("other", now=4), title="第二", pinned_at=7, updated_at=8)
    away = image("img_2", "away", now=1)
    await put(store, one, first, said, pinned, SessionContent((EVERY_KIND[0],)), away, default_session(away))


async def archive(store: Store, *wanted: Selection) -> bytes:
    scope = wanted or tuple(Selection(one) for one in await store.tenant(TENANT).list_containers())
    return b"".join([chunk async for chunk in export_archive(source(store), scope)])


@asynccontextmanager
async def filled() -> AsyncIterator[Store]:
    async with open_store(None) as store:
        await fill(store)
        yield store


async def take_in(
    store: Store,
    body: bytes,
    kind: Kind = "auto",
    container: ContainerId | None = None,
    new_id: NewId | None = None,
    most_attached: int = BLOB_MAX_BYTES,
) -> ImportReport:
    carrier = store.carrier(TENANT)
    with TemporaryFile() as spool:
        orders = Orders(kind=kind, container_id=container, most_attached=most_attached)
        staged, reading = await stage(io.BytesIO(body), spool, orders, read_here)
        placement = await plan(staged, carrier, container_id=container, new_id=new_id or ids())
        await write(staged, placement, carrier, lambda: 5)
        return report(staged, placement, reading, dry_run=False)


async def read_here(source: BinaryIO, spool: BinaryIO, orders: Orders) -> Reading:
    """What the process that reads imports does, without the process."""
    return read(source, spool, orders)


async def count_rows(store: Store) -> int:
    found = await store.tenant(TENANT).list_containers()
    return sum([len(await store.tenant(TENANT).container(one).list_images()) for one in found])


Files = dict[str, bytes]
Change = Callable[[Files, dict[str, Any]], None]


def unpacked(body: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(body)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def packed(files: Files, manifest: dict[str, Any] | None, *, honest: bool = True, level: int = 6) -> bytes:
    """An honest one has the sizes and digests of what it holds."""
    out = io.BytesIO()
    if honest and manifest is not None:
        manifest["files"] = [
            {"name": name, "size": len(body), "sha256": sha256(body).hexdigest()} for name, body in files.items()
        ]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as writing:
        for name, body in files.items():
            writing.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
        if manifest is not None:
            writing.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(manifest))
    return out.getvalue()


def changed(body: bytes, change: Change, *, honest: bool = True) -> bytes:
    files = unpacked(body)
    manifest = json.loads(files.pop(MANIFEST))
    change(files, manifest)
    return packed(files, manifest, honest=honest)


def edit(files: Files, name: str, number: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the record in one line, counted from 1."""
    lines = files[name].splitlines(keepends=True)
    record = json.loads(lines[number - 1])
    change(record)
    lines[number - 1] = json.dumps(record, ensure_ascii=False).encode() + b"\n"
    files[name] = b"".join(lines)
