"""The cost of serving users in the console."""

import re
from pathlib import Path

from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server
from agentvm.cost import coefficients, prices
from agentvm.cost.estimate import estimate
from agentvm.cost.shapes import SHAPES
from agentvm.cost.workload import Workload

ZH = Path(__file__).parents[2] / "console" / "src" / "words" / "people" / "cost_zh.ts"


async def test_a_workload_has_its_bill_its_changes_and_an_address(open_page: Open) -> None:
    usual = estimate(Workload(), coefficients.shipped(), prices.shipped())
    small = estimate(Workload(users=1_000, turns=30_000), coefficients.shipped(), prices.shipped())
    assert usual.total is not None
    assert small.total is not None
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/usage")
        await page.get_by_role("link", name="Cost of serving").click()
        total = page.locator(".figures dd").first
        await expect(total).to_have_text(f"${usual.total:,.2f}")
        for each in usual.measures:
            await expect(page.get_by_role("row").filter(has_text=each.source).first).to_be_visible()
        for change in usual.sensitivity:
            await expect(page.get_by_role("row").filter(has_text=change.change)).to_be_visible()
        await page.get_by_label("Registered users").fill("1000")
        await page.get_by_label("Turns of all users in a month").fill("30000")
        await page.get_by_role("button", name="Estimate").click()
        await expect(total).to_have_text(f"${small.total:,.2f}")
        await page.reload()
        await expect(total).to_have_text(f"${small.total:,.2f}")
        await page.get_by_label("Turns of all users in a month").fill("30000000000")
        await page.get_by_role("button", name="Estimate").click()
        await expect(page.get_by_text("This shape has no price")).to_be_visible()
        await page.get_by_label("Share of users connected at once").fill("7")
        await page.get_by_role("button", name="Estimate").click()
        await expect(page.get_by_role("alert")).to_contain_text("connected")
        await expect(page.get_by_label("Share of users connected at once")).to_have_value("7")


def test_every_name_of_an_estimate_is_said_in_chinese() -> None:
    found, *others = (estimate(Workload(), coefficients.shipped(), prices.shipped(), shape) for shape in SHAPES)
    names = {each.change for each in found.sensitivity} | {peer.name for peer in found.peers}
    names |= {line.name.partition(", ")[0] for bill in (found, *others) for line in bill.lines}
    needs = found.needs
    names |= {term.name for each in needs.__struct_fields__ for term in getattr(needs, each).terms}
    names |= {each.name for bill in (found, *others) for each in bill.measures}
    written = ZH.read_text("utf-8")
    assert {name for name in names if not re.search(rf'^ +"?{re.escape(name)}"?: "', written, re.MULTILINE)} == set()
