"""What a message refers to, from when it is sent until the model has it."""

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import anyio
import pytest
from tests.conformance.attachments import digest_of, referring
from tests.conformance.store import RIVAL, settle
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.base import AssistantEntry, Prompt, UserEntry
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, echo
from agentvm.errors import InvalidInput
from agentvm.errors.attachment import AttachmentInUse, AttachmentNotFound
from agentvm.model.attachment import reference_to
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, TenantId
from agentvm.model.limits import Limits
from agentvm.model.message import FilePart, ImagePart, TextPart, UserContent
from agentvm.runtime import attached
from agentvm.storage.attachments import Upload
from agentvm.storage.engine import open_store
from agentvm.storage.sql.attachments import AttachmentStore

BODY, ABSENT = b"\x89PNG", f"sha256:{'0' * 64}"


def picture(body: bytes = BODY, name: str = "a.png") -> dict[str, str]:
    return {"type": "image", "data": reference_to(digest_of(body)), "mediaType": "image/png", "name": name}


def files(desk: Desk, container: str = "c1") -> AttachmentStore:
    return desk.vm.tenancy.store.tenant(desk.peer.tenant_id).container(ContainerId(container)).attachments


async def upload(store: AttachmentStore, body: bytes = BODY, now: int = 1) -> None:
    await store.add(BytesIO(body), Upload(media_type="image/png"), now)


def shown(driver: ScriptedDriver, number: int = -1) -> list[UserContent]:
    return [said.content for said in driver.prompts[number].conversation if isinstance(said, UserEntry)]


async def say(desk: Desk, image_id: str, *parts: Any, **about: Any) -> Any:
    return await desk.ask("message_send", imageId=image_id, content=list(parts), **about)


async def test_the_model_sees_the_bytes_and_everybody_else_the_reference() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        made = await desk.create_image()
        await upload(files(desk))
        sent = await say(desk, made["imageId"], {"type": "text", "text": "see"}, picture())
        assert "errorCode" not in sent
        await desk.hear("turn_response")
        data = base64.b64encode(BODY).decode()
        assert shown(driver) == [(TextPart(text="see"), ImagePart(data=data, media_type="image/png", name="a.png"))]
        told = next(event for event in desk.heard if event["type"] == "user_message")
        assert told["data"]["content"][1] == picture()
        listed = await desk.ask("session_messages", sessionId=made["sessionId"])
        assert listed["messages"][0]["content"][1] == picture()


async def test_what_the_container_has_not_is_refused_alike_whoever_else_has_it() -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        await desk.create_image("c2")
        rival = desk.another("rival")
        await rival.create_image("c1")
        await upload(files(desk, "c2"), b"in another container")
        await upload(files(rival), b"of another tenant")
        answers = []
        for body in (b"in another container", b"of another tenant", b"nobody's"):
            refused = await say(desk, made["imageId"], picture(body))
            assert refused["errorCode"] == "attachment_not_found"
            answers.append(refused["error"].replace(digest_of(body), ""))
        assert len(set(answers)) == 1
        odd = await say(desk, made["imageId"], {"type": "file", "data": "attachment:../x", "mediaType": "a/b"})
        assert odd["errorCode"] == "attachment_not_found"
        assert (await desk.ask("session_messages", sessionId=made["sessionId"]))["messages"] == []


async def test_a_message_refers_to_so_many_and_no_more() -> None:
    async with open_desk(limits=Limits(attachments_per_message=2)) as desk:
        made = await desk.create_image()
        await upload(files(desk))
        inline = {"type": "image", "data": "aGk=", "mediaType": "image/png"}
        assert "errorCode" not in await say(desk, made["imageId"], picture(), picture(), inline, inline)
        refused = await say(desk, made["imageId"], picture(), picture(), picture())
        assert refused["errorCode"] == "invalid_input"
        assert "at most 2" in refused["error"]


async def test_a_message_that_is_refused_interrupts_nobody() -> None:
    released = anyio.Event()
    async with open_desk(ScriptedDriver(lambda prompt: [Pause(released), *echo(prompt)])) as desk:
        made = await desk.create_image()
        await desk.ask("message_send", imageId=made["imageId"], content="first")
        refused = await say(desk, made["imageId"], picture(), onBusy="interrupt")
        assert refused["errorCode"] == "attachment_not_found"
        released.set()
        await desk.hear("turn_response")
        assert "interrupted" not in desk.types()


async def test_what_is_gone_is_told_to_the_model_in_its_place() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        made = await desk.create_image()
        home = desk.vm.tenancy.store.tenant(desk.peer.tenant_id).container(ContainerId("c1"))
        await home.log(made["sessionId"]).record(messages=[referring("m0", b"never there")], now=1)
        await desk.ask("message_send", imageId=made["imageId"], content="well?")
        heard = await desk.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        assert shown(driver) == [(TextPart(text="see"), TextPart(text="[text/plain: the file is gone]")), "well?"]


async def test_only_what_is_kept_is_read_the_newest_first_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "PROMPT_MAX_BYTES", 10)
    async with open_store(None) as store:
        home = await settle(store)
        reads: list[str] = []

        class Counting:
            async def read(self, digest: str, number: int) -> bytes | None:
                reads.append(digest)
                return await home.attachments.read(digest, number)

        for body in (b"12345678", b"1234", b"12"):
            await upload(home.attachments, body)
        old, middle, new = (
            UserEntry(content=(FilePart(data=reference_to(digest_of(body)), media_type="a/b", filename="f"),))
            for body in (b"12345678", b"1234", b"12")
        )
        said = AssistantEntry(text="ok")
        prompt = Prompt(model="m", conversation=(old, said, middle, new, new), max_tokens=1)
        sizes = {digest_of(body): len(body) for body in (b"12345678", b"1234", b"12")}
        filled = await attached.fill(Counting(), prompt, sizes)  # type: ignore[arg-type]
        contents = [one.content[0] for one in filled.conversation if isinstance(one, UserEntry)]
        assert isinstance(contents[0], TextPart)
        assert contents[0].text.startswith("[f: left out")
        assert [part.data for part in contents[1:] if isinstance(part, FilePart)] == ["MTIzNA==", "MTI=", "MTI="]
        assert reads == [digest_of(b"12"), digest_of(b"1234")]


async def test_prompts_together_hold_so_much_of_files_and_the_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "PROMPTS_MAX_BYTES", 4 * len(BODY))
    go = anyio.Event()
    driver = ScriptedDriver(lambda prompt: [Pause(go), *echo(prompt)])
    async with open_desk(driver) as desk:
        images = [(await desk.create_image())["imageId"] for _ in range(5)]
        await upload(files(desk))
        for image_id in images[:4]:
            await say(desk, image_id, picture())
        # Who has no file waits for nobody.
        await say(desk, images[4], {"type": "text", "text": "hi"})
        with anyio.fail_after(60):
            while len(driver.prompts) < 3:
                await anyio.lowlevel.checkpoint()
        assert sorted(isinstance(shown(driver, number)[0][0], ImagePart) for number in range(3)) == [False, True, True]
        # Who waits can be stopped.
        await desk.ask("agent_interrupt", imageId=images[3])
        await desk.hear("turn_response")
        assert len(driver.prompts) == 3
        go.set()
        await desk.hear("turn_response", times=5)
        assert len(driver.prompts) == 4


async def test_what_is_larger_than_a_share_waits_for_all_others_of_its_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "PROMPTS_MAX_BYTES", 10)
    carried, order = attached.AttachmentMemory(), list[int]()

    async def take(size: int) -> None:
        async with carried.hold(DEFAULT_TENANT, size):
            order.append(size)
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for size in (3, 99, 1, 0):
                tasks.start_soon(take, size)
    assert [size for size in order if size] == [3, 99, 1]


async def test_files_of_one_tenant_leave_room_for_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "PROMPTS_MAX_BYTES", 10)
    carried = attached.AttachmentMemory()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            go = anyio.Event()

            async def take() -> None:
                async with carried.hold(DEFAULT_TENANT, 5):
                    await go.wait()

            for _ in range(4):
                tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            async with carried.hold(TenantId(RIVAL), 5):
                go.set()


async def test_files_are_free_again_when_the_provider_has_begun_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "PROMPTS_MAX_BYTES", 2 * len(BODY))
    go = anyio.Event()

    def answer(prompt: Prompt) -> Sequence[ScriptStep]:
        first, *rest = echo(prompt)
        return [first, Pause(go), *rest]

    async with open_desk(ScriptedDriver(answer)) as desk:
        images = [(await desk.create_image())["imageId"] for _ in range(3)]
        await upload(files(desk))
        for image_id in images:
            await say(desk, image_id, picture())
        # All of them are being answered, although only one fits at a time.
        await desk.hear("message_start", times=3)
        go.set()
        await desk.hear("turn_response", times=3)


async def test_a_prompt_without_references_is_left_alone() -> None:
    async with open_store(None) as store:
        files = (await settle(store)).attachments
        prompt = Prompt(model="m", conversation=(UserEntry(content="x"), AssistantEntry(text="y")), max_tokens=1)
        assert await attached.fill(files, prompt, {}) is prompt
        assert await attached.weigh(files, [referring("m", b"absent")]) == {}


async def test_what_is_claimed_is_spared_and_what_is_checked_is_looked_at() -> None:
    async with open_store(None) as store:
        home = await settle(store)
        await settle(store, tenant=TenantId(RIVAL))
        await upload(home.attachments)
        content = (FilePart(data=reference_to(digest_of(BODY)), media_type="a/b"),)
        await attached.check(home.attachments, content, 1)
        await attached.claim(home.attachments, content, 1, now=100)
        assert await store.collect(100, grace=50) == 0
        assert await store.collect(150, grace=50) == 1
        for how in (attached.check(home.attachments, content, 1), attached.claim(home.attachments, content, 1, 1)):
            with pytest.raises(AttachmentNotFound):
                await how
        with pytest.raises(InvalidInput):
            await attached.check(home.attachments, content, 0)
        await attached.check(home.attachments, "attachment: text", 0)


async def test_an_edit_refers_as_a_message_does_and_what_is_taken_back_keeps_its_file() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        made = await desk.create_image()
        await upload(files(desk))
        sent = await say(desk, made["imageId"], picture())
        await desk.hear("turn_response")
        about = {"sessionId": made["sessionId"], "messageId": sent["messageId"]}
        refused = await desk.ask("message_edit", **about, content=[picture(b"nobody's")])
        assert refused["errorCode"] == "attachment_not_found"
        assert "session_rewound" not in desk.types()
        again = await desk.ask("message_regenerate", sessionId=made["sessionId"])
        await desk.hear("turn_response", times=2)
        assert shown(driver)[0] == shown(driver, 0)[0]
        edited = await desk.ask("message_edit", sessionId=made["sessionId"], messageId=again["messageId"], content="without")
        assert "errorCode" not in edited
        await desk.hear("turn_response", times=3)
        with pytest.raises(AttachmentInUse):
            await files(desk).delete(digest_of(BODY))
        fork = await desk.ask("session_fork", sessionId=made["sessionId"], messageId=again["messageId"])
        listed = await desk.ask("session_messages", sessionId=fork["session"]["sessionId"])
        assert listed["messages"][0]["content"] == [picture()]


async def test_what_was_sent_inline_is_told_listed_and_stored_as_it_came() -> None:
    """As AgentX 1.x does it, to the letter."""
    driver = ScriptedDriver()
    inline = {"type": "image", "data": "iVBORw==", "mediaType": "image/png", "name": "a.png"}
    async with open_desk(driver) as desk:
        made = await desk.create_image()
        await say(desk, made["imageId"], inline)
        await desk.hear("turn_response")
        told = next(event for event in desk.heard if event["type"] == "user_message")
        assert told["data"]["content"] == [inline]
        listed = await desk.ask("session_messages", sessionId=made["sessionId"])
        assert listed["messages"][0]["content"] == [inline]
        assert (await files(desk).list()).items == ()
        assert shown(driver) == [(ImagePart(data="iVBORw==", media_type="image/png", name="a.png"),)]
