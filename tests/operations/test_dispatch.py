import dataclasses
import logging
from typing import Any, NoReturn

import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.protocol.fixtures import REQUESTS

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep
from agentvm.errors import ProviderOverloaded, StoreFailed
from agentvm.log import concerned
from agentvm.operations import dispatch
from agentvm.operations.container import ContainerList
from agentvm.operations.table import COMMANDS
from agentvm.resources.centre import make_centre


class Broken:
    """A store that fails whatever is asked of it."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def container(self, container_id: str) -> "Broken":
        return self

    def resources(self, tenant_id: str) -> "Broken":
        return self

    def accounts(self, tenant_id: str) -> "Broken":
        return self

    def sessions(self, containers: object) -> "Broken":
        return self

    def waits(self, containers: object) -> "Broken":
        return self

    def schedules(self, containers: object) -> "Broken":
        return self

    def triggers(self, containers: object) -> "Broken":
        return self

    def drafts(self, author: str, containers: object) -> "Broken":
        return self

    @property
    def quotas(self) -> "Broken":
        return self

    @property
    def aliases(self) -> "Broken":
        return self

    @property
    def memories(self) -> "Broken":
        return self

    @property
    def attachments(self) -> "Broken":
        return self

    def __getattr__(self, name: str) -> Any:
        async def fail(*arguments: object, **named: object) -> NoReturn:
            raise self._error

        return fail


def break_store(desk: Desk, error: Exception) -> None:
    broken: Any = Broken(error)
    centre = make_centre(broken, desk.peer.vm.clock, desk.peer.vm.new_id)
    desk.vm.resources = centre
    desk.peer = dataclasses.replace(desk.peer, store=broken)


async def test_every_command_is_answered_even_by_a_tenant_that_has_nothing() -> None:
    async with open_desk() as desk:
        for name in COMMANDS:
            empty = desk.another(name)
            reply = await empty.ask(name, **REQUESTS[name])
            assert ("error" in reply) == (empty.types()[0] == "system_error"), name


ASKING_THE_STORE = sorted(
    set(COMMANDS)
    - {
        "definition_list",
        "definition_get",
        "definition_register",
        "agent_get",
        "agent_list",
        "agent_destroy",
        "agent_destroy_all",
    }
)


async def test_a_bug_answers_one_command_and_says_nothing_of_the_servers_insides() -> None:
    async with open_desk() as desk:
        whole = desk.peer
        for name in ASKING_THE_STORE:
            break_store(desk, ZeroDivisionError("/srv/secret.py"))
            reply = await desk.ask(name, **REQUESTS[name])
            assert reply["errorCode"] == "internal_error", name
            assert "secret" not in str(desk.heard), name
            desk.peer = whole
            assert await desk.ask("container_list") == {"containerIds": []}, name
            desk.forget()


async def test_a_failing_store_is_told_as_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async with open_desk() as desk:
        break_store(desk, StoreFailed("the disk is full"))
        for name in ASKING_THE_STORE:
            reply = await desk.ask(name, **REQUESTS[name])
            assert (reply["error"], reply["errorCode"]) == ("the disk is full", "store_failed"), name
    # Not every one of many that are alike is logged.
    assert {record.levelname for record in caplog.records if record.getMessage() == "command_refused"} == {"ERROR"}


async def test_a_refusal_is_a_system_error_to_the_asker_alone_then_the_reply() -> None:
    async with open_desk() as desk:
        await desk.create_image()
        witness = desk.another()
        await witness.ask("image_list", containerId="c1")
        witness.forget()
        desk.forget()
        await desk.ask("message_send", imageId="nope", agentId="a", content="hi")
        error, reply = desk.heard
        assert error["type"] == "system_error"
        assert (error["source"], error["category"], error["intent"]) == ("command", "error", "notification")
        assert error["data"] == {
            "message": "Image not found: nope",
            "requestId": "req_1",
            "severity": "error",
            "code": "image_not_found",
        }
        assert error["context"] == {"imageId": "nope", "agentId": "a"}
        assert reply["data"]["error"] == error["data"]["message"]
        assert witness.hear_nowait() == []


async def test_an_unknown_command_is_answered_under_its_name() -> None:
    async with open_desk() as desk:
        reply = await desk.ask("image_explode", imageId="x")
        assert reply == {"error": "Unknown command: image_explode_request", "errorCode": "unknown_command"}


async def test_a_request_without_an_id_is_answered_without_one() -> None:
    async with open_desk() as desk:
        await dispatch.answer(desk.peer, ContainerList(), None)
        assert desk.hear_nowait()[0]["data"] == {"containerIds": []}


async def test_a_peer_that_is_gone_can_still_be_answered() -> None:
    async with open_desk() as desk:
        desk.vm.detach(desk.peer)
        assert await desk.ask("container_create", containerId="c1") == {"containerId": "c1"}
        assert "container_created" not in desk.types()


async def test_entries_about_a_command_and_its_turn_carry_their_ids(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="agentvm")
    async with open_desk(ScriptedDriver(fail)) as desk:
        image = await desk.create_image("c1")
        sent = await desk.ask("message_send", imageId=image["imageId"], content="hello")
        assert "error" not in sent
        await desk.hear("turn_response")
        await desk.ask("session_set_title", sessionId="no_such", title="x")
    failed, refused = (one_of(caplog, event) for event in ("turn_failed", "command_refused"))
    assert failed["turn_id"].startswith("turn_")
    about = (failed["request_id"], failed["tenant_id"], failed["container_id"], failed["session_id"])
    assert about == ("req_1", "default", "c1", image["sessionId"])
    assert (refused["request_id"], refused["tenant_id"], refused["session_id"]) == ("req_1", "default", "no_such")
    assert "turn_id" not in refused
    assert concerned() == {}


def fail(prompt: Prompt) -> list[ScriptStep]:
    return [ProviderOverloaded("the model is overloaded")]


def one_of(caplog: pytest.LogCaptureFixture, event: str) -> dict[str, Any]:
    (record,) = [record for record in caplog.records if record.getMessage() == event]
    return vars(record)
