"""F25: imports that are small to send and huge to read. They are refused, or written, while the server does its other work.

Counted, not timed: `/health` answers again and again while an import is read, and the server's memory stays bounded. The
process that reads an import has a limit of its own. `AVM_FAULT_IMPORT_BYTES` says how large a bomb is unpacked: 20,000,000, or
255,000,000 for a night.
"""

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.abc
import httpx2
from tests.faults.process import Server, open_server, peak_rss
from tests.sessions.histories import archive, changed, filled

BYTES = int(os.environ.get("AVM_FAULT_IMPORT_BYTES", "20000000"))
WAIT = max(200.0, BYTES / 1_000_000)
ASK_SECONDS = 0.02
MOST_MEMORY = 400 * 1024 * 1024
"""Bytes that the server may have in all, while and after it imports."""


def zipped(blocks: Iterator[bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed, packed.open("conversations.json", "w") as member:
        for block in blocks:
            member.write(block)
    return out.getvalue()


def repeated(first: bytes, item: bytes, last: bytes, size: int = BYTES) -> bytes:
    block = item * (1_000_000 // len(item))

    def blocks() -> Iterator[bytes]:
        yield first
        for _ in range(size // len(block)):
            yield block
        yield last

    return zipped(blocks())


BOMBS: dict[str, Callable[[], bytes]] = {
    "a list of lists": lambda: repeated(b"[", b"[],", b"[]]"),
    "a list of empty conversations": lambda: repeated(b"[", b"{},", b"{}]"),
    "one conversation of lists": lambda: repeated(b'[{"mapping":{"a":[', b"[],", b"[]]}}]"),
    "one conversation of numbers": lambda: repeated(b'[{"mapping":{"a":[', b"1,", b"1]}}]"),
    "one conversation nested without end": lambda: repeated(b'[{"mapping":', b'{"a":', b"1"),
    "one text that is cut off": lambda: repeated(b'[{"mapping":{"a":"', b"xxxx", b""),
    "nothing but space": lambda: repeated(b"", b"    ", b"7"),
}


class Health:
    """Somebody who asks how the server is, again and again."""

    def __init__(self) -> None:
        self.answers = 0

    async def watch(self, client: httpx2.AsyncClient) -> None:
        while True:
            assert (await client.get("/health")).status_code == 200
            self.answers += 1
            # Asking without a pause would be most of the work that the server has.
            await anyio.sleep(ASK_SECONDS)


async def attack(server: Server, body: bytes, query: str) -> tuple[httpx2.Response, Health]:
    """The answer, and how the server was meanwhile."""
    url = f"http://127.0.0.1:{server.port}"
    health = Health()
    async with httpx2.AsyncClient(base_url=url, timeout=WAIT) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(health.watch, client)
        answer = await client.post(f"/v1/import?{query}", content=body)
        tasks.cancel_scope.cancel()
    return answer, health


async def test_f25_a_bomb_of_another_program_is_refused_and_the_server_answers_meanwhile(tmp_path: Path) -> None:
    answers = 0
    with anyio.fail_after(WAIT):
        async with open_server(tmp_path) as server:
            for name, bomb in BOMBS.items():
                body = bomb()
                assert len(body) < BYTES / 50
                answer, health = await attack(server, body, "from=chatgpt&container=c1")
                assert answer.status_code == 422, (name, answer.text)
                assert answer.json()["error"]["code"] in ("archive_invalid", "archive_too_large")
                answers += health.answers
                assert peak_rss(server.pid) < MOST_MEMORY, name
    # Some are refused at once.
    assert answers > 3 * len(BOMBS)


async def crafted(messages: int, size: int) -> bytes:
    """A valid archive in which so many messages of so many bytes were said."""
    text = "x" * size

    def more(files: dict[str, bytes], manifest: dict[str, dict[str, int]]) -> None:
        name = "sessions/000002.jsonl"
        lines = []
        for number in range(messages):
            said = {"subtype": "user", "id": f"big{number}", "timestamp": 1, "role": "user", "content": text}
            lines.append(json.dumps({"type": "message", "message": said}).encode() + b"\n")
        files[name] += b"".join(lines)
        manifest["counts"]["messages"] += messages

    async with filled() as store:
        return changed(await archive(store), more)


async def test_f25_messages_that_are_too_large_are_refused_and_large_ones_are_written_a_few_at_a_time(tmp_path: Path) -> None:
    with anyio.fail_after(WAIT):
        async with open_server(tmp_path) as server:
            answer, health = await attack(server, await crafted(1, 58_000_000), "")
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "archive_too_large")
            assert peak_rss(server.pid) < MOST_MEMORY
            answers, large = health.answers, BYTES // 12
            answer, health = await attack(server, await crafted(12, min(large, 8_000_000)), "")
            assert answer.status_code == 200, answer.text
            assert answer.json()["counts"]["messages"] == 19
            assert answers + health.answers > 3
            assert peak_rss(server.pid) < MOST_MEMORY


async def test_f25_many_imports_of_one_tenant_keep_nobody_from_other_work(tmp_path: Path) -> None:
    body = repeated(b'[{"mapping":{},"x":"', b"xxxx", b'"}]', 4_000_000)
    with anyio.fail_after(WAIT):
        async with open_server(tmp_path) as server:
            url, codes = f"http://127.0.0.1:{server.port}", list[int]()
            async with httpx2.AsyncClient(base_url=url, timeout=WAIT) as client:

                async def import_() -> None:
                    codes.append((await client.post("/v1/import?container=c1", content=body)).status_code)

                await import_()
                async with anyio.create_task_group() as tasks:
                    for _ in range(40):
                        tasks.start_soon(import_)
                    # An upload needs a thread; it gets one though forty imports have come.
                    kind = {"Content-Type": "text/plain"}
                    assert (await client.post("/v1/attachments?container=c1", content=b"x", headers=kind)).status_code == 201
                # One after the other, and a few that wait: the rest is told to come again.
                assert set(codes) == {200, 503}
