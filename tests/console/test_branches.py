"""The tree of conversations, and those that were deleted."""

from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_actions import begin, menu
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import start_server
from agentvm.model.definition import Definition
from agentvm.operations.session import SessionArchive, SessionSetTitle

LISTED, MORE = 100, 3


async def test_a_fork_is_marked_at_its_message_and_the_tree_leads_back(open_page: Open) -> None:
    clerk = Definition(name="clerk", description="Looks after orders.")
    async with start_server(IN_MEMORY, definitions=[clerk], drivers=driver()) as server:
        page = await open_page(server.url)
        await begin(page, "one", "two")
        origin = page.url
        await page.get_by_role("button", name="Fork from here").first.click()
        await expect(page.locator(".said")).to_have_text(["one"])
        fork = page.url
        await menu(page, "Branches")
        tree = page.get_by_role("dialog", name="Branches")
        await expect(tree.locator("a")).to_have_count(2)
        await expect(tree.locator("ul ul [aria-current]")).to_have_count(1)
        await tree.locator("a").first.click()
        await expect(page).to_have_url(origin)
        await expect(page.locator(".said")).to_have_text(["one", "two"])
        await page.locator(".branches summary").click()
        await expect(page.locator(".branches a")).to_have_attribute("href", fork.removeprefix(server.url))
        await menu(page, "Fork with another agent")
        await page.get_by_role("dialog").get_by_role("button", name="clerk").click()
        await expect(page.locator(".said")).to_have_text(["one", "two"])
        await expect(page).not_to_have_url(origin)
        await say(page, "three")
        await expect(page.locator(".bill")).to_have_count(3)
        await expect(page.locator(".item-answer .who").last).to_contain_text("clerk")
        await menu(page, "Branches")
        await expect(tree.locator("a")).to_have_count(3)


async def test_a_deleted_conversation_is_listed_and_restored(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await begin(page, "**Hello** `there`")
        await menu(page, "Delete conversation")
        await expect(page.locator(".row")).to_have_count(0)
        await page.get_by_role("link", name="Archived conversations").click()
        deleted = page.get_by_role("list", name="Deleted conversations").get_by_role("listitem")
        await expect(deleted).to_contain_text("Gone for good on")
        await deleted.get_by_role("button", name="Restore").click()
        await expect(page.locator(".row")).to_have_count(1)
        await expect(deleted).to_have_count(0)
        # The answer is shown without the marks of Markdown.
        await expect(page.locator(".row-title")).to_have_text("Hello there")


async def test_all_conversations_are_listed_page_by_page(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        images = [await server.agentx.images.create() for _ in range(LISTED + MORE)]
        for number, image in enumerate(images):
            await server.agentx.ask(SessionSetTitle(session_id=image.session_id, title=f"Number {number}"))
        page = await open_page(server.url)
        rows = page.locator(".row")
        await expect(rows).to_have_count(LISTED)
        await page.get_by_role("button", name="Show more").click()
        await expect(rows).to_have_count(LISTED + MORE)
        # They stay when something changes.
        await server.agentx.ask(SessionSetTitle(session_id=images[0].session_id, title="The oldest"))
        await expect(rows.filter(has_text="The oldest")).to_have_count(1)
        await expect(rows).to_have_count(LISTED + MORE)
        await expect(page.get_by_role("button", name="Show more")).to_have_count(0)
        for image in images:
            await server.agentx.ask(SessionArchive(session_id=image.session_id, archived=True))
        await page.goto(f"{server.url}/archive")
        archived = page.get_by_role("list", name="Archived conversations").get_by_role("listitem")
        await expect(archived).to_have_count(LISTED)
        await page.get_by_role("button", name="Show more").click()
        await expect(archived).to_have_count(LISTED + MORE)
