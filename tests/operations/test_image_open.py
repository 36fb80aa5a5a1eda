from tests.operations.fixtures import ask_at_once, open_desk

from agentvm.model.definition import Definition


async def test_an_agent_has_one_image_in_a_container() -> None:
    async with open_desk(definitions=[Definition(name="poet")]) as desk:
        opened = [await desk.ask("image_open", agent="poet", containerId="c1") for _ in range(2)]
        assert opened[0]["record"]["imageId"] == opened[1]["record"]["imageId"]
        elsewhere = await desk.ask("image_open", agent="poet", containerId="c2")
        assert elsewhere["record"]["imageId"] != opened[0]["record"]["imageId"]
        by_id = await desk.ask("image_open", agent=elsewhere["record"]["imageId"])
        assert by_id["record"]["imageId"] == elsewhere["record"]["imageId"]
        assert await ask_at_once([(desk.another(), "image_open", {"agent": "default", "containerId": "c3"})] * 6) == []
        assert len((await desk.ask("image_list", containerId="c3"))["records"]) == 1


async def test_an_image_follows_the_agent_that_it_was_built_from() -> None:
    async with open_desk() as desk:
        await desk.publish("agents", "helper", {"systemPrompt": "one"})
        first = (await desk.ask("image_open", agent="helper", containerId="c1"))["record"]
        await desk.publish("agents", "helper", {"systemPrompt": "two"})
        second = (await desk.ask("image_open", agent="resource://agents/helper", containerId="c1"))["record"]
        third = (await desk.ask("image_open", agent="helper", containerId="c1"))["record"]
        assert third["imageId"] == first["imageId"]
        stored = await desk.vm.store.tenant(desk.peer.tenant_id).container(first["containerId"]).get_image(first["imageId"])
        assert stored is not None
        assert stored.definition.system_prompt == "two"
        assert second["imageId"] != first["imageId"]


async def test_an_unknown_agent_is_refused_and_builds_nothing() -> None:
    async with open_desk() as desk:
        assert (await desk.ask("image_open", agent="nobody", containerId="c1"))["errorCode"] == "definition_not_found"
        assert (await desk.ask("image_open", agent="img_nobody"))["errorCode"] == "image_not_found"
        assert (await desk.ask("image_list", containerId="c1"))["records"] == []
