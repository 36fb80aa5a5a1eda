"""Files that go with a message: dropped, pasted, chosen, refused, and kept while there is no connection."""

import base64

from playwright.async_api import FilePayload, Page, expect
from tests.console.conftest import Open
from tests.console.network import Cable
from tests.console.test_journeys import driver, say

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.scripted import reply
from agentvm.model.limits import Limits

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SMALL = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY), limits=Limits(attachment_bytes=10_000))
GIVE = """(target, [kind, name, type, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type }));
  const about = { bubbles: true, cancelable: true };
  if (kind === "paste") target.dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, ...about }));
  else target.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, ...about }));
}"""


async def give(page: Page, kind: str, name: str, media_type: str, data: bytes) -> None:
    field = page.get_by_label("Message", exact=True)
    await field.evaluate(GIVE, [kind, name, media_type, base64.b64encode(data).decode()])


async def test_files_are_dropped_pasted_and_chosen_and_shown_from_the_own_server(open_page: Open) -> None:
    async with start_server(SMALL, drivers=driver(lambda prompt: reply("Seen."))) as server:
        page = await open_page(server.url)
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        await say(page, "Hello")
        await expect(page.locator(".answer")).to_have_count(1)
        await give(page, "drop", "dropped.png", "image/png", PNG)
        await give(
            page,
            "paste",
            "<b>pasted</b>.svg",
            "image/svg+xml",
            b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hit=1'/>",
        )
        chosen = FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"Herons eat fish.")
        await page.get_by_label("Attach files").set_input_files([chosen])
        await expect(page.locator(".file")).to_have_count(3)
        await expect(page.locator(".file progress")).to_have_count(0)
        await page.get_by_role("button", name="Remove notes.txt").click()
        await page.get_by_label("Attach files").set_input_files([chosen])
        await give(page, "drop", "large.bin", "application/octet-stream", bytes(20_000))
        await expect(page.get_by_role("status").filter(has_text="large.bin: The file is too large")).to_be_visible()
        await expect(page.locator(".file")).to_have_count(3)
        await say(page, "Look")
        await expect(page.locator(".answer")).to_have_count(2)
        for is_reloaded in (False, True):
            if is_reloaded:
                await page.reload()
            picture = page.get_by_role("img", name="dropped.png")
            await expect(picture).to_be_visible()
            assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
            await expect(page.locator("a[download]", has_text="pasted")).to_have_attribute("download", "<b>pasted</b>.svg")
            await expect(page.locator(".bubble img")).to_have_count(1)
            async with page.expect_download() as started:
                await page.get_by_role("link", name="Download notes.txt").click()
            assert (await started.value).suggested_filename == "notes.txt"
        assert await page.evaluate("window.hit") is None
        assert [url for url in requested if not url.startswith((server.url, "blob:"))] == []


async def test_a_file_attached_without_a_connection_is_sent_after_a_reload(open_page: Open) -> None:
    async with start_server(SMALL, drivers=driver(lambda prompt: reply("Seen."))) as server:
        page, cable = await open_page(server.url), Cable()
        await cable.lay(page)
        await say(page, "Hello")
        await expect(page.locator(".answer")).to_have_count(1)
        address = page.url
        await page.route("**/v1/attachments*", lambda route: route.abort())
        await cable.unplug()
        await expect(page.locator(".banner")).to_be_visible()
        await give(page, "drop", "picture.png", "image/png", PNG)
        await expect(page.locator(".file")).to_have_count(1)
        await say(page, "Look")
        await expect(page.locator(".bubble-pending")).to_contain_text("Look")
        await page.goto(address)
        await expect(page.locator(".bubble-pending")).to_contain_text("Look")
        await page.unroute("**/v1/attachments*")
        await cable.plug()
        await expect(page.locator(".answer")).to_have_count(2)
        await expect(page.locator(".bubble-pending")).to_have_count(0)
        await expect(page.get_by_role("img", name="picture.png")).to_be_visible()
