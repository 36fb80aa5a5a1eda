"""Skills of an image: told with the prompt, read when they are asked for, in the versions that the image was built with."""

from typing import Any

import pytest
from tests.blueprint.test_builder import stored
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import ToolFailed
from agentvm.model.account import Tenant
from agentvm.model.ids import TenantId
from agentvm.model.message import ToolResultMessage
from agentvm.resources.registry import Author, NewVersion
from agentvm.runtime.call_skills import CallSkills
from agentvm.storage.resources import Changes

PDF = "resource://skills/pdf"
FILES: dict[str, Any] = {"scripts/read.py": "print(1)\n", "logo.png": {"data": "AAEC/w=="}}


def skill(name: str = "pdf", body: str = "Do it.", about: str = "Reads\n  PDF.") -> dict[str, Any]:
    return {"text": f"---\nname: {name}\ndescription: >\n  {about}\n---\n{body}\n", "files": FILES}


async def converse(desk: Desk, image_id: str) -> list[ToolResultMessage]:
    await desk.ask("message_send", imageId=image_id, content="read this")
    await desk.hear("turn_response")
    image = await stored(desk, {"containerId": "c1", "imageId": image_id})
    recalled = await desk.peer.store.container(image.container_id).log(image.session_id).recall()
    results = [message for message in recalled.messages if isinstance(message, ToolResultMessage)]
    # Calls of one answer run beside each other.
    return sorted(results, key=lambda message: message.tool_call_id)


async def test_a_model_is_told_of_skills_and_reads_the_version_that_the_image_has() -> None:
    driver = ScriptedDriver(
        in_turn(
            tool_calls(("c1", "load_skill", {"name": "pdf"}), ("c2", "load_skill", {"name": "pdf", "path": "scripts/read.py"})),
            reply("done"),
        )
    )
    async with open_desk(driver) as desk:
        await desk.publish("skills", "pdf", skill())
        await desk.publish("agents", "reader", {"systemPrompt": "Be brief.", "skills": [f"{PDF}@^1"], "tools": []})
        made = await desk.ask("image_create", containerId="c1", config={"definition": "resource://agents/reader"})
        await desk.publish("skills", "pdf", skill(body="Do it otherwise."))
        record = made["record"]
        definition = (await stored(desk, record)).definition
        assert definition.rendered is not None
        (spec,) = definition.rendered.skills
        (locked,) = [one for one in record["lock"] if "skills" in one["uri"]]
        assert spec == {**spec, "uri": f"{PDF}@1.0.0", "name": "pdf", "digest": locked["digest"]}
        assert (definition.tools, definition.skills, record["systemPrompt"]) == (("load_skill",), (), "Be brief.")
        first, second = await converse(desk, record["imageId"])
        told: Prompt = driver.prompts[0]
        assert told.system is not None
        assert told.system.startswith("Be brief.\n\nSkills are instructions")
        assert told.system.endswith("\n- pdf: Reads PDF.")
        assert "Do it." in str(first.tool_result)
        assert "scripts/read.py" in str(first.tool_result)
        assert "print(1)" in str(second.tool_result)
        assert not first.tool_result.tainted


async def test_a_skill_of_another_owner_taints_and_stays_with_the_image_when_it_is_no_longer_shared() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "load_skill", {"name": "pdf"})), reply("done")))
    async with open_desk(driver) as desk:
        other = Tenant(tenant_id=TenantId("ten_other"), slug="other", name="Other", created_at=1, updated_at=1)
        await desk.vm.store.directory.add_tenant(other)
        author = Author(tenant_id=other.tenant_id, actor="b", may_publish=True)
        registry = desk.vm.resources.registry
        made = await registry.register(author, NewVersion(type="skills", name="pdf", content=skill(), visibility="public"))
        image = await desk.create_image(skills=["resource://skills/other/pdf"])
        await registry.change(author, made.resource.resource_id, Changes(visibility="private"))
        (result,) = await converse(desk, image["imageId"])
        assert "Do it." in str(result.tool_result)
        assert result.tool_result.tainted


async def test_programs_and_file_tools_read_the_files_of_skills_and_a_strangers_taint() -> None:
    code = "open('/skills/pdf/logo.png', 'rb').read().hex() + open('/skills/pdf/scripts/read.py').read()"
    driver = ScriptedDriver(
        in_turn(
            tool_calls(
                ("c1", "run_python", {"code": "1 + 1"}),
                ("c2", "run_python", {"code": code}),
                ("c3", "read_file", {"path": "/skills/pdf/scripts/read.py"}),
                ("c4", "read_file", {"path": "/skills/word/SKILL.md"}),
            ),
            reply("done"),
        )
    )
    async with open_desk(driver) as desk:
        other = Tenant(tenant_id=TenantId("ten_other"), slug="other", name="Other", created_at=1, updated_at=1)
        await desk.vm.store.directory.add_tenant(other)
        author = Author(tenant_id=other.tenant_id, actor="b", may_publish=True)
        registry = desk.vm.resources.registry
        made = await registry.register(author, NewVersion(type="skills", name="pdf", content=skill(), visibility="public"))
        await desk.publish("skills", "word", skill("word"))
        tools = [f"resource://tools/{name}" for name in ("run_python", "read_file")]
        image = await desk.create_image(skills=["resource://skills/other/pdf", "resource://skills/word"], tools=tools)
        await registry.change(author, made.resource.resource_id, Changes(visibility="private"))
        results = {one.tool_result.id: one.tool_result for one in await converse(desk, image["imageId"])}
        assert "000102ffprint(1)" in str(results["c2"])
        assert "print(1)" in str(results["c3"])
        assert "Do it." in str(results["c4"])
        assert [name for name, result in sorted(results.items()) if result.tainted] == ["c2", "c3"]


async def test_only_an_image_with_skills_has_the_tool() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        await desk.publish("skills", "pdf", skill())
        plain, with_skill = await desk.create_image(), await desk.create_image(skills=[PDF])
        assert (await stored(desk, plain)).definition.tools is None
        assert (await stored(desk, with_skill)).definition.tools == ("current_time", "calculator", "load_skill")
        updates = {"clear": ["skills"]}
        changed = (await desk.ask("image_update", imageId=with_skill["imageId"], updates=updates))["record"]
        assert (await stored(desk, changed)).definition.tools is None


async def test_skills_that_a_model_could_not_tell_apart_and_too_many_are_refused() -> None:
    async with open_desk() as desk:
        await desk.publish("skills", "pdf", skill())
        await desk.publish("skills", "pdf", skill(body="Do more."))
        uris = [f"{PDF}@1.0.0", PDF]
        refused = await desk.ask("image_create", containerId="c1", config={"skills": uris})
        assert "have one name" in refused["error"]
        for number in range(33):
            await desk.publish("skills", f"s{number}", skill(f"s{number}"))
        many = [f"resource://skills/s{number}" for number in range(33)]
        refused = await desk.ask("image_create", containerId="c1", config={"skills": many})
        assert "at most 32 skills" in refused["error"]


async def test_what_is_not_there_is_named() -> None:
    async with open_desk() as desk:
        await desk.publish("skills", "pdf", skill())
        image = await stored(desk, await desk.create_image(skills=[PDF]))
        skills = CallSkills(desk.vm.store, image, desk.peer.tenant_id)
        for name, path, fault in (
            ("word", None, "it has the skill pdf"),
            ("pdf", "../../etc/passwd", "it has the files SKILL.md, logo.png, scripts/read.py"),
            ("pdf", "logo.png", "is not text: it has 4 bytes"),
        ):
            with pytest.raises(ToolFailed, match=fault):
                await skills.load(name, path)
        strange = CallSkills(desk.vm.store, image, TenantId("ten_other"))
        with pytest.raises(ToolFailed, match="gone"):
            await strange.load("pdf", None)
