"""Slack — the unused parts of pages of a database file, which may still contain deleted data.

Theory of operation. SQLite overwrites deleted rows (`secure_delete`), but when it moves rows from one page to another, it
leaves a copy in the part of the page that is free now; when the row is deleted later, the copy stays. No statement reaches it.
So the file is read page by page, and the free part of each page is overwritten. The file format says where that is
(https://www.sqlite.org/fileformat2.html, section 1.6), and that it is never read.

This is done by the only connection that writes, outside of a transaction, when the write-ahead log has just been folded into
the file and is empty, and the connection has forgotten the pages it knew: then the file is complete, has no other writer, and
no copy of a page comes back. Readers may read in the meantime: the changed bytes mean nothing to them. A crash leaves some of
the pages as they were.

The file is opened by SQLite's own functions: closing a file that was opened otherwise would drop the locks of the process.
"""

import struct
from collections.abc import Iterator

import apsw

from agentvm.log import get_logger
from agentvm.storage.sql.connection import Scrubbed

logger = get_logger(__name__)

BUSY_TIMEOUT_MS = 5_000
"""How long a connection waits for a lock of another one."""
PAGES_MAX = 512
"""Pages overwritten at a time, because all tenants share the writer."""
PAGES_KNOWN_MAX = 1 << 25
"""Beyond so many pages, 128 GiB, the number at the beginning of an overflow page could look like the mark of another kind."""
LOCK_MS = 10
"""How long readers of an older state are waited for."""

# Kinds of pages of trees, and how long their headers are.
_HEADERS = {2: 12, 5: 12, 10: 8, 13: 8}
_HEADER = struct.Struct(">HHH")
_FREEBLOCK = struct.Struct(">HH")
_TRUNK = struct.Struct(">II")
_NUMBER = struct.Struct(">I")
_PAGE_BYTES_MAX = 65_536
# In the header of the file.
_RESERVED_AT, _FIRST_FREE_AT = 20, 32
LOCK_OFFSET_BYTES = 0x40000000


def fold(connection: apsw.Connection) -> bool:
    """Folds the write-ahead log into the file and empties it; False while a reader still uses it."""
    connection.set_busy_timeout(LOCK_MS)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return False
    finally:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return True


def clean_pages(connection: apsw.Connection, first: int) -> Scrubbed | None:
    """Cleans some pages from that one on; None if it must be tried again, because a reader still uses an older state."""
    if not connection.filename:
        return Scrubbed(None, 0)
    if not fold(connection):
        return None
    connection.pragma("shrink_memory")
    count: int = connection.pragma("page_count")
    if count >= PAGES_KNOWN_MAX or connection.pragma("auto_vacuum"):
        logger.warning("pages_not_cleaned", pages=count)
        return Scrubbed(None, 0)
    # The first page holds the schema.
    first = max(first, 2)
    last = min(first + PAGES_MAX - 1, count)
    file = apsw.VFSFile("", connection.filename, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
    try:
        cleaned = _clean(file, connection.pragma("page_size"), first, last)
    finally:
        file.xClose()
    return Scrubbed(last + 1 if last < count else None, cleaned)


def _clean(file: apsw.VFSFile, size: int, first: int, last: int) -> int:
    """How many of the pages were overwritten in part."""
    if last < first:
        return 0
    usable = size - file.xRead(1, _RESERVED_AT)[0]
    trunks, leaves = _free_pages(file, size, first, last)
    block, start, cleaned = file.xRead((last - first + 1) * size, (first - 1) * size), (first - 1) * size, 0
    for number in range(first, last + 1):
        at = (number - first) * size
        if (number - 1) * size <= LOCK_OFFSET_BYTES < number * size:
            # Where locks are; it is never written.
            continue
        page = block[at : at + size]
        if number in leaves:
            free = [(0, size)]
        elif number in trunks:
            free = [(8 + 4 * trunks[number], usable)]
        else:
            free = list(free_parts(page, usable))
        dirty = [(begin, end) for begin, end in free if page.count(0, begin, end) != end - begin]
        for begin, end in dirty:
            file.xWrite(bytes(end - begin), start + at + begin)
        cleaned += bool(dirty)
    if cleaned:
        file.xSync(apsw.SQLITE_SYNC_NORMAL)
    return cleaned


def free_parts(page: bytes, usable: int) -> Iterator[tuple[int, int]]:
    """Where in a page of a tree nothing is: from, and up to. A page of another kind has no such parts."""
    length = _HEADERS.get(page[0])
    if length is None:
        return
    block, cells, content = _HEADER.unpack_from(page, 1)
    begin, end = length + 2 * cells, content or _PAGE_BYTES_MAX
    if not length <= begin <= end <= usable:
        # It is no page of a tree, whatever it looks like.
        return
    yield begin, end
    while end <= block <= usable - _FREEBLOCK.size:
        following, size = _FREEBLOCK.unpack_from(page, block)
        if size < _FREEBLOCK.size or block + size > usable:
            return
        yield block + _FREEBLOCK.size, block + size
        if following <= block:
            return
        block = following


def _free_pages(file: apsw.VFSFile, size: int, first: int, last: int) -> tuple[dict[int, int], set[int]]:
    """The free pages in that range: those that list others, with their number, and those that are listed."""
    trunks, leaves, seen = dict[int, int](), set[int](), set[int]()
    (number,) = _NUMBER.unpack(file.xRead(_NUMBER.size, _FIRST_FREE_AT))
    while number and number not in seen:
        seen.add(number)
        page = file.xRead(size, (number - 1) * size)
        number_here, (number, listed) = number, _TRUNK.unpack_from(page)
        if first <= number_here <= last:
            trunks[number_here] = listed
        leaves.update(leaf for (leaf,) in _NUMBER.iter_unpack(page[8 : 8 + 4 * listed]) if first <= leaf <= last)
    return trunks, leaves
