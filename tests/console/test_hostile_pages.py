"""Forty hostile texts in every place where somebody else's text is shown: no element, no request, no violation, nothing run."""

import json
from typing import Any
from urllib.parse import quote

from playwright.async_api import Page, expect
from tests.console.conftest import Open
from tests.console.route_table import go, read_routes
from tests.console.test_journeys import driver, say
from tests.console.test_sign_in import GUARDED, first_key, signed_in
from tests.console.test_texts import PAYLOADS, fetch_page, script

from agentvm import ImageConfig, start_server
from agentvm.log import concerning, get_logger
from agentvm.model.definition import Definition
from agentvm.server.local import RunningServer

logger = get_logger("agentvm.example")

ALL = "\n\n".join(PAYLOADS)
LINE = " ".join(PAYLOADS)
MARK = "window.hit"
"""A word of most payloads: a page that shows it as a text shows the payloads."""
FOREIGN = (
    "body :is(img:not(.logo img), script, iframe, style, object, embed, base, meta, link, video, form[action], [onfocus], "
    "[onclick], [onload], [onerror], [ontoggle], [style*='evil'], "
    "a[href^='javascript' i], a[href^='data:' i], a[href^='vbscript' i])"
)
HIT = "() => [window.hit, window.violations ?? 0]"
WATCH = "window.violations = 0; document.addEventListener('securitypolicyviolation', () => { window.violations += 1; }, true);"


class Planter:
    """Puts the texts into a server through its API, as an operator whose page is signed in."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url

    async def send(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        reply = await self.page.request.fetch(f"{self.url}/v1{path}", method=method, data=body, headers=headers)
        assert reply.ok, (method, path, await reply.text())
        return await reply.json() if await reply.body() else None

    async def plant(self) -> dict[str, str]:
        """Returns the values of the parameters in the addresses of the pages."""
        values: dict[str, str] = {}
        for number, text in enumerate(PAYLOADS):
            tenant = await self.send("POST", "/tenants", {"slug": f"t{number}", "name": text, "description": text})
            user = await self.send("POST", "/users", {"externalId": f"user{number}", "displayName": text})
            await self.send("POST", "/auth/keys", {"name": text, "userId": user["userId"]})
            await self.send("POST", "/invitations", {"displayName": text})
            content = {"text": f"{ALL}\n{{{{name}}}}"}
            prompt = {"type": "prompts", "name": f"p{number}", "content": content, "description": text, "tags": [text[:40]]}
            resource = await self.send("POST", "/resources", prompt)
            config = {"name": text, "description": text, "systemPrompt": "resource://prompts/p0", "variables": {"name": text}}
            image = await self.send("POST", "/images", {"container": "default", "config": config})
            await self.send("PUT", f"/sessions/{image['image']['sessionId']}", {"title": text})
            hook = {"url": "https://1.1.1.1/", "events": ["quota.warning"], "description": text}
            await self.send("POST", "/webhooks", hook)
            await self.send("POST", "/wallet/credits", {"reference": text, "amountUsd": "0.01", "note": text})
            of_first = {
                "tenant": tenant["slug"],
                "user": user["userId"],
                "image": image["image"]["imageId"],
                "id": resource["id"],
            }
            values = values or of_first
            with concerning(request_id=f"req_{number}", tenant_id="default"):
                logger.error("hostile_fact", code=text, note=text, nested={text: [text]})
        documents = [{"id": "a.md", "title": LINE[:1000], "text": ALL}]
        base = {"type": "knowledge", "name": "base", "content": {"documents": documents}, "description": PAYLOADS[0]}
        values["base"] = (await self.send("POST", "/resources", base))["id"]
        about = json.dumps(LINE[:1000])
        skill = {"text": f"---\nname: hostile\ndescription: {about}\n---\n{ALL}", "files": {"a.txt": ALL}}
        values["skill"] = (await self.send("POST", "/resources", {"type": "skills", "name": "hostile", "content": skill}))["id"]
        await self.send("PUT", "/config", {"changes": {"limits.steps": 9}, "note": LINE[:400]})
        return values | {"key": "limits.steps"}

    async def plant_files(self, session_id: str) -> None:
        for text in PAYLOADS:
            name = quote(text.replace("/", "∕").replace("\\", "＼")[:100], safe="")
            await self.send("PUT", f"/sessions/{session_id}/files/{name}", text)


async def check(page: Page, address: str) -> None:
    await expect(page.locator(FOREIGN), address).to_have_count(0)
    assert await page.evaluate(HIT) == [None, 0], address


async def visit(page: Page, address: str, *, tells: bool = False) -> None:
    """Goes to a page, waits until it has read everything, opens what is folded; `tells` is whether a payload must be seen."""
    await go(page, address)
    await expect(page.locator("main h1, .page h1").first).to_be_visible()
    await expect(page.locator(".bones")).to_have_count(0)
    await page.evaluate("() => { for (const folded of document.querySelectorAll('main details')) folded.open = true; }")
    await expect(page.locator(".bones")).to_have_count(0)
    if tells:
        await expect(page.locator("body"), address).to_contain_text(MARK, use_inner_text=True)
    await check(page, address)


TOLD = {
    *("/agents", "/agents/:image", "/resources", "/resources/:id", "/files/:session", "/activity", "/activity/turns/:turn"),
    *("/activity/feedback", "/activity/logs", "/settings/history", "/settings/webhooks", "/wallet"),
    *("/people", "/people/invitations", "/people/keys"),
    *("/people/:user", "/tenants", "/tenants/:tenant", "/shared/:share", "/knowledge/:base", "/skills", "/skills/:skill"),
}
"""The pages on which a text of the payloads must be seen, or nothing was tested there."""


async def converse(page: Page, server: RunningServer) -> tuple[str, str]:
    """Lets a conversation hold the texts in each of its places; returns its id and that of its turn."""
    image = await server.agentx.images.create(ImageConfig(definition="clerk"))
    await page.goto(f"{server.url}/c/{image.session_id}")
    await say(page, ALL)
    await expect(page.locator(".bill")).to_be_visible()
    return image.session_id, (await (await page.request.get(f"{server.url}/v1/turns?limit=1")).json())["items"][0]["turnId"]


async def test_forty_payloads_are_only_text_on_every_page(open_page: Open) -> None:
    assert len(PAYLOADS) >= 40
    clerk = Definition(name="clerk", description=LINE, tools=("fetch_page",))
    async with start_server(GUARDED, definitions=[clerk], drivers=driver(script), tools=[fetch_page]) as server:
        page = await open_page(server.url)
        await page.add_init_script(WATCH)
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        await signed_in(page, first_key(server))
        planter = Planter(page, server.url)
        session_id, turn_id = await converse(page, server)
        values = {**await planter.plant(), "session": session_id, "turn": turn_id}
        await planter.plant_files(session_id)
        values["share"] = (await planter.send("POST", f"/sessions/{session_id}/shares", {}))["shareId"]
        await planter.send("PUT", f"/turns/{turn_id}/feedback", {"rating": "down", "note": ALL[:2_000]})
        await planter.send("POST", "/containers/default/memories", {"text": ALL[:500]})
        for route in read_routes():
            await visit(page, route.address(values), tells=route.path in TOLD)
        for path in (
            f"/resources/{values['id']}?tab=versions",
            f"/resources/{values['id']}?tab=used",
            f"/resources/{values['id']}?tab=rendered",
            f"/agents/{values['image']}?edit=1",
            "/resources?scope=all",
            f"/search?q={MARK}",
            "/archive",
        ):
            await visit(page, path)
        await page.goto(f"{server.url}/")
        await expect(page.locator(".row").filter(has_text=MARK).first).to_be_visible()
        await check(page, "/")
        await page.keyboard.press("Control+k")
        await expect(page.locator(".line").first).to_be_visible()
        await check(page, "palette")
        assert [url for url in requested if not url.startswith((server.url, "blob:"))] == []
