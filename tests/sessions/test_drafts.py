from tests.operations.fixtures import Desk, open_desk

from agentvm.model.ids import DEFAULT_TENANT, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.sessions.drafts import DRAFT_MAX
from agentvm.sessions.library import DEVICE_MAX


def person(desk: Desk, name: str) -> Desk:
    principal = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING, user_id=UserId(name))
    return Desk(desk.vm, desk.vm.attach(principal))


async def test_each_device_keeps_its_own_and_a_person_reads_all_of_them() -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        phone, laptop = person(desk, "ann"), person(desk, "ann")
        first = await phone.ask("session_draft", sessionId=session_id, text="from the phone", device="phone")
        assert (first["saved"], first["draft"]["text"]) == (True, "from the phone")
        await laptop.ask("session_draft", sessionId=session_id, text="from the laptop", device="laptop")
        found = (await phone.ask("session_drafts", sessionId=session_id))["drafts"]
        assert [(one["device"], one["text"]) for one in found] == [("laptop", "from the laptop"), ("phone", "from the phone")]
        listed = (await phone.ask("session_draft_list", containerId="c1"))["drafts"]
        assert [(one["sessionId"], one["preview"]) for one in listed] == [
            (session_id, "from the laptop"),
            (session_id, "from the phone"),
        ]
        removed = await laptop.ask("session_draft", sessionId=session_id, text="", device="laptop")
        assert (removed["saved"], "draft" in removed) == (True, False)


async def test_who_asks_for_it_overwrites_nothing_that_was_changed_meanwhile() -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        seen = await desk.ask("session_draft", sessionId=session_id, text="one", ifUpdatedAt=0)
        await desk.ask("session_draft", sessionId=session_id, text="two")
        late = await desk.ask("session_draft", sessionId=session_id, text="three", ifUpdatedAt=seen["draft"]["updatedAt"])
        assert (late["saved"], late["draft"]["text"]) == (False, "two")


async def test_others_hear_that_somebody_writes_and_cannot_read_what() -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        ann, bob, nobody = person(desk, "ann"), person(desk, "bob"), desk.another()
        for one in (bob, nobody):
            await one.ask("image_list", containerId="c1")
            one.forget()
        await ann.ask("session_draft", sessionId=session_id, text="my secret", device="phone")
        for one in (bob, nobody):
            heard = one.hear_nowait()
            assert "secret" not in str(heard)
            (told,) = [event["data"] for event in heard if event["type"] == "session_draft_updated"]
            assert (told["sessionId"], told["userId"], told["device"]) == (session_id, "ann", "phone")
            assert (await one.ask("session_drafts", sessionId=session_id))["drafts"] == []
            assert (await one.ask("session_draft_list"))["drafts"] == []
            await one.ask("session_draft", sessionId=session_id, text="", device="phone")
        assert len((await ann.ask("session_drafts", sessionId=session_id))["drafts"]) == 1


async def test_a_draft_outlives_the_message_and_not_the_session() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        session_id = (await desk.ask("session_create", imageId=image["imageId"]))["session"]["sessionId"]
        await desk.ask("session_draft", sessionId=session_id, text="hello")
        await desk.ask("message_send", imageId=image["imageId"], sessionId=session_id, content="hello", clientMessageId="hello")
        await desk.hear("turn_response")
        assert len((await desk.ask("session_drafts", sessionId=session_id))["drafts"]) == 1
        await desk.ask("session_delete", sessionId=session_id)
        assert (await desk.ask("session_drafts", sessionId=session_id))["errorCode"] == "session_not_found"
        assert (await desk.ask("session_draft_list"))["drafts"] == []


async def test_what_is_too_long_or_nowhere_is_refused() -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        for data, code in (
            ({"sessionId": session_id, "text": "x" * (DRAFT_MAX + 1)}, "invalid_input"),
            ({"sessionId": session_id, "text": "x", "device": "d" * (DEVICE_MAX + 1)}, "invalid_input"),
            ({"sessionId": "sess_none", "text": "x"}, "session_not_found"),
        ):
            assert (await desk.ask("session_draft", **data))["errorCode"] == code
        assert (await desk.ask("session_draft", sessionId=session_id, text="x" * DRAFT_MAX))["saved"] is True


async def test_a_draft_counts_for_the_storage_that_a_tenant_may_use() -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        await desk.limit("storage_bytes", 30_000)
        text = "字" * 4_000
        # The same one again takes no more room.
        for _ in range(5):
            assert (await desk.ask("session_draft", sessionId=session_id, text=text))["saved"] is True
            late = await desk.ask("session_draft", sessionId=session_id, text=text, ifUpdatedAt=1)
            assert late["saved"] is False
        assert (await desk.ask("session_draft", sessionId=session_id, text=text, device="phone"))["saved"] is True
        refused = await desk.ask("session_draft", sessionId=session_id, text=text, device="tablet")
        assert refused["errorCode"] == "quota_exceeded"
        assert (await desk.ask("session_draft", sessionId=session_id, text=""))["saved"] is True
        assert (await desk.ask("session_draft", sessionId=session_id, text=text, device="tablet"))["saved"] is True
