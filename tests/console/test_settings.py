"""Settings, secrets, retention, import and export in the console."""

import json
from pathlib import Path

from playwright.async_api import Page, expect
from tests.console.conftest import Open
from tests.console.operator_pages import HOSTILE
from tests.console.test_activity import get, say
from tests.console.test_journeys import IN_MEMORY, driver
from tests.sessions.test_chatgpt import CONVERSATION

from agentvm import start_server
from agentvm.model.ids import DEFAULT_TENANT


async def preview(page: Page, value: str, note: str = "") -> None:
    await page.get_by_label("Value", exact=True).fill(value)
    await page.get_by_label("Note", exact=True).fill(note)
    await page.get_by_role("button", name="Preview").click()


async def test_a_setting_is_found_previewed_saved_and_rolled_back(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/settings?q=limits+steps")
        row = page.locator(".settings li").filter(has_text="limits.steps")
        await expect(row).to_contain_text("25")
        await expect(row).to_contain_text("default")
        await row.get_by_role("link").click()
        await preview(page, "0")
        await expect(page.get_by_role("alert").filter(has_text="limits.steps")).to_be_visible()
        await preview(page, "8", HOSTILE)
        # A mark that turns the direction of the text is no part of a line.
        await expect(page.get_by_role("alert").filter(has_text="printable")).to_be_visible()
        await preview(page, "8", "".join(filter(str.isprintable, HOSTILE)))
        await expect(page.locator(".preview")).to_contain_text("Counts at once: limits.steps")
        assert (await get(page, server, "/v1/config"))["revision"] == 0
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
        await expect(page.get_by_role("row").filter(has_text="changed here")).to_contain_text("8")
        await page.goto(f"{server.url}/settings/system.port")
        await preview(page, "9000")
        await expect(page.locator(".preview")).to_contain_text("Counts after a restart: system.port")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status").filter(has_text="It counts after a restart")).to_be_visible()
        await page.goto(f"{server.url}/settings?only=changed")
        await expect(page.locator("p.warn")).to_have_text("1 setting waits for a restart: system.port ")
        await expect(page.locator(".settings code:first-child")).to_contain_text(["limits.steps"])
        await page.get_by_role("link", name="History").click()
        await expect(page.get_by_role("row").filter(has_text="limits.steps")).to_contain_text("<img src=x onerror=alert(1)>")
        assert await page.locator("main img, main script").count() == 0
        await page.get_by_role("link", name="1", exact=True).click()
        await expect(page).to_have_url(f"{server.url}/settings/history?from=0&to=1")
        await expect(page.locator(".section .table")).to_contain_text("limits.steps")
        await page.get_by_role("row").filter(has_text="limits.steps").last.get_by_role("button", name="Roll back").click()
        dialog = page.get_by_role("dialog", name="Roll back to revision 1")
        await dialog.get_by_role("button", name="Preview").click()
        await expect(dialog.locator(".preview")).to_contain_text("system.port")
        assert (await get(page, server, "/v1/config"))["revision"] == 2
        await dialog.get_by_label("Note").fill("as before")
        await dialog.get_by_role("button", name="Roll back").click()
        newest = page.get_by_role("row").filter(has_text="as before")
        await expect(newest).to_be_visible()
        await expect(newest.get_by_role("button")).to_have_count(0)
        assert "pendingRestart" not in await get(page, server, "/v1/config")
        # One can go back to what was before the first change as well.
        first = page.get_by_role("row").filter(has_text="Before the first change")
        await first.get_by_role("button", name="Roll back").click()
        dialog = page.get_by_role("dialog", name="Roll back to revision 0")
        await dialog.get_by_role("button", name="Preview").click()
        await expect(dialog.locator(".preview")).to_contain_text("limits.steps")


async def test_the_second_editor_sees_what_the_first_has_changed_and_loses_nothing(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        first = await open_page(f"{server.url}/settings/limits.steps")
        second = await open_page(f"{server.url}/settings/limits.toolCalls")
        await preview(second, "7", "fewer tools")
        await expect(second.locator(".preview")).to_be_visible()
        await preview(first, "9")
        await first.get_by_role("button", name="Save").click()
        await expect(first.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
        await second.get_by_role("button", name="Save").click()
        conflict = second.locator(".conflict")
        await expect(conflict).to_contain_text("Settings were changed")
        await expect(conflict.get_by_role("row").filter(has_text="limits.steps")).to_contain_text("9")
        await expect(second.get_by_label("Value", exact=True)).to_have_value("7")
        await expect(second.get_by_label("Note", exact=True)).to_have_value("fewer tools")
        await second.get_by_role("button", name="Preview").click()
        await second.get_by_role("button", name="Save").click()
        await expect(second.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
        config = (await get(second, server, "/v1/config"))["config"]
        assert (config["limits"]["steps"], config["limits"]["toolCalls"]) == (9, 7)
        await second.get_by_label("Remove the change").check()
        await second.get_by_role("button", name="Preview").click()
        await second.get_by_role("button", name="Save").click()
        await expect(second.get_by_role("row").filter(has_text="changed here")).to_have_count(0)
        # A setting that no layer has a value for.
        await second.goto(f"{server.url}/settings/llm.baseUrl")
        await expect(second.locator(".effective")).to_contain_text("Not set")


async def test_a_secret_is_set_never_shown_and_deleted_by_its_name(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/settings/secrets")
        await page.get_by_label("Name").fill("GITHUB_TOKEN")
        await page.get_by_label("Value").fill("ghp_secret_value")
        await page.get_by_role("button", name="Save").click()
        row = page.get_by_role("row").filter(has_text="GITHUB_TOKEN")
        await expect(row).to_be_visible()
        await expect(page.get_by_label("Value")).to_have_value("")
        await page.reload()
        await expect(row).to_be_visible()
        assert "ghp_secret_value" not in await page.content()
        value = await server.server.vm.tenancy.vault.get(DEFAULT_TENANT, "GITHUB_TOKEN")
        assert value is not None
        assert value.reveal() == "ghp_secret_value"
        await row.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
        await dialog.get_by_role("textbox").fill("GITHUB_TOKEN")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(row).to_have_count(0)


async def test_retention_counts_what_would_go(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        await say(server, "hello")
        page = await open_page(f"{server.url}/settings/retention")
        await expect(page.locator(".figures dd").first).to_have_text("0")
        await page.get_by_label("Conversations without a new message, after").fill("30")
        await page.get_by_role("button", name="Count").click()
        await expect(page).to_have_url(f"{server.url}/settings/retention?sessionDays=30")
        await expect(page.get_by_role("heading", name="What would go with these days")).to_be_visible()
        await page.get_by_role("link", name="Change the setting").first.click()
        await expect(page.get_by_role("heading", name="retention.sessionDays")).to_be_visible()


async def test_an_export_of_chatgpt_comes_in_after_a_dry_run_and_everything_goes_elsewhere(
    open_page: Open, tmp_path: Path
) -> None:
    foreign = tmp_path / "conversations.json"
    foreign.write_text(json.dumps([CONVERSATION]), encoding="utf-8")
    async with start_server(IN_MEMORY, drivers=driver()) as server, start_server(IN_MEMORY, drivers=driver()) as elsewhere:
        page = await open_page(f"{server.url}/settings/import")
        await page.get_by_label("File").set_input_files(foreign)
        await page.get_by_label("Container").fill("imported")
        await page.get_by_role("button", name="Preview").click()
        report = page.locator(".preview")
        await expect(report).to_contain_text("What would be imported")
        await expect(report).to_contain_text("ChatGPT")
        assert (await get(page, server, "/v1/sessions"))["items"] == []
        await page.get_by_role("button", name="Import", exact=True).click()
        await expect(report).to_contain_text("What was imported")
        (session,) = (await get(page, server, "/v1/sessions"))["items"]
        assert session["title"] == "Products"
        # What another program has answered has no price here, and is no error.
        imported = await open_page(f"{server.url}/c/{session['sessionId']}")
        await expect(imported.locator(".answer").first).to_be_visible()
        await expect(imported.locator(".log")).to_have_attribute("aria-busy", "false")
        await expect(imported.locator(".bill-amounts, .item-error, main [role=alert]")).to_have_count(0)
        archive = tmp_path / "all.zip"
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download everything").click()
        await (await download.value).save_as(archive)
        other = await open_page(f"{elsewhere.url}/settings/import")
        await other.get_by_label("File").set_input_files(archive)
        await other.get_by_role("button", name="Preview").click()
        await expect(other.locator(".preview")).to_contain_text("AgentVM")
        await other.get_by_role("button", name="Import", exact=True).click()
        await expect(other.locator(".preview")).to_contain_text("What was imported")
        again = await (await other.request.get(f"{elsewhere.url}/v1/export")).body()
        assert again == archive.read_bytes()
        broken = tmp_path / "broken.zip"
        broken.write_bytes(b"no archive")
        await other.get_by_label("File").set_input_files(broken)
        await other.get_by_role("button", name="Preview").click()
        await expect(other.locator(".failure")).to_contain_text("archive_invalid")
