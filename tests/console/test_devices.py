"""Several devices of one user: drafts, read marks, and one outbox for all tabs."""

import re
from collections.abc import Iterable

from playwright.async_api import expect
from tests.console.conftest import PHONE, Open
from tests.console.network import Cable
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, echo, last_user_text


async def test_a_draft_of_the_phone_is_offered_on_the_desk_and_comes_back_after_a_reload(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        desk = await open_page(server.url)
        await say(desk, "Hello")
        await expect(desk.locator(".answer")).to_have_text("Hello")
        phone = await open_page(desk.url, viewport=PHONE)
        await phone.evaluate("() => localStorage.setItem('avm.device', 'phone-1')")
        await phone.get_by_label("Message", exact=True).press_sequentially("buy mil")
        offer = desk.locator(".other-draft")
        await expect(offer).to_contain_text("On your phone: buy mil")
        other = await open_page(server.url)
        await expect(other.locator(".row .row-draft")).to_have_text("Draft ")
        await offer.get_by_role("button", name="Use").click()
        field = desk.get_by_label("Message", exact=True)
        await expect(field).to_have_value("buy mil")
        await expect(offer).to_have_count(0)
        await field.press_sequentially("k")
        # The server has the draft of the desk.
        await expect(phone.locator(".other-draft")).to_contain_text("buy milk")
        await expect(other.locator(".row .row-draft")).to_have_count(1)
        await desk.evaluate("() => sessionStorage.clear()")
        await desk.reload()
        await expect(field).to_have_value("buy milk")
        await field.press("Enter")
        await expect(desk.locator(".answer")).to_have_text(["Hello", "buy milk"])
        await expect(other.locator(".row .row-draft")).to_have_count(0)


async def test_an_answer_is_unread_elsewhere_until_it_was_looked_at(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        desk = await open_page(server.url)
        await say(desk, "Hello")
        await expect(desk.locator(".answer")).to_have_text("Hello")
        address = desk.url
        await desk.goto(server.url)
        image = (await server.agentx.images.list("default"))[0]
        agent = await server.agentx.images.run(image.image_id)
        await agent.receive("From elsewhere")
        # The first answer is read once it has been in sight for a second, which may be over or not.
        await expect(desk.locator(".row .count")).to_have_text(re.compile("^[12]$"))
        await expect(desk.locator(".row .row-preview")).to_have_text("From elsewhere")
        phone = await open_page(address, viewport=PHONE)
        await expect(phone.locator(".answer")).to_have_count(2)
        await expect(desk.locator(".row .count")).to_have_count(0)


async def test_two_tabs_have_one_outbox_and_a_message_is_one_turn(open_page: Open) -> None:
    heard: list[str] = []

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        heard.append(last_user_text(prompt))
        return echo(prompt)

    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        first, cable = await open_page(server.url), Cable()
        await cable.lay(first)
        await say(first, "one")
        await expect(first.locator(".answer")).to_have_count(1)
        second = await first.context.new_page()
        await second.goto(first.url)
        await expect(second.locator(".answer")).to_have_count(1)
        await cable.unplug()
        for page in (first, second):
            await expect(page.locator(".banner")).to_be_visible()
        await say(first, "two")
        await expect(first.locator(".bubble-pending")).to_have_count(1)
        await say(second, "three")
        for page in (first, second):
            await expect(page.locator(".bubble-pending .said")).to_have_text(["two", "three"])
        await cable.plug()
        for page in (first, second):
            await expect(page.locator(".answer")).to_have_text(["one", "two", "three"])
            await expect(page.locator(".bubble-pending")).to_have_count(0)
    assert heard == ["one", "two", "three"]
