"""Commits — how long the longest commit of each large change holds the one writer.

    python -m bench.commits [--messages 20000] [--directory DIR]

Each deletion runs on a store of its own with so many messages. Rows are those that the largest commit changes, with the rows of
the search index. Goal: no commit of more than 50 ms.
"""

import argparse
import io
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import apsw
from tests.conformance.records import HOME, IMAGE, SESSION, image
from tests.conformance.store import settle

from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, RewindId
from agentvm.model.message import UserMessage
from agentvm.storage.attachments import Upload
from agentvm.storage.base import LogChunk, Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store
from bench.measure import table

AT_ONCE = 200
WORDS = "what was said here is of some length, so that it has words to be found by "
FILE_BYTES = 64 * 1024 * 1024


class Commits:
    """How long each transaction that writes took, in ms of CPU and of time, and how many rows it changed."""

    def __init__(self) -> None:
        self.took: list[tuple[float, int]] = []

    def watch(self, connection: apsw.Connection) -> None:
        began, rows = 0.0, 0

        def trace(cursor: apsw.Cursor, statement: str, _: object) -> bool:
            nonlocal began, rows
            if statement.startswith("BEGIN"):
                began, rows = time.perf_counter(), connection.total_changes()
            return True

        def commit() -> bool:
            self.took.append(((time.perf_counter() - began) * 1000, connection.total_changes() - rows))
            return False

        connection.exec_trace = trace
        connection.set_commit_hook(commit)


async def fill(store: Store, messages: int) -> None:
    await settle(store, image(), tenant=DEFAULT_TENANT)
    for first in range(0, messages, AT_ONCE):
        said = [
            UserMessage(id=MessageId(f"m{number}"), timestamp=1, role="user", content=f"{WORDS * 3}{number}")
            for number in range(first, first + AT_ONCE)
        ]
        number = first // AT_ONCE + 1
        chunk = LogChunk(first_seq=number, last_seq=number, made_at=number, body=b"x" * 2_000)
        write = SessionWrite(tenant_id=DEFAULT_TENANT, container_id=HOME, session_id=SESSION, now=1, messages=said, chunk=chunk)
        await store.commit([write], entry=b"x" * 500)
    while await store.tend_search():
        pass


async def delete_image(store: Store) -> None:
    assert await store.tenant(DEFAULT_TENANT).container(HOME).delete_image(IMAGE)


async def rewind(store: Store) -> None:
    ids = [message.id for message in await store.tenant(DEFAULT_TENANT).container(HOME).list_messages(SESSION)]
    taken = Rewinding(RewindId("r"), ids[1:], 2)
    await store.commit(
        [SessionWrite(tenant_id=DEFAULT_TENANT, container_id=HOME, session_id=SESSION, now=2, rewind=taken)], entry=b"x"
    )
    while await store.tend_search():
        pass


async def purge(store: Store) -> None:
    await store.tenant(DEFAULT_TENANT).sessions((HOME,)).delete(SESSION, 8)
    assert await store.purge_sessions(8)


async def trim(store: Store) -> None:
    assert await store.trim_log(10**9, 10**9)


async def forget(store: Store) -> None:
    await store.commit([], forget=2**40)
    while await store.tend_search():
        pass


async def erase(store: Store) -> None:
    await store.erasing.delete_container(DEFAULT_TENANT, ContainerId(HOME), now=9)
    for erasure in await store.erasing.pending():
        while (await store.erasing.advance(erasure)).more:
            pass


async def delete_file(store: Store) -> None:
    files = store.tenant(DEFAULT_TENANT).container(HOME).attachments
    added, _ = await files.add(io.BytesIO(bytes(range(256)) * (FILE_BYTES // 256)), Upload(media_type="application/pdf"), 1)
    assert await files.delete(added.digest)


Deletion = Callable[[Store], Awaitable[None]]
DELETIONS: dict[str, Deletion] = {
    "delete an image": delete_image,
    "rewind": rewind,
    "purge a deleted session": purge,
    "erase a container": erase,
    "trim the log": trim,
    "forget the journal": forget,
    "upload and delete a file of 64 MiB": delete_file,
}


async def measure(name: str, messages: int, directory: str | None) -> list[str]:
    commits = Commits()
    apsw.connection_hooks.append(commits.watch)
    try:
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            async with open_store(Path(folder) / "agentvm.db") as store:
                await fill(store, messages)
                commits.took.clear()
                await DELETIONS[name](store)
    finally:
        apsw.connection_hooks.remove(commits.watch)
    longest = max(took for took, _ in commits.took)
    return [name, f"{longest:.0f}", str(max(rows for _, rows in commits.took)), str(len(commits.took))]


async def main(messages: int, directory: str | None) -> None:
    rows = [[f"with {messages:,} messages", "longest commit ms", "most rows", "commits"]]
    rows += [await measure(name, messages, directory) for name in DELETIONS]
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--directory")
    options = parser.parse_args()
    anyio.run(main, options.messages, options.directory)
