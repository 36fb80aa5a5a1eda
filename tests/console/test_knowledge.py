"""Knowledge bases in the console."""

from urllib.parse import quote

from playwright.async_api import FilePayload, expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server

RETURNS = "# Returns\n\nGoods come back within **seven** days. <img src=x onerror=alert(1)>\n\n# 退货\n\n七天之内可以退货。\n"


async def test_files_become_a_knowledge_base_whose_citations_open_their_exact_range(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/knowledge")
        await page.get_by_label("Name").fill("company-docs")
        first = FilePayload(name="our returns.md", mimeType="text/markdown", buffer=RETURNS.encode())
        await page.get_by_label("Files").set_input_files(first)
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name="company-docs")).to_be_visible()
        rows = page.get_by_role("group", name="Documents").locator("tbody tr")
        await expect(rows).to_contain_text(["our-returns.md"])

        prices = FilePayload(name="prices.csv", mimeType="text/csv", buffer=b"thing,price\nlamp,40\n")
        await page.get_by_label("Files").set_input_files(prices)
        await page.get_by_role("button", name="Add to the documents").click()
        await expect(rows).to_contain_text(["our-returns.md", "prices.csv"])
        await expect(page.locator(".sub").first).to_contain_text("Version 1.0.1")

        await page.get_by_text("Search and passages").click()
        await page.get_by_label("Passages with each question").fill("3")
        await page.get_by_label("Characters of a passage").fill("60")
        await page.get_by_role("button", name="Publish").click()
        await expect(page.locator(".sub").first).to_contain_text("Version 1.0.2")
        uri = quote("resource://knowledge/company-docs", safe="")
        content = (await (await page.request.get(f"{server.url}/v1/resources/{uri}")).json())["content"]
        assert content["retrieval"] == {"inject": 3, "mode": "words"}
        assert (content["chunking"], len(content["documents"])) == ({"size": 60, "overlap": 59}, 2)

        await page.get_by_label("Question", exact=True).fill("退货")
        await page.get_by_role("button", name="Search").click()
        passages = page.get_by_role("region", name="Passages")
        await expect(passages.locator("li").first).to_contain_text("七天之内可以退货")
        await expect(passages.locator("img")).to_have_count(0)
        link = passages.get_by_role("link").first
        cite = await link.inner_text()
        await link.click()
        cited = page.get_by_role("region", name="Cited passage")
        document, _, span = cite.rpartition(":")
        start, _, end = span.partition("-")
        assert document.endswith("#our-returns.md")
        await expect(cited.locator("pre")).to_have_text(RETURNS[int(start) : int(end)], use_inner_text=True)
        # The question and the citation are in the address.
        await page.reload()
        await expect(cited.locator("pre")).to_contain_text("七天之内可以退货")
        await cited.get_by_role("link", name="Close").click()
        await expect(cited).to_have_count(0)

        await rows.filter(has_text="prices.csv").get_by_role("button", name="Remove").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await expect(rows).to_contain_text(["our-returns.md"])
        await page.get_by_role("link", name="Versions and content").click()
        await page.get_by_role("link", name="Documents").click()
        await expect(rows).to_have_count(1)


async def test_large_files_become_a_collection_whose_documents_are_read_replaced_and_removed(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/knowledge")
        await page.get_by_label("Name").fill("handbook")
        large = FilePayload(name="all about tea.txt", mimeType="text/plain", buffer=b"All about green tea. " * 120_000)
        broken = FilePayload(name="broken.json", mimeType="application/json", buffer=b"{")
        await page.get_by_label("Files").set_input_files([large, broken])
        await page.get_by_role("button", name="Create").click()
        rows = page.get_by_role("group", name="Documents").locator("tbody tr")
        await expect(rows).to_contain_text(["all-about-tea.txt", "not valid JSON"])
        await expect(rows.first).to_contain_text("passages")

        returns = FilePayload(name="returns.md", mimeType="", buffer=RETURNS.encode())
        await page.get_by_label("Files").set_input_files(returns)
        await page.get_by_role("button", name="Add to the documents").click()
        await expect(page.locator(".sub").first).to_contain_text("Version 1.0.1")
        await expect(rows).to_contain_text(["all-about-tea.txt", "Cannot be read", "Read"])
        await page.get_by_label("Question", exact=True).fill("退货")
        await page.get_by_role("button", name="Search").click()
        await expect(page.get_by_role("region", name="Passages").locator("li").first).to_contain_text("七天之内可以退货")

        await rows.filter(has_text="broken.json").get_by_role("button", name="Remove").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await expect(rows.filter(has_text="broken.json")).to_contain_text("Removed")

        await page.goto(f"{server.url}/knowledge")
        collections = page.get_by_role("group", name="Collections").locator("tbody tr")
        for action in ("Forget earlier revisions", "Remove"):
            await collections.filter(has_text="handbook").get_by_role("button", name=action).click()
            await page.get_by_role("dialog").get_by_role("button", name=action).click()
            await expect(page.get_by_role("button", name=action)).to_have_count(0)
        await expect(collections).to_have_count(0)
