"""Signing in to the console and out of it."""

from collections.abc import Iterable

import anyio
from playwright.async_api import Page, expect
from tests.console.conftest import PHONE, Open
from tests.console.network import Cable
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, echo, last_user_text
from agentvm.model.account import User
from agentvm.model.ids import DEFAULT_TENANT, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.server.local import RunningServer

GUARDED = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on"))
WHOAMI = "**/v1/auth/whoami"
SCROLLABLE = "document.documentElement.scrollHeight - document.documentElement.clientHeight"
STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.state])"
"""All that a script of the page can read."""
DATABASES = """async () => {
  const ended = (request) => new Promise((done) => (request.onsuccess = () => done(request.result)));
  const rows = [];
  for (const { name } of await indexedDB.databases()) {
    const db = await ended(indexedDB.open(name));
    for (const store of db.objectStoreNames) rows.push(await ended(db.transaction(store).objectStore(store).getAll()));
    db.close();
  }
  return JSON.stringify(rows);
}"""


async def sign_in(page: Page, key: str, *, keep: bool = False) -> None:
    await page.get_by_label("API key", exact=True).fill(key)
    await page.get_by_label("Keep me signed in").set_checked(keep)
    await page.get_by_role("button", name="Sign in").click()


async def signed_in(page: Page, key: str, *, keep: bool = False) -> None:
    await sign_in(page, key, keep=keep)
    await expect(page.locator(".rail")).to_be_visible()


def first_key(server: RunningServer) -> str:
    assert server.first_key is not None
    return server.first_key.reveal()


async def test_a_key_signs_in_and_is_in_no_storage(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        key = first_key(server)
        page = await open_page(f"{server.url}/search?q=x")
        await sign_in(page, "avm_wrong")
        await expect(page.get_by_role("alert")).to_contain_text("This API key is not valid")
        assert await page.evaluate(SCROLLABLE) == 0
        await sign_in(page, key)
        await expect(page.get_by_role("heading", name="Search messages")).to_be_visible()
        # Nothing is left of the frame that stood until the script came.
        assert await page.evaluate(SCROLLABLE) == 0
        (cookie,) = await page.context.cookies()
        assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (
            "avm_session",
            True,
            "Strict",
            -1,
        )
        await page.goto(server.url)
        await say(page, "Hello")
        await expect(page.locator(".answer")).to_have_text("Hello")
        readable = await page.evaluate(STORED) + await page.evaluate(DATABASES)
        assert key not in readable
        assert cookie["value"] not in readable
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("API key")).to_be_visible()
        await expect(page.get_by_label("API key")).to_have_value("")
        assert await page.context.cookies() == []
        await page.reload()
        await expect(page.get_by_label("API key")).to_be_visible()
        await expect(page.locator(".notice")).to_have_text("")


async def test_a_browser_stays_signed_in_when_it_is_asked_to(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        page = await open_page(server.url)
        await signed_in(page, first_key(server), keep=True)
        (cookie,) = await page.context.cookies()
        assert cookie["expires"] > 0


async def test_a_revoked_key_leads_to_the_sign_in_page_with_the_reason(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        access = server.server.vm.tenancy.access
        operator = await access.authenticate(first_key(server))
        record, key = await access.issue(operator.tenant_id, name="laptop", granter=operator)
        page = await open_page(server.url)
        await signed_in(page, key.reveal())
        await access.revoke(record.tenant_id, record.key_id)
        await expect(page.locator(".notice")).to_contain_text("was revoked")
        await sign_in(page, key.reveal())
        await expect(page.get_by_role("alert")).to_contain_text("This API key was revoked")
        await signed_in(page, first_key(server))


async def expire(page: Page, server: RunningServer) -> None:
    """Ends the session of a page, as one that ran out."""
    failure = {"code": "unauthenticated", "message": "x", "requestId": "r", "details": {"reason": "expired"}}
    await page.route(WHOAMI, lambda route: route.fulfill(status=401, json={"error": failure}))
    runtime = server.server.vm.runtime
    with anyio.fail_after(60):
        while not runtime.broadcaster.channels:  # noqa: ASYNC110  # there is no event to wait for
            await anyio.sleep(0.01)
    server.server.vm.tenancy.access.end(DEFAULT_TENANT, lambda principal: True)
    await expect(page.locator(".notice")).to_contain_text("expired")


async def test_what_was_typed_is_there_again_after_a_session_that_ran_out(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        access = server.server.vm.tenancy.access
        operator = await access.authenticate(first_key(server))
        ada = User(
            user_id=UserId("user_ada"), tenant_id=DEFAULT_TENANT, external_id="ada", role="admin", created_at=1, updated_at=1
        )
        await access.add_user(ada)
        issued = [
            await access.issue(DEFAULT_TENANT, name=name, granter=operator, user_id=ada.user_id)
            for name in ("old", "new", "newest")
        ]
        keys = [key.reveal() for _, key in issued]
        page = await open_page(f"{server.url}/agents/new")
        await signed_in(page, keys[0])
        await page.get_by_label("Name", exact=True).fill("Half an agent")
        await expire(page, server)
        await expect(page.get_by_label("Name", exact=True)).to_be_hidden()
        await page.unroute(WHOAMI)
        await signed_in(page, keys[1])
        await expect(page.get_by_label("Name", exact=True)).to_have_value("Half an agent")
        await expect(page.get_by_label("API key")).to_have_count(0)
        # Whose key was revoked comes back with another one.
        await access.revoke(DEFAULT_TENANT, issued[1][0].key_id)
        await expect(page.locator(".notice")).to_contain_text("was revoked")
        await expect(page.get_by_label("Name", exact=True)).to_be_hidden()
        await signed_in(page, keys[2])
        await expect(page.get_by_label("Name", exact=True)).to_have_value("Half an agent")
        # Somebody else finds nothing of it.
        await expire(page, server)
        await page.unroute(WHOAMI)
        await signed_in(page, first_key(server))
        await expect(page.get_by_label("Name", exact=True)).to_have_value("")
        # A form in a dialog is kept as well, and the place in it.
        await page.goto(f"{server.url}/people/keys")
        await page.get_by_role("button", name="New key").click()
        name = page.locator("dialog.modal input").first
        await name.fill("Half a key")
        await expire(page, server)
        await expect(page.get_by_label("API key", exact=True)).to_be_focused()
        # Escape closes neither.
        await page.keyboard.press("Escape")
        await page.keyboard.press("Escape")
        await page.unroute(WHOAMI)
        await signed_in(page, first_key(server))
        await expect(name).to_have_value("Half a key")
        await expect(name).to_be_focused()


async def test_signing_out_reaches_the_other_tabs_and_a_list_the_other_devices(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        key = first_key(server)
        desk, phone = await open_page(server.url), await open_page(server.url, viewport=PHONE)
        tab = await desk.context.new_page()
        await tab.goto(server.url)
        await expect(tab.get_by_label("API key")).to_be_visible()
        await signed_in(desk, key)
        # The other tab has the same cookie.
        await expect(tab.get_by_role("button", name="Sign out")).to_be_visible()
        await signed_in(phone, key)
        await desk.get_by_role("button", name="Signed-in devices").click()
        await expect(desk.locator(".devices li")).to_have_count(2)
        other = desk.locator(".devices li").filter(has_not_text="This device")
        await other.get_by_role("button", name="Sign out").click()
        await expect(desk.locator(".devices li")).to_have_count(1)
        await expect(phone.locator(".notice")).to_contain_text("signed out on this device")
        await desk.get_by_role("button", name="Close").click()
        await desk.get_by_role("button", name="Sign out").click()
        for page in (desk, tab):
            await expect(page.get_by_label("API key")).to_be_visible()


async def test_signing_out_everywhere_else_reaches_every_other_device_and_not_this_one(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        desk, *others = [await open_page(f"{server.url}/me") for _ in range(3)]
        for page in (desk, *others):
            await signed_in(page, first_key(server))
        await desk.reload()
        await expect(desk.locator(".lines li")).to_have_count(3)
        await desk.get_by_role("button", name="Sign out everywhere else").click()
        for page in others:
            await expect(page.locator(".notice")).to_contain_text("signed out on this device")
        await expect(desk.locator(".lines li")).to_have_count(1)
        await expect(desk.get_by_role("button", name="Sign out everywhere else")).to_have_count(0)


async def test_a_page_of_another_origin_can_neither_use_nor_frame_it(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server, start_server(IN_MEMORY, drivers=driver()) as other:
        page = await open_page(server.url)
        await signed_in(page, first_key(server))
        # The same host with another port is the same site, so that the browser sends the cookie.
        foreign = await page.context.new_page()
        await foreign.goto(f"{other.url}/openapi.json")
        opened = await foreign.evaluate(
            """async (url) => {
              const socket = new WebSocket(url);
              return new Promise((done) => { socket.onopen = () => done("open"); socket.onerror = () => done("refused"); });
            }""",
            server.ws_url,
        )
        assert opened == "refused"
        posted = """url => fetch(url, {method: "POST", mode: "no-cors", credentials: "include"}).then(() => "sent")"""
        async with foreign.expect_response(lambda response: "ws-token" in response.url) as answered:
            await foreign.evaluate(posted, f"{server.url}/v1/auth/ws-token")
        assert (await answered.value).status == 403
        # Nor can a program that has the cookie and does not say where it comes from, or comes with a key as well.
        for headers, status in (
            ({}, 403),
            ({"Origin": server.url, "Sec-Fetch-Site": "cross-site"}, 403),
            ({"Origin": other.url, "Sec-Fetch-Site": "same-origin"}, 403),
            ({"Origin": server.url, "Sec-Fetch-Site": "same-origin", "Authorization": "Bearer avm_other"}, 400),
            # Over plain HTTP browsers do not say which site asks, other than of their own machine: the origin decides.
            ({"Origin": server.url}, 201),
            ({"Origin": server.url, "Sec-Fetch-Site": "same-origin"}, 201),
        ):
            reply = await page.request.post(f"{server.url}/v1/auth/ws-token", headers=headers)
            assert reply.status == status, (headers, await reply.text())
        await foreign.set_content(f'<iframe src="{server.url}"></iframe>')
        (frame,) = foreign.frames[1:]
        await frame.wait_for_url(lambda url: url.startswith("chrome-error:"))


async def test_a_message_that_waits_is_not_sent_for_the_next_user_of_the_browser(open_page: Open) -> None:
    heard: list[str] = []

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        heard.append(last_user_text(prompt))
        return echo(prompt)

    async with start_server(GUARDED, drivers=driver(script)) as server:
        operator = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)
        _, theirs = await server.server.vm.tenancy.access.issue(DEFAULT_TENANT, name="theirs", granter=operator)
        page, cable = await open_page(server.url), Cable()
        await signed_in(page, first_key(server))
        await cable.lay(page)
        await say(page, "first")
        await expect(page.locator(".answer")).to_have_text("first")
        await cable.unplug()
        await expect(page.get_by_role("status").filter(has_text="No connection")).to_be_visible()
        await say(page, "mine alone")
        await expect(page.locator(".bubble-pending")).to_have_count(1)
        await page.context.clear_cookies()
        await cable.plug()
        await page.reload()
        await signed_in(page, theirs.reveal())
        await say(page, "second")
        await expect(page.locator(".answer").last).to_have_text("second")
    assert heard == ["first", "second"]
