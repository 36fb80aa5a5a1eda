"""People and money in the console: who sees what, from a tenant to a quota that is reached, and sums that agree."""

import csv
import io
import re
from typing import Any

import anyio
from msgspec.structs import replace
from playwright.async_api import Browser, Page, expect
from tests.console.conftest import DEADLINE_MS, DESK, Open
from tests.console.people import ACME, HOSTILE, ROUTES, PeopleServer, add_user, people_server, spend, visit
from tests.console.route_table import go, read_routes
from tests.console.test_access import axe, faults_of
from tests.console.test_journeys import IN_MEMORY, driver, say
from tests.console.test_sign_in import GUARDED, first_key, sign_in, signed_in
from tests.support.identity_provider import CLIENT_ID, identity_provider

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.model.ids import DEFAULT_TENANT, KeyId
from agentvm.model.setting import ChangeRequest
from agentvm.model.settings import OidcConfig
from agentvm.tenants.rights import DEFAULT_PERMISSIONS

__all__ = ["axe"]
FORBIDDEN = "This page needs the permission"


async def open_signed_in(open_page: Open, people: PeopleServer, key: str) -> Page:
    page = await open_page(people.url)
    await signed_in(page, key)
    return page


async def parameters(page: Page, people: PeopleServer, *, may_manage: bool, may_publish: bool) -> dict[str, str]:
    """Returns ids of things that the user of a page has: the parameters in the addresses of pages."""
    headers = {"Origin": people.url, "Sec-Fetch-Site": "same-origin"}

    async def send(method: str, path: str, body: object = None) -> Any:
        reply = await page.request.fetch(f"{people.url}/v1{path}", method=method, data=body, headers=headers)
        assert reply.ok, await reply.text()
        return await reply.json()

    image = (await send("POST", "/images", {"config": {"name": "Mine"}}))["image"]
    await send("POST", "/messages", {"sessionId": image["sessionId"], "content": "Hello"})
    (turn, *_) = (await send("GET", "/turns?limit=1"))["items"]
    (resource, *_) = (await send("GET", "/resources?limit=1"))["items"]
    users = (await send("GET", "/users?limit=1") if may_manage else {"items": []})["items"]
    share = await send("POST", f"/sessions/{image['sessionId']}/shares", {})
    if may_publish:
        documents = {"documents": [{"id": "a.md", "text": "Hello"}]}
        about = {"type": "knowledge", "name": "docs", "visibility": "public", "content": documents}
        await send("POST", "/resources", about)
        skill = {"text": "---\nname: greet\ndescription: Greets.\n---\nSay hello."}
        await send("POST", "/resources", {"type": "skills", "name": "greet", "visibility": "public", "content": skill})
    (base, *_) = (await send("GET", "/resources?type=knowledge"))["items"]
    (skill, *_) = (await send("GET", "/resources?type=skills"))["items"]
    values = {
        "base": base["id"],
        "skill": skill["id"],
        "share": share["shareId"],
        "image": image["imageId"],
        "session": image["sessionId"],
        "turn": turn["turnId"],
        "id": resource["id"],
    }
    return {**values, "key": "limits.steps", "user": users[0]["userId"] if users else "usr_ada", "tenant": "acme"}


async def test_everybody_opens_what_their_permissions_allow_and_is_told_which_are_missing(open_page: Open) -> None:
    routes = read_routes()
    async with people_server() as people:
        await add_user(people.server, "boss", "admin", tenant_id=DEFAULT_TENANT)
        # The operator comes first, and publishes what the others read.
        for key in (people.operator, people.admin, people.member):
            principal = await people.server.server.vm.tenancy.access.authenticate(key)
            is_operator = key == people.operator
            assert not is_operator or principal.permissions >= DEFAULT_PERMISSIONS["owner"]
            page = await open_signed_in(open_page, people, key)
            values = await parameters(
                page, people, may_manage="tenants:admin" in principal.permissions, may_publish=is_operator
            )
            allowed = [route for route in routes if not route.needs or set(route.needs) & principal.permissions]
            links = page.locator("nav.rail a.btn-icon")
            shown = [await links.nth(index).get_attribute("href") for index in range(await links.count())]
            in_rail = sorted(route.path for route in allowed if route.is_in_rail)
            assert sorted(path for path in shown if path not in (None, "/", "/search")) == in_rail
            for route in routes:
                await go(page, route.address(values))
                problem = page.locator(".problem", has_text=FORBIDDEN)
                if route in allowed:
                    await expect(page.locator("main h1"), route.path).to_be_visible()
                    await expect(page.locator(".bones"), route.path).to_have_count(0)
                    await expect(page.locator(".failure"), route.path).to_have_count(0)
                    await expect(problem, route.path).to_have_count(0)
                else:
                    await expect(problem.locator("code"), route.path).to_have_text(list(route.needs))
            await page.context.close()


async def test_foreign_ids_are_not_there(open_page: Open) -> None:
    async with people_server() as people:
        operator = await open_signed_in(open_page, people, people.operator)
        theirs = await parameters(operator, people, may_manage=False, may_publish=True)
        page = await open_signed_in(open_page, people, people.admin)
        for path in (
            "/people/usr_of_another",
            "/usage?tenant=default",
            "/people?tenant=default",
            f"/c/{theirs['session']}",
            f"/files/{theirs['session']}",
            f"/agents/{theirs['image']}",
            f"/activity/turns/{theirs['turn']}",
            f"/shared/{theirs['share']}",
        ):
            await page.goto(f"{people.url}{path}")
            await expect(page.get_by_role("alert").first, path).to_contain_text("not there, or not yours.", ignore_case=True)


async def test_pages_of_people_have_no_fault_fit_a_phone_and_show_hostile_names_as_text(browser: Browser, axe: str) -> None:
    faults: dict[str, list[str]] = {}
    async with people_server() as people:
        async with await browser.new_context(locale="zh-CN", reduced_motion="reduce", service_workers="block") as context:
            page = await context.new_page()
            page.set_default_timeout(DEADLINE_MS)
            await page.goto(people.url)
            await page.locator("#key").fill(people.operator)
            await page.locator(".login .btn-ink").click()
            await expect(page.locator(".rail")).to_be_visible()
            for route in ROUTES:
                await visit(page, people, route)
                faults[route] = await faults_of(page, axe)
                assert await page.locator("main img").count() == 0
            await visit(page, people, "/people")
            await expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    assert {key: found for key, found in faults.items() if found} == {}


async def test_expired_and_revoked_keys_have_a_sentence_in_both_languages(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        access = server.server.vm.tenancy.access
        operator = await access.authenticate(first_key(server))
        record, key = await access.issue(operator.tenant_id, name="laptop", granter=operator)
        page = await open_page(server.url)
        stored = access._store.accounts(record.tenant_id).keys
        await stored.rotate(record.key_id, replace(record, key_id=KeyId("other")), b"", now=0, ends_at=1)
        await sign_in(page, key.reveal())
        await expect(page.get_by_role("alert")).to_have_text(
            "This API key has expired. Use another, or ask an administrator for one."
        )
        chinese = await open_page(server.url, language="zh-CN")
        await access.revoke(record.tenant_id, record.key_id)
        await chinese.locator("#key").fill(key.reveal())
        await chinese.locator(".login .btn-ink").click()
        await expect(chinese.get_by_role("alert")).to_have_text("此 API 密钥已被吊销，请换一个，或向管理员索取。")
        await chinese.locator("#key").fill("avm_wrong")
        await chinese.locator(".login .btn-ink").click()
        await expect(chinese.get_by_role("alert")).to_have_text("此 API 密钥无效，请检查是否复制完整。")


async def test_a_person_signs_in_at_the_identity_provider_and_a_replay_is_refused(open_page: Open) -> None:
    async with identity_provider(claims={"tenant": "default", "preferred_username": "ada"}) as provider:
        oidc = OidcConfig(issuer=provider.issuer, audience="api", client_id=CLIENT_ID, name="Acme ID")
        config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on", oidc=oidc))
        async with start_server(config, drivers=driver()) as server:
            page = await open_page(f"{server.url}/me")
            answers: list[str] = []
            page.on("request", lambda request: answers.append(request.url) if "/oidc/callback" in request.url else None)
            await page.get_by_role("button", name="Sign in with Acme ID").click()
            await expect(page.get_by_role("heading", name="My account")).to_be_visible()
            await expect(page.locator("main")).to_contain_text("42 · default · Member")
            (cookie,) = [cookie for cookie in await page.context.cookies() if cookie["name"] == "avm_session"]
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
            await page.goto(answers[0])
            await expect(page).to_have_url(f"{server.url}/login?problem=state")
            thief = await open_page(answers[0])
            await expect(thief.locator(".notice")).to_contain_text("took too long, or was started in another browser")
            await expect(thief.get_by_label("API key")).to_be_visible()
            # Nor does a token that was made for another sign-in let anybody in.
            provider.claims = {**provider.claims, "nonce": "of another sign-in"}
            await thief.get_by_role("button", name="Sign in with Acme ID").click()
            await expect(thief.locator(".notice")).to_contain_text("has answered another sign-in")
            assert [each["name"] for each in await thief.context.cookies() if each["name"] == "avm_session"] == []


async def test_the_last_owner_is_told_before_the_click_what_cannot_be_done(open_page: Open) -> None:
    async with people_server() as people:
        page = await open_signed_in(open_page, people, people.admin)
        await visit(page, people, "/people/usr_root", tenant=None)
        actions = [page.get_by_role("button", name=name, exact=True) for name in ("Suspend", "Delete the user")]
        await expect(page.get_by_text("This is the last owner of the tenant.")).to_be_visible()
        for action in (*actions, page.get_by_label("Role")):
            await expect(action).to_be_disabled()
        await add_user(people.server, "second", "owner")
        await page.reload()
        for action in (*actions, page.get_by_label("Role")):
            await expect(action).to_be_enabled()
        await expect(page.get_by_text("This is the last owner of the tenant.")).to_have_count(0)


async def test_an_invitation_makes_a_user_who_signs_in(open_page: Open) -> None:
    async with people_server() as people:
        page = await open_signed_in(open_page, people, people.admin)
        await visit(page, people, "/people/invitations", tenant=None)
        await page.get_by_role("button", name="Invite").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("Grace")
        await dialog.get_by_role("button", name="Invite").click()
        link = await dialog.locator(".secret code").inner_text()
        assert "/invitations/accept#avmin_" in link
        await dialog.get_by_role("button", name="Close").click()
        guest = await open_page(link)
        await expect(guest.get_by_role("heading")).to_contain_text("You are invited to")
        await expect(guest).not_to_have_url(re.compile("avmin_"))
        await guest.get_by_label("Your sign-in name").fill("grace")
        await guest.get_by_role("button", name="Accept").click()
        await expect(guest.locator(".secret code")).to_contain_text("avm_")
        await guest.get_by_role("button", name="Sign in").click()
        await expect(guest.get_by_role("button", name="Sign out")).to_be_visible()
        again = await open_page(link)
        await expect(again.get_by_role("alert")).to_have_text("This invitation was used already. A link makes one user.")
        await visit(page, people, "/people/invitations", tenant=None)
        await expect(page.get_by_role("row", name="Grace")).to_contain_text("Accepted")


async def test_from_a_tenant_to_a_quota_that_is_reached_and_raised_by_hand(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        page = await open_page(f"{server.url}/tenants")
        await sign_in(page, first_key(server))
        await page.get_by_role("button", name="New tenant").click()
        await page.get_by_label("Name", exact=True).fill("Bolt & Söhne")
        await page.get_by_label("Name in addresses").fill("bolt")
        await page.get_by_role("dialog").get_by_role("button", name="New tenant").click()
        await expect(page.get_by_role("heading", name="Bolt & Söhne")).to_be_visible()
        await page.get_by_role("navigation", name="Pages of the tenant").get_by_role("link", name="People").click()
        await page.get_by_role("button", name="New user").click()
        await page.get_by_label("Sign-in name").fill("eve")
        await page.get_by_role("dialog").get_by_role("button", name="Add").click()
        await expect(page.get_by_role("heading", name="eve")).to_be_visible()
        await page.get_by_role("button", name="New key").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("laptop")
        await dialog.get_by_role("button", name="New key").click()
        key = await dialog.locator(".secret code").first.inner_text()
        await expect(dialog.locator(".secret code").last).to_have_text(f"AVM_KEY={key}")
        await dialog.get_by_role("button", name="Close").click()
        await expect(page.locator("main")).not_to_contain_text(key)
        limit = page.get_by_role("row", name="Requests a minute")
        await limit.get_by_role("button", name="Change the limit").click()
        await dialog.get_by_label("Limit").fill("1")
        await dialog.get_by_role("button", name="Save").click()
        await expect(limit).to_contain_text("of 1")
        # A browser of its own: this one has the cookie of the operator.
        eve = (await open_page("about:blank")).request

        async def ask() -> int:
            return (await eve.get(f"{server.url}/v1/sessions", headers={"Authorization": f"Bearer {key}"})).status

        used_up = limit.get_by_text("used up")
        with anyio.fail_after(60):
            # A minute may end between the request and the look at its count.
            while not await used_up.count():
                while await ask() != 429:
                    pass
                await page.reload()
                await expect(limit).to_contain_text("of 1")
        await limit.get_by_role("button", name="Change the limit").click()
        await dialog.get_by_label("Limit").fill("100")
        await dialog.get_by_role("button", name="Save").click()
        await expect(limit).to_contain_text("of 100")
        assert await ask() == 200
        await page.get_by_role("row", name="laptop").get_by_role("button", name="Revoke").click()
        revoke = dialog.get_by_role("button", name="Revoke")
        await expect(revoke).to_be_disabled()
        await dialog.get_by_label("Type “laptop” to confirm").fill("laptop")
        await revoke.click()
        await expect(page.get_by_role("row", name="laptop")).to_contain_text("Revoked")


async def test_usage_is_the_sum_of_the_ledger_and_its_csv_is_its_table(open_page: Open) -> None:
    async with people_server() as people:
        await spend(people.server, 200, 1_800_000_000_000 - 40 * 365 * 24 * 3600 * 1000, "old", 1)
        accounts = people.server.server.vm.tenancy.store.accounts(ACME)
        page = await open_signed_in(open_page, people, people.admin)
        await visit(page, people, "/usage", tenant=None)
        (total,) = await accounts.ledger.usage(by=(), since=1_000_000_000_000)
        figures = page.locator(".figures dd data")
        assert int(await figures.first.get_attribute("value") or 0) == total.price
        cells = page.locator("table td data")
        await expect(cells).to_have_count(4)
        prices = [int(await cells.nth(index).get_attribute("value") or 0) for index in range(4)]
        assert sum(prices) == total.price
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="CSV").click()
        text = await anyio.Path(await (await downloading.value).path()).read_text(encoding="utf-8")
        assert sorted(int(row["price"]) for row in csv.DictReader(io.StringIO(text))) == sorted(prices)
        await expect(page.locator(".chart-steps")).to_contain_text("UTC")
        await page.get_by_role("button", name="As a table").click()
        await expect(page.get_by_role("columnheader", name="Day (UTC)")).to_be_visible()
        await expect(page.get_by_text("4 calls are estimated")).to_be_visible()
        await expect(page.get_by_text("1 call has no price")).to_be_visible()
        await page.get_by_label("By", exact=True).select_option("session")
        await expect(page).to_have_url(re.compile("by=session"))
        await expect(page.get_by_role("link", name="sess_0")).to_be_visible()
        # By key, under the name of the key; calls without one stand together.
        key = next(key for key in await accounts.keys.list() if key.user_id == "usr_root")
        await spend(people.server, 400, people.server.server.vm.clock(), "keyed", 7_000_000_000, key_id=key.key_id)
        await visit(page, people, "/usage?by=key", tenant=None)
        await expect(page.get_by_role("row").filter(has_text=key.name)).to_contain_text("$7.00")
        await expect(page.get_by_role("row").filter(has_text="—").first).to_be_visible()


async def test_the_smallest_price_can_be_read(open_page: Open) -> None:
    async with people_server() as people:
        now = people.server.server.vm.clock()
        await spend(people.server, 300, now, "nano", 1)
        page = await open_signed_in(open_page, people, people.admin)
        await visit(page, people, "/usage", tenant=None)
        await expect(page.get_by_role("row", name="nano")).to_contain_text("$0.000000001")
        await visit(page, people, "/wallet", tenant=None)
        await expect(page.get_by_role("row", name=HOSTILE)).to_contain_text("$25.00")


async def test_what_has_cost_nothing_is_plotted_by_its_tokens(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await say(page, "Hello there")
        await expect(page.locator(".bill")).to_be_visible()
        await page.goto(f"{server.url}/usage")
        await expect(page.get_by_role("heading", name="Model · Tokens")).to_be_visible()
        await page.get_by_role("button", name="As a table").click()
        await expect(page.locator(".stack tbody tr").first.locator(".figure")).not_to_have_text("0")


async def test_preferences_follow_the_user_to_another_device(open_page: Open) -> None:
    async with people_server() as people:
        page = await open_signed_in(open_page, people, people.member)
        await visit(page, people, "/me", tenant=None)
        await page.get_by_label("Colours").select_option("dark")
        # A change is shown before it is stored.
        async with page.expect_response(lambda response: '"zh"' in (response.request.post_data or "")):
            await page.get_by_label("Language").select_option("zh")
        await expect(page.get_by_role("heading", name="我的账户")).to_be_visible()
        other = await open_page(people.url, viewport=DESK)
        await sign_in(other, people.member)
        await expect(other.locator("html[data-theme=dark][lang=zh-CN]")).to_be_attached()


async def test_the_connection_is_checked_and_the_fault_of_a_proxy_is_named(open_page: Open) -> None:
    async with start_server(GUARDED, drivers=driver()) as server:
        page = await open_page(f"{server.url}/diagnose")
        # As behind a proxy that passes on requests and no sockets.
        await page.evaluate(
            "() => { window.WebSocket = class { constructor() { setTimeout(() => this.onclose({})); } close() {} }; }"
        )
        await page.get_by_role("button", name="Start").click()
        for step in ("http", "clock", "upload"):
            await expect(page.locator(f"[data-step={step}]")).to_have_attribute("data-state", "ok")
        socket = page.locator("[data-step=socket]")
        await expect(socket).to_have_attribute("data-state", "bad")
        await expect(socket).to_contain_text("a proxy does not pass on WebSockets")
        await expect(page.locator("[data-step=idle]")).to_have_attribute("data-state", "skipped")
        await page.goto(f"{server.url}/diagnose")
        await page.evaluate("() => location.assign('/me')")
        await sign_in(page, first_key(server))
        await expect(page.get_by_role("heading", name="My account")).to_be_visible()
        await go(page, "/diagnose")
        # As behind a proxy that ends what is silent.
        await page.evaluate(
            """() => {
              window.WebSocket = class {
                constructor() { setTimeout(() => { this.onopen({}); setTimeout(() => this.onclose?.({}), 100); }); }
                close() {}
              };
            }"""
        )
        await page.get_by_role("button", name="Start").click()
        await expect(page.locator("[data-step=socket]")).to_have_attribute("data-state", "ok")
        await expect(page.locator("[data-step=idle]")).to_contain_text(re.compile(r"was closed after \d+ s of silence"))


async def test_clients_find_their_addresses_and_a_gateway_that_is_off_is_not_among_them(open_page: Open) -> None:
    async with people_server() as people:
        page = await open_signed_in(open_page, people, people.member)
        await visit(page, people, "/me", tenant=None)
        await page.get_by_role("link", name="Connect a client").click()
        main = page.locator("main")
        for address in (
            f"{people.url.replace('http', 'ws')}/ws",
            *(f"{people.url}{path}" for path in ("/v1", "/mcp", "/a2a/default/", "/ag-ui/default", "/v1/messages")),
        ):
            await expect(main.get_by_text(address, exact=True)).to_be_visible()
        await expect(main).to_contain_text("Authorization: Bearer $AVM_KEY")
        request = ChangeRequest(actor="operator", request_id="req_1", note="")
        await people.server.server.vm.settings.change(None, {"gateways.openai.enabled": "off"}, request)
        await page.reload()
        await expect(main.get_by_text(f"{people.url}/v1/messages", exact=True)).to_be_visible()
        await expect(main.get_by_text(f"{people.url}/v1", exact=True)).to_have_count(0)
