"""Memories in the console."""

from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.memory import Memory, MemoryId

HOSTILE = "<img src=x onerror=alert(1)> likes tea"


async def test_a_memory_is_kept_pinned_changed_deleted_and_brought_back(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        store = server.server.vm.store.tenant(DEFAULT_TENANT).container(ContainerId("default")).memories
        proposed = Memory(memory_id=MemoryId("tea"), text=HOSTILE, by="agent", proposed=True, created_at=1, updated_at=1)
        page = await open_page(f"{server.url}/me/memories")
        await page.get_by_label("Memory", exact=True).fill("Speaks Chinese at home")
        await page.get_by_role("button", name="Add").click()
        await expect(page.get_by_role("row").filter(has_text="Chinese")).to_contain_text("You")
        await store.put(proposed)
        await page.reload()
        tea = page.get_by_role("row").filter(has_text="likes tea")
        await expect(tea).to_contain_text("Proposed")
        await tea.get_by_role("button", name="Keep").click()
        await expect(tea).not_to_contain_text("Proposed")
        await tea.get_by_role("button", name="Always tell it").click()
        await expect(tea).to_contain_text("Always told")
        await tea.get_by_role("button", name="Edit").click()
        await page.get_by_label("Memory", exact=True).fill("likes tea with milk")
        await page.get_by_role("button", name="Save").click()
        await expect(tea).to_contain_text("with milk")
        await tea.get_by_role("button", name="Delete").click()
        await expect(tea).to_have_count(0)
        await page.get_by_role("button", name="Undo").click()
        await expect(tea).to_contain_text("with milk")
        assert await page.locator("main img").count() == 0
        assert {(memory.text, memory.pinned) for memory in await store.list()} == {
            ("Speaks Chinese at home", False),
            ("likes tea with milk", True),
        }
