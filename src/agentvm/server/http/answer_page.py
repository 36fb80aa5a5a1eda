"""Answer page — the page of a one-use link: opening it decides nothing, its form decides once.

Mail scanners and previews follow links, so a GET only shows the call. The page runs no script and loads nothing; every text is
escaped. The holder of the link answers in the name of its creator, with the creator's current permissions: a link of a user
who may no longer answer is invalid.
"""

import json
from collections.abc import Iterator
from html import escape
from typing import Final
from urllib.parse import parse_qsl

from agentvm.errors import SessionQuarantined
from agentvm.errors.tool import WaitForbidden
from agentvm.model.account import AuditEntry
from agentvm.model.wait import REASON_MAX, ToolWait, WaitAnswer, WaitLink
from agentvm.operations.wait_answer import check_audience
from agentvm.server.errors import request_id_of
from agentvm.server.exchange import HttpRequest, HttpResponse
from agentvm.server.http.reference import source_of
from agentvm.server.router import HttpRoute
from agentvm.vm import AgentVM

PATH: Final = "/answer/{token}"
FORM_MAX_BYTES = 16 * 1024
SHOWN_MAX = 20_000
"""Characters of an input that the page shows."""
STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}"
    "pre{background:#f4f4f4;padding:1rem;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere}"
    "button{font:inherit;padding:.4rem 1.2rem;margin-right:.6rem}input{font:inherit;width:100%;margin:.6rem 0}"
)
HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src {source_of(STYLE)}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
    "X-Content-Type-Options": "nosniff",
}
_GONE = "<h1>This link is not valid</h1><p>It was used, it has expired, or the call does not wait any more.</p>"


def answer_routes(vm: AgentVM) -> Iterator[HttpRoute]:
    """Yields the routes of the page and of its form."""

    async def show(request: HttpRequest) -> HttpResponse:
        wait = await _find(vm, request.path_params["token"])
        return _page(_GONE, 410) if wait is None else _page(_form(wait[1]))

    async def decide(request: HttpRequest) -> HttpResponse:
        body = b"".join([chunk async for chunk in request.stream()])
        fields = dict(parse_qsl(body.decode("utf-8", "replace")))
        approves, token = fields.get("decision") == "approve", request.path_params["token"]
        if not approves and fields.get("decision") != "deny":
            return _page("<h1>Choose an answer</h1>", 422)
        answer_link = await _find(vm, token)
        if answer_link is None:
            return _page(_GONE, 410)
        link, wait = answer_link
        answer = WaitAnswer(
            decision="approve" if approves else "deny", reason=fields.get("reason", "").strip()[:REASON_MAX] or None
        )
        # Of two who send the form at once, one decides. A link whose answer could not be stored is good for another try.
        is_taken = await vm.runtime.answer_wait(link.tenant_id, wait, answer, link.made_by)
        await vm.store.wait_links.use(token, vm.clock())
        await _audit(vm, link, request, "ok" if is_taken else "refused:wait_answered")
        page = f"<h1>{'Approved' if approves else 'Denied'}</h1><p>The turn continues.</p>"
        return _page(page) if is_taken else _page(_GONE, 410)

    yield HttpRoute("GET", PATH, show)
    yield HttpRoute("POST", PATH, decide, FORM_MAX_BYTES)


async def _find(vm: AgentVM, token: str) -> tuple[WaitLink, ToolWait] | None:
    """Returns a link that can be used and its open wait."""
    now = vm.clock()
    link = await vm.store.wait_links.find(token, now)
    if link is None:
        return None
    wait = await vm.store.tenant(link.tenant_id).waits((link.container_id,)).get(link.wait_id)
    if wait is None or wait.answer is not None or wait.expires_at <= now or not await _may_answer(vm, link, wait):
        return None
    return link, wait


async def _may_answer(vm: AgentVM, link: WaitLink, wait: ToolWait) -> bool:
    """Returns whether the maker of a link may answer by himself now, and the turn would continue."""
    maker = await vm.tenancy.access.recall(link.tenant_id, link.made_by, link.key_id)
    if maker is None or not maker.may("agent:use") or not maker.reaches(wait.container_id):
        return False
    try:
        check_audience(maker, wait)
        vm.runtime.quarantine.check(link.tenant_id, wait.session_id)
    except (WaitForbidden, SessionQuarantined):
        return False
    return True


async def _audit(vm: AgentVM, link: WaitLink, request: HttpRequest, result: str) -> None:
    client = request.scope.get("client")
    entry = AuditEntry(
        at=vm.clock(),
        tenant_id=link.tenant_id,
        actor=link.actor,
        action="wait.answer_by_link",
        target=link.wait_id,
        result=result,
        address=str(client[0]) if client else None,
        request_id=request_id_of(request.scope),
    )
    await vm.store.accounts(link.tenant_id).audit.add(entry)


def _form(wait: ToolWait) -> str:
    # One that turns the text around, or that is not seen, would show another call than the one that is approved.
    text = json.dumps(wait.input, ensure_ascii=False, indent=2)
    shown = "".join(letter if letter.isprintable() or letter == "\n" else f"\\u{ord(letter):04x}" for letter in text)
    cut = "" if len(shown) <= SHOWN_MAX else "<p>The input is longer than what is shown here.</p>"
    return (
        f"<h1>{escape(wait.tool)}</h1><p>An agent asks whether it may make this call. Reason: {escape(wait.why)}.</p>"
        f"<pre>{escape(shown[:SHOWN_MAX])}</pre>{cut}"
        '<form method="post"><label>Reason, for the agent<input name="reason" maxlength="2000"></label>'
        '<button name="decision" value="approve">Approve</button><button name="decision" value="deny">Deny</button></form>'
    )


def _page(body: str, status: int = 200) -> HttpResponse:
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Answer a call</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>{body}</body></html>"
    )
    return HttpResponse(content=text.encode(), status=status, media_type="text/html", headers=HEADERS)
