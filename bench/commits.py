"""Commits — how long the longest commit of each large change holds the one writer.

    python -m bench.commits [--messages 20000] [--only TEXT] [--directory DIR]

Each change runs on a store of its own with so many messages. Rows are those that the largest commit changes, with the rows of
the search index. Goal: no commit of more than 50 ms.
"""

import argparse
import io
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import apsw
from msgspec import structs
from tests.conformance.accounts import key, user
from tests.conformance.attachments import digest_of, referring
from tests.conformance.records import HOME, IMAGE, SESSION, default_session, image
from tests.conformance.store import settle

from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, RewindId, SessionId, UserId
from agentvm.model.message import UserMessage
from agentvm.storage.attachments import Upload
from agentvm.storage.base import LogChunk, Rewinding, SessionWrite
from agentvm.storage.carry import Attached, Carried, Continued, Present, SessionContent
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store
from bench.measure import table

AT_ONCE = 200
WORDS = "what was said here is of some length, so that it has words to be found by "
FILE_BYTES = 64 * 1024 * 1024
USER_KEYS_MAX = 5_000


class Commits:
    """How long each transaction that writes took, in ms of CPU and of time, and how many rows it changed."""

    def __init__(self) -> None:
        self.took: list[tuple[float, float, int]] = []

    def watch(self, connection: apsw.Connection) -> None:
        began, cpu, rows = 0.0, 0.0, 0

        def trace(cursor: apsw.Cursor, statement: str, _: object) -> bool:
            nonlocal began, cpu, rows
            if statement.startswith("BEGIN"):
                began, cpu, rows = time.perf_counter(), time.thread_time(), connection.total_changes()
            return True

        def commit() -> bool:
            took = (time.thread_time() - cpu, time.perf_counter() - began)
            self.took.append((took[0] * 1000, took[1] * 1000, connection.total_changes() - rows))
            return False

        connection.exec_trace = trace
        connection.set_commit_hook(commit)


def said(name: str) -> UserMessage:
    return UserMessage(id=MessageId(name), timestamp=1, role="user", content=f"{WORDS * 3}{name}")


async def fill(store: Store, messages: int) -> None:
    await settle(store, image(), tenant=DEFAULT_TENANT)
    for first in range(0, messages, AT_ONCE):
        some = [said(f"m{number}") for number in range(first, first + AT_ONCE)]
        number = first // AT_ONCE + 1
        chunk = LogChunk(first_seq=number, last_seq=number, made_at=number, body=b"x" * 2_000)
        write = SessionWrite(tenant_id=DEFAULT_TENANT, container_id=HOME, session_id=SESSION, now=1, messages=some, chunk=chunk)
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


def archive(messages: int) -> Iterator[Carried]:
    """One session that goes on with half of the messages; ten sessions to an image with the others, ten and a file in each."""
    yield Present(image())
    last = MessageId(f"m{messages - 1}")
    yield Continued(default_session(image()), last)
    half = messages // 2
    for first in range(0, half, AT_ONCE):
        yield SessionContent(tuple(said(f"i{number}") for number in range(first, first + AT_ONCE)))
    for number in range(half // 10):
        if number % 10 == 0:
            owner = image(f"new_{number}")
            yield owner
        yield structs.replace(default_session(owner), session_id=SessionId(f"new_{number}-default"))
        body = f"file {number}".encode()
        yield Attached(digest_of(body), len(body), Upload(media_type="text/plain"), body)
        yield SessionContent((referring("m0", body), *(said(f"m{each}") for each in range(1, 10))))


async def bring_in(store: Store) -> None:
    listed = await store.tenant(DEFAULT_TENANT).container(HOME).list_messages(SESSION)
    await store.carrier(DEFAULT_TENANT).add(lambda: archive(len(listed)), 7)


async def break_off(store: Store) -> None:
    listed = await store.tenant(DEFAULT_TENANT).container(HOME).list_messages(SESSION)

    def load() -> Iterator[Carried]:
        yield from archive(len(listed))
        raise StoreFailed("cut off")

    with suppress(StoreFailed):
        await store.carrier(DEFAULT_TENANT).add(load, 7)


async def delete_user(store: Store) -> None:
    accounts = store.accounts(DEFAULT_TENANT)
    await accounts.users.add(user("alice"))
    for number in range(USER_KEYS_MAX):
        await accounts.keys.add(key(f"k{number}", user_id=UserId("alice")), b"digest")
    assert await accounts.users.delete(UserId("alice"), 9)


Change = Callable[[Store], Awaitable[None]]
CHANGES: dict[str, Change] = {
    "delete an image": delete_image,
    "rewind": rewind,
    "purge a deleted session": purge,
    "erase a container": erase,
    "trim the log": trim,
    "forget the journal": forget,
    "upload and delete a file of 64 MiB": delete_file,
    "import as many again": bring_in,
    "import that breaks off": break_off,
    "delete a user with 5,000 keys": delete_user,
}


async def measure(name: str, messages: int, directory: str | None) -> list[str]:
    commits = Commits()
    apsw.connection_hooks.append(commits.watch)
    try:
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            async with open_store(Path(folder) / "agentvm.db") as store:
                await fill(store, messages)
                commits.took.clear()
                await CHANGES[name](store)
    finally:
        apsw.connection_hooks.remove(commits.watch)
    cpu, wall, most = (max(column) for column in zip(*commits.took, strict=True))
    return [name, f"{cpu:.0f}", f"{wall:.0f}", str(most), str(len(commits.took))]


async def main(messages: int, directory: str | None, only: str) -> None:
    rows = [[f"with {messages:,} messages", "longest commit: CPU ms", "elapsed ms", "most rows", "commits"]]
    rows += [await measure(name, messages, directory) for name in CHANGES if only in name]
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--directory")
    parser.add_argument("--only", default="", help="changes whose name contains this text")
    options = parser.parse_args()
    anyio.run(main, options.messages, options.directory, options.only)
