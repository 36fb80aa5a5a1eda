"""Files of sessions with forks and rewinds, as people use them."""

import io
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.records import HOME, image
from tests.conformance.session_files import change, contents, rewind
from tests.conformance.store import settle
from tests.operations.fixtures import open_desk
from tests.sessions.histories import TENANT, archive, changed, count_rows, edit, take_in
from tests.support.examples import examples

from agentvm.errors.archive import ArchiveInvalid
from agentvm.model.ids import SessionId
from agentvm.sessions.session_files import SessionFileLibrary
from agentvm.storage.engine import open_store


async def test_an_upload_goes_with_the_message_before_it_and_a_fork_keeps_it() -> None:
    async with open_desk() as desk:
        await desk.ask("container_create", containerId="c1")
        image = await desk.create_image(name="Chat")
        session_id = SessionId(image["sessionId"])
        library = SessionFileLibrary(desk.peer.workspace)

        async def files(of: SessionId) -> dict[str, bytes]:
            listed = await library.list(of, "", "", 100)
            return {file.path: b"".join([chunk async for chunk in await library.read(of, file)]) for file in listed}

        await library.put(session_id, "first", io.BytesIO(b"1"), executable=False)
        sent = await desk.ask("message_send", imageId=image["imageId"], content="hello")
        await desk.hear("turn_response")
        await library.put(session_id, "second", io.BytesIO(b"2"), executable=True)
        told = [event["data"] for event in await desk.hear("file_written", times=2) if event["type"] == "file_written"]
        assert [(data["path"], data["size"]) for data in told] == [("first", 1), ("second", 1)]
        fork = (await desk.ask("session_fork", sessionId=session_id))["session"]["sessionId"]
        await desk.ask("session_rewind", sessionId=session_id, before=sent["messageId"])
        assert await files(session_id) == {"first": b"1"}
        assert await files(SessionId(fork)) == {"first": b"1", "second": b"2"}


PATHS = ("a", "dir/b", "$(x) c")
bodies = st.none() | st.sampled_from([b"", b"1", b"\x00\xff", bytes(300_000)])
changes = st.dictionaries(st.sampled_from(PATHS), bodies, max_size=3)


@settings(max_examples=examples(12, 40), deadline=None)
@given(st.lists(changes, min_size=1, max_size=4))
def test_an_archive_has_the_files_and_they_can_be_rewound_there(said: list[dict[str, bytes | None]]) -> None:
    async def run() -> None:
        async with open_store(None) as here, open_store(None) as there:
            home = await settle(here, image(), tenant=TENANT)
            for number, files in enumerate(said):
                await change(here, files, f"m{number}", tenant=TENANT, now=number)
            body = await archive(here)
            assert await archive(here) == body
            await take_in(there, body)
            other = there.tenant(TENANT).container(HOME)
            assert await contents(other) == await contents(home)
            assert await archive(there) == body
            for number in reversed(range(len(said))):
                for store in (here, there):
                    await rewind(store, f"m{number}", tenant=TENANT)
                assert await contents(other) == await contents(home)
            assert await contents(other) == {}

    anyio.run(run)


async def test_a_session_that_went_on_elsewhere_comes_back_with_its_new_files() -> None:
    async with open_store(None) as here, open_store(None) as there:
        await settle(here, image(), tenant=TENANT)
        await change(here, {"a": b"1"}, "m0", tenant=TENANT)
        await take_in(there, await archive(here))
        await change(there, {"a": b"2", "b": b"3"}, "m1", tenant=TENANT)
        await take_in(here, await archive(there))
        assert await contents(here.tenant(TENANT).container(HOME)) == {"a": b"2", "b": b"3"}


@pytest.mark.parametrize(
    "edit_line",
    [
        {"path": "../x"}, {"path": "/etc/passwd"}, {"path": "a//b"}, {"after": "nobody"}, {"size": 9}, {"blob": "sha256:0"},
        {"blob": f"sha256:{'0' * 64}"}, {"at": -1}, {"more": 1},
    ],
)  # fmt: skip
async def test_an_archive_with_a_file_that_cannot_be_is_refused(edit_line: dict[str, object]) -> None:
    async with open_store(None) as here, open_store(None) as there:
        await settle(here, image(), tenant=TENANT)
        await change(here, {"a": b"1"}, "m0", tenant=TENANT)

        def forge(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
            edit(files, "sessions/000001.jsonl", 3, lambda said: said["file"].update(edit_line))

        body = changed(await archive(here), forge)
        with pytest.raises(ArchiveInvalid):
            await take_in(there, body)
        assert await count_rows(there) == 0
