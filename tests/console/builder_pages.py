"""The pages of the builder, each with something on it, and the way to each of them."""

from typing import Any
from urllib.parse import quote

from playwright.async_api import Page, expect
from tests.console.operator_pages import HOSTILE
from tests.console.pages import Filled, Visit

FIRST = "You are a sales assistant for {{company}}.\n\nAnswer in one paragraph.\nQuote prices in USD.\nNever promise dates."
SECOND = (
    "You are a patient sales assistant for {{company}}.\n\nAnswer in two short paragraphs.\nQuote prices in USD, with tax.\n"
    "Never promise dates.\nOffer a call with a person when the customer hesitates."
)
ADDER = {
    "runtime": "builtin",
    "entry": "calculator",
    "description": HOSTILE,
    "inputSchema": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
}


async def send(page: Page, filled: Filled, method: str, path: str, body: object = None) -> Any:
    # The server ends connections that are silent, maybe while one of them is used again.
    reply = await page.request.fetch(f"{filled.server.url}/v1{path}", method=method, data=body, max_retries=3)
    return await reply.json() if (await reply.body()) else None


async def prompt_id(page: Page, filled: Filled) -> str:
    """The id of a prompt with two versions; registered once."""
    made = await send(
        page,
        filled,
        "POST",
        "/resources",
        {"type": "prompts", "name": "sales-assistant", "content": {"text": FIRST}, "description": HOSTILE, "tags": ["销售"]},
    )
    if made.get("created") is False or "error" in made:
        found = await send(page, filled, "GET", f"/resources/{quote('resource://prompts/sales-assistant', safe='')}")
        return str(found["id"])
    return str(made["id"])


async def agent_id(page: Page, filled: Filled) -> str:
    """The id of an agent that is built from the first version, while there is a second; built once."""
    resource_id = await prompt_id(page, filled)
    for item in (await send(page, filled, "GET", "/images?container=default"))["items"]:
        if item["name"] == "Sales <b>":
            return str(item["imageId"])
    config = {
        "name": "Sales <b>",
        "systemPrompt": "resource://prompts/sales-assistant",
        "variables": {"company": "Acme"},
        "tools": ["calculator"],
    }
    made = await send(page, filled, "POST", "/images", {"container": "default", "config": config})
    await send(page, filled, "PUT", f"/resources/{resource_id}", {"content": {"text": SECOND}, "bump": "minor"})
    return str(made["image"]["imageId"])


async def base_id(page: Page, filled: Filled) -> str:
    """The id of a knowledge base; made once."""
    documents = [
        {"id": "returns.md", "title": HOSTILE, "text": f"# How to return things\n\nYou return them within a week. {HOSTILE}"},
        {"id": "退货.txt", "text": "七天之内可以退货。"},
    ]
    body = {
        "type": "knowledge",
        "name": "handbook",
        "description": "What the shop promises.",
        "content": {"documents": documents},
    }
    return str((await send(page, filled, "POST", "/resources", body))["id"])


async def agents(page: Page, filled: Filled) -> None:
    await agent_id(page, filled)
    await page.goto(f"{filled.server.url}/agents")
    await expect(page.get_by_role("link", name="Sales <b>")).to_be_visible()
    await expect(page.locator(".table").nth(1)).to_be_visible()


async def new_agent(page: Page, filled: Filled) -> None:
    await prompt_id(page, filled)
    await page.goto(f"{filled.server.url}/agents/new?from=translator")
    await expect(page.locator(".ticks input").first).to_be_visible()
    await page.locator(".form textarea").first.fill("resource://prompts/sales-assistant")
    await page.get_by_label("company").fill("Acme")
    await expect(page.locator(".paper")).to_contain_text("for Acme")
    await page.locator(".form-end .btn-ink").click()
    await expect(page.locator(".try .composer")).to_be_visible()


async def agent(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/agents/{await agent_id(page, filled)}")
    await expect(page.locator(".paper")).to_contain_text("for Acme")
    await expect(page.locator(".figures").nth(1)).to_be_visible()


async def upgrade(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/agents/{await agent_id(page, filled)}?upgrade=1")
    await expect(page.locator(".modal .diff").first).to_be_visible()


async def resources(page: Page, filled: Filled) -> None:
    await prompt_id(page, filled)
    await page.goto(f"{filled.server.url}/resources?scope=all")
    await expect(page.locator(".table tbody tr").first).to_be_visible()


async def no_resources(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/resources?q=nothing-has-this")
    await expect(page.locator(".empty")).to_be_visible()


async def compare(page: Page, filled: Filled) -> None:
    await agent_id(page, filled)
    await page.goto(f"{filled.server.url}/resources/{await prompt_id(page, filled)}?v=1.1.0&with=1.0.0")
    await expect(page.locator(".diff mark").first).to_be_visible()


async def versions(page: Page, filled: Filled) -> None:
    await agent_id(page, filled)
    await page.goto(f"{filled.server.url}/resources/{await prompt_id(page, filled)}?tab=versions")
    await expect(page.locator(".table tbody tr")).to_have_count(2)


async def used(page: Page, filled: Filled) -> None:
    await agent_id(page, filled)
    await page.goto(f"{filled.server.url}/resources/{await prompt_id(page, filled)}?tab=used")
    await expect(page.locator(".lines li").first).to_have_text("Sales <b>")


async def rendered(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/resources/{await prompt_id(page, filled)}?tab=rendered")
    await page.locator(".form input").first.fill(HOSTILE)
    await page.locator(".form-end .btn-ink").click()
    await expect(page.locator(".paper")).to_contain_text("<script>")


async def edit_resource(page: Page, filled: Filled) -> None:
    body = {"type": "tools", "name": "adder", "content": ADDER}
    made = await send(page, filled, "POST", "/resources", body)
    await page.goto(f"{filled.server.url}/resources/{made['id']}?edit=1")
    field = page.locator(".code-field textarea")
    await field.fill((await field.input_value()).replace('"object"', '"array"', 1))
    await expect(page.locator(".code-marked")).to_be_visible()


async def try_tool(page: Page, filled: Filled) -> None:
    made = await send(page, filled, "POST", "/resources", {"type": "tools", "name": "adder", "content": ADDER})
    await page.goto(f"{filled.server.url}/resources/{made['id']}?tab=try")
    await page.locator(".code-field textarea").fill('{"expression": "6 * 7"}')
    await page.locator(".form-end .btn-ink").click()
    await expect(page.locator(".paper")).to_contain_text("42")


async def new_resource(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/resources/new?type=agents")
    await expect(page.locator(".code-field textarea")).to_be_visible()


async def files(page: Page, filled: Filled) -> None:
    session_id = filled.long.rpartition("/")[2]
    for name in ("notes.md", quote('a"><img src=x onerror=alert(1)>.txt')):
        await page.request.put(f"{filled.server.url}/v1/sessions/{session_id}/files/{name}", data=b"content")
    await page.goto(f"{filled.server.url}/files/{session_id}")
    await expect(page.locator(".table tbody tr")).to_have_count(2)


async def knowledge(page: Page, filled: Filled) -> None:
    await base_id(page, filled)
    # There already for the second look; two revisions, so that there is one to forget.
    await send(page, filled, "POST", "/collections", {"name": "papers"})
    for name in ("tea.txt", "退货.txt"):
        await send(page, filled, "PUT", f"/collections/papers/documents/{quote(name)}", b"content")
    await page.goto(f"{filled.server.url}/knowledge")
    await expect(page.get_by_text("papers")).to_be_visible()
    await expect(page.get_by_role("link", name="handbook")).to_be_visible()
    await expect(page.locator("form")).to_be_visible()


async def knowledge_base(page: Page, filled: Filled) -> None:
    address = f"{filled.server.url}/knowledge/{await base_id(page, filled)}?q=return"
    await page.goto(address)
    await page.locator(".passages a").first.click()
    await expect(page.locator(".paper")).to_be_visible()
    await expect(page.locator(".table tbody tr")).to_have_count(2)


async def skill_id(page: Page, filled: Filled) -> str:
    """The id of a skill with files beside its instructions; made once."""
    text = (
        "---\nname: refunds\ndescription: Handles refunds. Use it when a customer wants money back.\nlicense: MIT\n"
        f"---\n# Steps\n\n1. Look at `policy.md`.\n2. Say how long it takes: **5 days**.\n\n{HOSTILE}\n"
    )
    content = {"text": text, "files": {"policy.md": HOSTILE, "logo.png": {"data": "AAEC"}}}
    return str(
        (await send(page, filled, "POST", "/resources", {"type": "skills", "name": "refunds", "content": content}))["id"]
    )


async def skills(page: Page, filled: Filled) -> None:
    await skill_id(page, filled)
    await page.goto(f"{filled.server.url}/skills")
    await expect(page.get_by_role("link", name="refunds")).to_be_visible()
    await expect(page.locator("form")).to_be_visible()


async def skill(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/skills/{await skill_id(page, filled)}?file=policy.md")
    await expect(page.locator(".paper").last).to_be_visible()
    await expect(page.locator(".table tbody tr")).to_have_count(2)


async def portable(page: Page, filled: Filled) -> None:
    await agent_id(page, filled)
    await page.goto(f"{filled.server.url}/agents/portable")
    await expect(page.get_by_role("link", name="Sales <b>", exact=True)).to_be_visible()


async def run_once(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/agents/run?agent=default")
    # By structure, not by words: the page is in whichever language the page before was left in.
    await page.locator("form textarea").first.fill(HOSTILE)
    await page.locator("form button[type=submit]").click()
    await expect(page.locator("pre.paper")).to_be_visible()


BUILDER_PAGES: tuple[Visit, ...] = (
    agents,
    new_agent,
    agent,
    upgrade,
    resources,
    no_resources,
    compare,
    versions,
    used,
    rendered,
    edit_resource,
    try_tool,
    new_resource,
    files,
    knowledge,
    knowledge_base,
    skills,
    skill,
    portable,
    run_once,
)
