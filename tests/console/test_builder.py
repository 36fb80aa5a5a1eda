"""What people do with agents, resources and files."""

import json
from collections.abc import Iterable

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
        await page.get_by_role("button", name="Try it").click()
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
