"""What people do with agents, resources and files."""

import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from playwright.async_api import FilePayload, Page, expect
from tests.console.builder_pages import ADDER, SECOND, agent_id, files, prompt_id, send
from tests.console.conftest import Open
from tests.console.pages import filled_server
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply

OLD, NEW = "Answer in one word.", "Answer in two words."


def tells_instructions(prompt: Prompt) -> Iterable[ScriptStep]:
    """Answers with the instructions that the model was given."""
    return reply(f"{last_user_text(prompt)} <- {prompt.system}")


async def publish(page: Page, text: str) -> None:
    await page.get_by_label("Content").fill(text)
    await expect(page.get_by_text("Nothing is published yet")).to_be_visible()
    await page.get_by_role("button", name="Publish").click()
    await expect(page.locator(".resource-tabs")).to_be_visible()


async def ask(page: Page, text: str, instructions: str) -> None:
    await page.locator(".composer textarea").fill(text)
    await page.locator(".composer textarea").press("Enter")
    await expect(page.locator(".answer").last).to_contain_text(f"{text} <- {instructions}")


async def test_a_prompt_is_published_compared_and_an_agent_upgraded_after_a_dry_run(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(tells_instructions)) as server:
        page = await open_page(f"{server.url}/resources/new?type=prompts")
        await page.get_by_label("Name").fill("brief")
        await publish(page, OLD)
        resource = page.url

        await page.goto(f"{server.url}/agents/new")
        await page.get_by_label("Name").fill("Brief one")
        await page.get_by_label("Instructions").fill("resource://prompts/brief")
        await expect(page.locator(".paper")).to_have_text(OLD)
        await page.get_by_role("button", name="Build", exact=True).click()
        await ask(page, "first", OLD)
        await page.get_by_role("link", name="Brief one").click()
        await expect(page.get_by_role("heading", name="Brief one")).to_be_visible()
        agent = page.url

        await page.goto(resource)
        await page.get_by_role("link", name="Edit").click()
        await publish(page, NEW)
        await page.get_by_role("link", name="Compare").click()
        await expect(page.locator(".diff-gone mark").first).to_have_text("one")
        await expect(page.locator(".diff-new mark").first).to_have_text("two")

        await page.goto(agent)
        await page.get_by_role("button", name="Begin").click()
        await ask(page, "second", OLD)
        await page.get_by_role("button", name="Upgrade (1)").click()
        await expect(page.locator(".modal .diff-new")).to_contain_text(NEW)
        await page.keyboard.press("Escape")
        await ask(page, "third", OLD)
        await page.get_by_role("button", name="Upgrade (1)").click()
        await page.get_by_role("button", name="Apply").click()
        await expect(page.locator(".paper").first).to_have_text(NEW)
        await ask(page, "fourth", NEW)
        await expect(page.get_by_role("button", name="Upgrade", exact=True)).to_be_visible()


async def test_who_publishes_second_compares_first_and_loses_nothing(open_page: Open) -> None:
    async with filled_server() as filled:
        page = await open_page(filled.server.url)
        resource_id = await prompt_id(page, filled)
        await page.goto(f"{filled.server.url}/resources/{resource_id}?edit=1")
        field = page.get_by_label("Content")
        await field.fill("Mine.")
        await expect(page.get_by_text("It would be version 1.0.1")).to_be_visible()
        await send(page, filled, "PUT", f"/resources/{resource_id}", {"content": {"text": SECOND}})
        await page.get_by_role("button", name="Publish").click()
        await expect(page.locator(".diff-gone").first).to_contain_text("patient")
        await expect(field).to_have_value("Mine.")
        await page.get_by_role("button", name="Publish on top of it").click()
        await page.get_by_role("button", name="Publish", exact=True).click()
        await expect(page.locator(".paper")).to_have_text("Mine.")
        latest = await send(page, filled, "GET", f"/resources/{resource_id}")
        assert (latest["version"]["version"], latest["content"]) == ("1.0.2", {"text": "Mine."})


async def test_a_fault_is_shown_at_its_line_before_anything_is_published(open_page: Open) -> None:
    async with filled_server() as filled:
        page = await open_page(f"{filled.server.url}/resources/new?type=tools")
        field = page.get_by_label("Content")
        await field.fill('{\n  "runtime": "builtin",\n  oops\n}')
        await expect(page.locator(".code-marked")).to_have_text("3")
        wrong = {**ADDER, "inputSchema": {"type": "array"}}
        text = json.dumps(wrong, indent=2)
        await field.fill(text)
        line = next(number for number, each in enumerate(text.split("\n"), 1) if "inputSchema" in each)
        await expect(page.locator(".code-marked")).to_have_text(str(line))
        await page.get_by_role("button", name=f"Line {line}").click()
        await expect(field).to_be_focused()
        await expect(page.get_by_role("button", name="Publish")).to_be_disabled()
        await field.fill(json.dumps(ADDER))
        await expect(page.get_by_text("It would be version 1.0.0")).to_be_visible()


async def test_files_are_uploaded_listed_and_had_earlier_states(open_page: Open) -> None:
    async with filled_server() as filled:
        page = await open_page(filled.long)
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("link", name="Files").click()
        await expect(page.get_by_text("No files yet")).to_be_visible()
        chosen = FilePayload(name="报告 <b>.txt", mimeType="text/plain", buffer=b"first")
        await page.locator("input[type=file]").set_input_files(chosen)
        await expect(page.get_by_role("link", name="报告 <b>.txt")).to_be_visible()
        async with page.expect_download() as loading:
            await page.get_by_role("link", name="报告 <b>.txt").click()
        assert (await (await loading.value).path()).read_bytes() == b"first"
        await page.get_by_role("button", name="Versions").click()
        await expect(page.locator(".modal tbody tr")).to_have_count(1)
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No files yet")).to_be_visible()


async def test_a_resource_is_described_tagged_withdrawn_exported_and_imported(open_page: Open, tmp_path: Path) -> None:
    async with filled_server() as filled:
        page = await open_page(filled.server.url)
        await agent_id(page, filled)
        # A URI names the resource as well as its id does.
        await page.goto(f"{filled.server.url}/resources/{quote('resource://prompts/sales-assistant', safe='')}?edit=1")
        await page.get_by_label("Tags").fill("sales, 销售")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("No new version was needed")).to_be_visible()
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_role("link", name="Versions 2").click()
        row = page.locator("tbody tr").first
        await row.get_by_role("button", name="Set a tag").click()
        await page.get_by_label("Name of the tag").fill("stable")
        await page.get_by_role("button", name="Set a tag").last.click()
        await expect(row.locator(".chip", has_text="stable")).to_be_visible()
        await row.get_by_role("button", name="Withdraw").click()
        await expect(row).to_contain_text("withdrawn")
        await page.get_by_role("link", name="Content").click()
        async with page.expect_download() as loading:
            await page.get_by_role("link", name="Export").click()
        archive = tmp_path / "sales.tar.gz"
        await (await loading.value).save_as(archive)

        await page.goto(f"{filled.server.url}/resources?q=sales&tag=%E9%94%80%E5%94%AE")
        await expect(page.get_by_text("1 resource", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Import").click()
        await page.locator(".modal input[type=file]").set_input_files(archive)
        await page.get_by_role("button", name="Show what would happen").click()
        await expect(page.locator(".modal tbody tr")).to_have_count(1)
        await page.get_by_role("button", name="Import").last.click()
        await expect(page.get_by_text("1 entry imported")).to_be_visible()


async def test_an_agent_is_changed_stopped_and_deleted(open_page: Open) -> None:
    async with filled_server() as filled:
        page = await open_page(filled.server.url)
        await page.goto(f"{filled.server.url}/agents/{await agent_id(page, filled)}")
        await page.get_by_role("link", name="Change").click()
        await page.get_by_label("Name").fill("Tea seller")
        await page.get_by_label("Longest answer").fill("77")
        await page.get_by_label("company").fill("Tea & Co")
        await expect(page.locator(".form .paper")).to_contain_text("for Tea & Co")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("heading", name="Tea seller")).to_be_visible()
        await expect(page.locator(".paper").first).to_contain_text("You are a sales assistant for Tea & Co")
        await expect(page.locator(".figures").first).to_contain_text("77")
        await page.get_by_label("New key").fill("sk-of-mine")
        await page.get_by_role("button", name="Store key").click()
        await expect(page.get_by_role("alert").filter(has_text="scripted accepts no keys of images")).to_be_visible()
        await page.get_by_role("button", name="Begin").click()
        await page.locator(".composer textarea").fill("hello")
        await page.locator(".composer textarea").press("Enter")
        await expect(page.locator(".answer")).to_contain_text("You said: hello")
        await page.reload()
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator(".sub").first).to_contain_text("not running")
        await page.get_by_role("button", name="Delete").click()
        remove = page.locator(".modal .btn-bad")
        await expect(remove).to_be_disabled()
        await page.locator(".modal input").fill("Tea seller")
        await remove.click()
        await expect(page.get_by_role("heading", name="Agents", exact=True)).to_be_visible()
        await expect(page.get_by_role("link", name="Tea seller")).to_have_count(0)


def counts(prompt: Prompt) -> Iterable[ScriptStep]:
    """Answers in the wanted form, if there is one."""
    return reply('{"bikes": 2}' if prompt.output is not None else f"Two, {last_user_text(prompt)}.")


async def test_an_agent_is_built_with_its_sandbox_form_and_key_and_is_run_once(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(counts)) as server:
        page = await open_page(f"{server.url}/agents/new")
        await page.get_by_label("Name").fill("Counter")
        await page.get_by_label("Sandbox").select_option(label="system/default")
        await page.get_by_text("Form of answers").click()
        build, schema = page.get_by_role("button", name="Build", exact=True), page.get_by_label("JSON Schema of answers")
        await schema.fill("{")
        await expect(build).to_be_disabled()
        await schema.fill('{"type": "object", "properties": {"bikes": {"type": "integer"}}}')
        key = page.get_by_label("Provider key")
        await key.fill("sk-of-mine")
        await build.click()
        await expect(page.get_by_role("alert")).to_contain_text("scripted accepts no keys of images")
        await key.fill("")
        await build.click()
        await page.get_by_role("link", name="Counter").click()
        await expect(page.get_by_text("resource://sandboxes/system/default", exact=False).first).to_be_visible()
        await expect(page.get_by_text("Form of answers")).to_be_visible()

        await page.get_by_role("link", name="Run once").first.click()
        await page.get_by_label("Message", exact=True).fill("please")
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.locator(".json-leaf")).to_have_text("bikes 2")
        sessions = f"{server.url}/v1/sessions"
        before = (await (await page.request.get(sessions)).json())["items"]
        await page.get_by_label("Agent", exact=True).fill("default")
        await page.get_by_label("Keep the conversation").check()
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.locator("pre.paper")).to_have_text("Two, please.")
        assert len((await (await page.request.get(sessions)).json())["items"]) == len(before) + 1
        await page.get_by_role("link", name="Open the conversation").click()
        await expect(page.locator(".answer")).to_have_text("Two, please.")


async def test_an_agent_is_tagged_saved_as_a_file_and_loaded_again(open_page: Open, tmp_path: Path) -> None:
    async with filled_server() as filled:
        page = await open_page(filled.server.url)
        await page.goto(f"{filled.server.url}/agents/{await agent_id(page, filled)}")
        tags = page.get_by_role("region", name="Tags")
        await tags.get_by_label("New tag").fill("sales-live")
        await tags.get_by_role("button", name="Set").click()
        await expect(tags.locator("code")).to_have_text("image:sales-live")
        async with page.expect_download() as loading:
            await page.get_by_role("link", name="Save as file").click()
        file = tmp_path / "sales.avmimage"
        await (await loading.value).save_as(file)
        before = page.url
        await tags.get_by_role("button", name="Remove the tag sales-live").click()
        await expect(tags.locator("code")).to_have_count(0)

        await page.goto(f"{filled.server.url}/agents")
        await page.get_by_role("button", name="Load from file").click()
        dialog = page.get_by_role("dialog")
        altered = FilePayload(name="bad.avmimage", mimeType="application/gzip", buffer=file.read_bytes()[:-9])
        await dialog.locator("input[type=file]").set_input_files(altered)
        await dialog.get_by_role("button", name="Load from file").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("resource_invalid")
        await dialog.locator("input[type=file]").set_input_files(file)
        await dialog.get_by_role("button", name="Load from file").click()
        await expect(page.get_by_role("heading", name="Sales <b>")).to_be_visible()
        await expect(page.locator(".paper").first).to_contain_text("You are a sales assistant for Acme.")
        assert page.url != before


async def test_hostile_names_and_contents_are_texts(open_page: Open) -> None:
    async with filled_server() as filled:
        page = await open_page(filled.server.url)
        image_id, resource_id = await agent_id(page, filled), await prompt_id(page, filled)
        await files(page, filled)
        session_id = filled.long.rpartition("/")[2]
        for path in (
            "/agents",
            f"/agents/{image_id}",
            "/resources",
            f"/resources/{resource_id}",
            f"/resources/{resource_id}?tab=versions",
            f"/files/{session_id}",
        ):
            await page.goto(filled.server.url + path)
            await expect(page.locator("main h1")).not_to_be_empty()
            await expect(page.locator(".table, .paper").first).to_be_visible()
            assert await page.locator("main img, main script, main h1 b").count() == 0, path


async def test_who_lacks_a_permission_is_told_which(open_page: Open) -> None:
    async with filled_server() as filled:
        page = await open_page("about:blank")
        await limit(page, "agent:use", "images:read")
        for path, permission in (
            ("/agents/new", "images:write"),
            ("/resources", "resources:read"),
            ("/resources/new", "resources:write"),
            ("/files/x", "sessions:read"),
        ):
            await page.goto(filled.server.url + path)
            await expect(page.locator("main")).to_contain_text(permission)
        await page.goto(f"{filled.server.url}/agents")
        await expect(page.locator(".table").first).to_be_visible()
        await expect(page.get_by_role("link", name="New agent")).to_have_count(0)
        await expect(page.get_by_role("link", name="Resources")).to_have_count(0)


async def limit(page: Page, *permissions: str) -> None:
    """Lets the page believe that its user has these permissions only; the server is asked as before."""
    body = json.dumps({"tenantId": "default", "auth": "off", "permissions": permissions})
    await page.route("**/v1/auth/whoami", lambda route: route.fulfill(body=body, content_type="application/json"))
