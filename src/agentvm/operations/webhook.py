"""Webhooks — addresses to which events of the tenant are sent, and the deliveries to them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from agentvm.errors import Conflict, not_found
from agentvm.model.base import Record, record_from
from agentvm.model.webhook import (
    TEST_EVENT,
    Attempted,
    Delivery,
    DeliveryState,
    DisableReason,
    DueDelivery,
    Notice,
    Webhook,
    WebhookEvent,
    WebhookId,
)
from agentvm.operations.numbers import Number, check_text
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, number_of, page_of, paged
from agentvm.protocol.requests import Request

if TYPE_CHECKING:
    from agentvm.storage.sql.webhooks import WebhookStore

operation = OperationGroup("webhooks")

ADMIN = "tenants:admin"
DESCRIPTION_MAX = 200
EVENTS_MAX = 20
LEASE_MS = 60_000
"""An attempt that a request makes itself is left to it this long."""
ROTATION_MS = 24 * 3_600_000
"""After a rotation the old secret signs this long as well."""

_ALL, _ONE = "/v1/webhooks", "/v1/webhooks/{webhook_id}"
_DELIVERIES = f"{_ONE}/deliveries"

Events = Annotated[tuple[WebhookEvent, ...], Meta(min_length=1, max_length=EVENTS_MAX)]


class WebhookView(Record):
    """A webhook. `secret` verifies signatures, only in the response that created it."""

    webhook_id: WebhookId
    url: str
    events: tuple[WebhookEvent, ...]
    description: str | None = None
    enabled: bool
    created_by: str
    created_at: int
    updated_at: int
    failing_since: int | None = None
    disabled_at: int | None = None
    disabled_reason: DisableReason | None = None
    secret: str | None = None


class WebhookCreate(Request[WebhookView]):
    url: str
    events: Events
    description: str | None = None


@operation(
    "webhook.create",
    needs=ADMIN,
    audit="webhook.create",
    http=Http("POST", _ALL, status=201, names=("NewWebhook", None)),
    raises=(Conflict,),
)
async def create(context: Context, request: WebhookCreate) -> WebhookView:
    """Create a webhook.

    The secret is shown once; receivers verify signatures with it.
    """
    store, sender, now = _store(context), context.vm.webhooks, context.vm.clock()
    _check_description(request.description)
    url = await sender.check_url(request.url)
    webhook_id = WebhookId(context.vm.new_id("whk"))
    context.target = webhook_id
    secret, sealed = sender.new_secret(context.tenant_id, webhook_id)
    webhook = Webhook(
        webhook_id=webhook_id,
        url=url,
        events=tuple(dict.fromkeys(request.events)),
        description=request.description or None,
        secret=sealed,
        created_by=context.principal.user_id or context.principal.actor,
        created_at=now,
        updated_at=now,
    )
    user_id, quotas = context.principal.user_id, context.tenancy.quotas
    async with quotas.adding(context.tenant_id, user_id, "webhooks", store.count):
        await store.add(webhook)
    return replace(_view(webhook), secret=secret.reveal())


@operation("webhook.list", needs=ADMIN, http=Http("GET", _ALL))
async def list_all(context: Context, request: PageRequest) -> Page[WebhookView]:
    """List webhooks, oldest first."""
    views = [_view(webhook) for webhook in await _store(context).list()]
    return page_of(views, request, (view.webhook_id for view in views))


class WebhookGet(Request[WebhookView]):
    webhook_id: WebhookId


@operation("webhook.get", needs=ADMIN, http=Http("GET", _ONE))
async def get(context: Context, request: WebhookGet) -> WebhookView:
    """Show a webhook."""
    return _view(await _find(context, request.webhook_id))


class WebhookUpdate(Request[WebhookView]):
    """Members that are absent stay as they are. `enabled` of true resumes a webhook that was disabled."""

    webhook_id: WebhookId
    url: str | None = None
    events: Events | None = None
    description: str | None = None
    enabled: bool | None = None


@operation(
    "webhook.update",
    needs=ADMIN,
    audit="webhook.update",
    http=Http("PUT", _ONE, names=("WebhookChanges", None)),
)
async def update(context: Context, request: WebhookUpdate) -> WebhookView:
    """Update, disable or enable a webhook."""
    await _find(context, request.webhook_id)
    now = context.vm.clock()
    _check_description(request.description)
    url = None if request.url is None else await context.vm.webhooks.check_url(request.url)

    def modify(webhook: Webhook) -> Webhook:
        if url is not None:
            webhook = replace(webhook, url=url)
        if request.events is not None:
            webhook = replace(webhook, events=tuple(dict.fromkeys(request.events)))
        if request.description is not None:
            webhook = replace(webhook, description=request.description or None)
        if request.enabled is True:
            webhook = replace(webhook, disabled_at=None, disabled_reason=None, failing_since=None)
        elif request.enabled is False and webhook.disabled_at is None:
            webhook = replace(webhook, disabled_at=now)
        return replace(webhook, updated_at=now)

    return await _change(context, request.webhook_id, modify)


class WebhookDelete(Request[None]):
    webhook_id: WebhookId


@operation("webhook.delete", needs=ADMIN, audit="webhook.delete", http=Http("DELETE", _ONE))
async def delete(context: Context, request: WebhookDelete) -> None:
    """Delete a webhook and its deliveries."""
    if not await _store(context).remove(request.webhook_id):
        raise not_found("Webhook", request.webhook_id)


class WebhookRotate(Request[WebhookView]):
    webhook_id: WebhookId


@operation(
    "webhook.rotate",
    needs=ADMIN,
    audit="webhook.rotate",
    http=Http("POST", f"{_ONE}/rotate", status=201),
)
async def rotate(context: Context, request: WebhookRotate) -> WebhookView:
    """Replace the secret of a webhook.

    The new one is shown once. For 24 hours deliveries are signed with both.
    """
    await _find(context, request.webhook_id)
    now = context.vm.clock()
    secret, sealed = context.vm.webhooks.new_secret(context.tenant_id, request.webhook_id)

    def modify(webhook: Webhook) -> Webhook:
        until = now + ROTATION_MS
        return replace(webhook, secret=sealed, previous_secret=webhook.secret, previous_until=until, updated_at=now)

    view = await _change(context, request.webhook_id, modify)
    return replace(view, secret=secret.reveal())


class DeliveryView(Record):
    """One event to one webhook. `status` is that of the last response; `eventId` is the header `webhook-id`."""

    number: int
    event_id: str
    type: str
    state: DeliveryState
    created_at: int
    attempts: int
    next_at: int | None = None
    last_at: int | None = None
    delivered_at: int | None = None
    status: int | None = None
    error: str | None = None


class WebhookTest(Request[DeliveryView]):
    webhook_id: WebhookId


@operation(
    "webhook.test",
    needs=ADMIN,
    audit="webhook.test",
    http=Http("POST", f"{_ONE}/test"),
    raises=(Conflict,),
)
async def test(context: Context, request: WebhookTest) -> DeliveryView:
    """Send a test event and show the result.

    Its type is `webhook.test`. It is sent regardless of the events of the webhook, and retried like any other.
    """
    webhook, now = await _find_enabled(context, request.webhook_id), context.vm.clock()
    notice = Notice(
        event_id=context.vm.new_id("evt"),
        type=TEST_EVENT,
        at=now,
        data={"webhookId": webhook.webhook_id, "message": "It works."},
    )
    due = await _store(context).notify(webhook.webhook_id, notice, now + LEASE_MS)
    if due is None:
        raise not_found("Webhook", webhook.webhook_id)
    return await _attempt(context, due)


class DeliveryList(PageRequest):
    webhook_id: WebhookId


@operation("webhook.deliveries", needs=ADMIN, http=Http("GET", _DELIVERIES))
async def list_deliveries(context: Context, request: DeliveryList) -> Page[DeliveryView]:
    """List the deliveries of a webhook, newest first."""
    await _find(context, request.webhook_id)
    deliveries = await _store(context).deliveries(request.webhook_id, before=number_of(request.cursor), limit=request.limit + 1)
    views = [_delivery_view(delivery) for delivery in deliveries]
    return paged(views, request.limit, lambda index: str(views[index].number))


class WebhookRedeliver(Request[DeliveryView]):
    webhook_id: WebhookId
    number: Number


@operation(
    "webhook.redeliver",
    needs=ADMIN,
    audit="webhook.redeliver",
    http=Http("POST", f"{_DELIVERIES}/{{number}}/redeliver"),
    raises=(Conflict,),
)
async def redeliver(context: Context, request: WebhookRedeliver) -> DeliveryView:
    """Send a delivery again now, with the same `webhook-id`."""
    webhook = await _find_enabled(context, request.webhook_id)
    due = await _store(context).redeliver(webhook.webhook_id, request.number, context.vm.clock() + LEASE_MS)
    if due is None:
        raise not_found("Delivery", str(request.number))
    return await _attempt(context, due)


async def _attempt(context: Context, due: DueDelivery) -> DeliveryView:
    attempted: Attempted = await context.vm.webhooks.attempt(due)
    delivery = await _store(context).get_delivery(due.delivery.number)
    if delivery is None:
        # The webhook was deleted meanwhile.
        raise not_found("Delivery", str(due.delivery.number))
    return replace(_delivery_view(delivery), status=attempted.status)


def _store(context: Context) -> "WebhookStore":
    return context.tenancy.store.webhooks(context.tenant_id)


async def _find(context: Context, webhook_id: WebhookId) -> Webhook:
    webhook = await _store(context).get(webhook_id)
    if webhook is None:
        raise not_found("Webhook", webhook_id)
    return webhook


async def _find_enabled(context: Context, webhook_id: WebhookId) -> Webhook:
    webhook = await _find(context, webhook_id)
    if webhook.disabled_at is not None:
        raise Conflict("This webhook is disabled; enable it first")
    return webhook


async def _change(context: Context, webhook_id: WebhookId, modify: Callable[[Webhook], Webhook]) -> WebhookView:
    webhook = await _store(context).change(webhook_id, modify)
    if webhook is None:
        raise not_found("Webhook", webhook_id)
    context.vm.webhooks.wake()
    return _view(webhook)


def _check_description(text: str | None) -> None:
    if text:
        check_text(text, "description", DESCRIPTION_MAX)


def _view(webhook: Webhook) -> WebhookView:
    return record_from(WebhookView, webhook, enabled=webhook.disabled_at is None, secret=None)


def _delivery_view(delivery: Delivery) -> DeliveryView:
    return record_from(DeliveryView, delivery, state=delivery.state)
