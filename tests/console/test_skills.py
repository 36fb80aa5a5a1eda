"""Skills in the console."""

from pathlib import Path

from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server

FIRST = "---\nname: refunds\ndescription: Handles refunds.\n---\n# Steps\n\nRead **policy.md**. <img src=x onerror=alert(1)>\n"


async def test_a_skill_is_written_replaced_by_a_folder_and_given_to_an_agent(open_page: Open, tmp_path: Path) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/skills")
        await expect(page.locator(".empty")).to_have_text("No skills yet. Write one below, or choose a folder.")
        await page.get_by_label("Name").fill("refunds")
        await page.get_by_label("Description").fill("Refunds: when a customer wants money back")
        await page.get_by_label("Instructions").fill("Ask for the order first.")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name="refunds")).to_be_visible()
        await expect(page.locator(".paper")).to_have_text("Ask for the order first.")
        await expect(page.locator("main")).to_contain_text("Refunds: when a customer wants money back")

        folder = tmp_path / "refunds"
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "config").write_text("hidden")
        (folder / "readme.txt").write_text("Without instructions.")
        files = page.get_by_label("Files", exact=True)
        await files.set_input_files(folder)
        await page.get_by_role("button", name="Publish").click()
        await expect(page.get_by_role("alert")).to_contain_text("There is no SKILL.md in the folder.")
        (folder / "SKILL.md").write_text(FIRST)
        (folder / "policy.md").write_text("Five days.")
        await files.set_input_files(folder)
        await page.get_by_role("button", name="Publish").click()
        await expect(page.locator(".sub").first).to_contain_text("Version 1.0.1")
        instructions = page.get_by_role("region", name="Instructions")
        await expect(instructions.locator("strong")).to_have_text("policy.md")
        await expect(instructions.locator("img")).to_have_count(0)
        rows = page.get_by_role("group", name="Files").locator("tbody tr")
        await expect(rows).to_contain_text(["policy.md", "readme.txt"])
        await page.get_by_role("link", name="policy.md").click()
        await expect(page.get_by_role("region", name="policy.md").locator("pre")).to_have_text("Five days.")

        await page.goto(f"{server.url}/agents/new")
        await page.get_by_label("Name", exact=True).fill("Cashier")
        await page.get_by_label("refunds").check()
        await expect(page.get_by_label("Skills by reference")).to_have_value("resource://skills/refunds")
        await page.locator(".form-end .btn-ink").click()
        await expect(page.locator(".try .composer")).to_be_visible()
        await page.goto(f"{server.url}/skills")
        await expect(page.get_by_role("row").filter(has_text="refunds").locator(".figure")).to_have_text("1")
        await page.get_by_role("link", name="refunds").click()
        await expect(page.get_by_role("link", name="Cashier")).to_be_visible()
