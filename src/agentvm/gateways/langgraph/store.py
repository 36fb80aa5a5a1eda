"""LangGraph store — JSON objects that clients keep in a container, under keys in namespaces."""

from typing import Annotated, Any, Final

import msgspec

from agentvm.errors import Unprocessable
from agentvm.gateways.langgraph.messages import moment
from agentvm.gateways.langgraph.threads import OFFSET_MAX, PAGE_MAX, container_of, refuse_unsupported
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, Lenient, NoBody
from agentvm.gateways.talk import Talk
from agentvm.model.store_item import Namespace, StoreItem, check_key, check_namespace
from agentvm.operations.container import ensure
from agentvm.storage.sql.store_items import StoreItems, size_of

NAMESPACES_MAX: Final = 1_000
FILTER_MAX: Final = 20
"""Members of one filter."""

Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]


class ItemDeleteBody(Lenient, frozen=True):
    namespace: Namespace
    key: str


class ItemPutBody(ItemDeleteBody, frozen=True):
    value: dict[str, Any]
    index: bool | list[str] | None = None
    ttl: Any = None


class ItemSearchBody(Lenient, frozen=True):
    namespace_prefix: Namespace = ()
    filter: dict[str, Any] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = 10
    offset: Offset = 0
    query: str | None = None


class NamespaceListBody(Lenient, frozen=True):
    prefix: Namespace | None = None
    suffix: Namespace | None = None
    max_depth: Annotated[int, msgspec.Meta(ge=1)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=NAMESPACES_MAX)] = 100
    offset: Offset = 0


def _items(ask: Ask[Any], talk: Talk) -> StoreItems:
    items: StoreItems = talk.context().workspace.store.container(container_of(ask, talk)).store_items
    return items


def _show(item: StoreItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": moment(item.created_at),
        "updated_at": moment(item.updated_at),
    }


async def put(ask: Ask[ItemPutBody], talk: Talk) -> GatewayReply:
    body, container_id, now = ask.body, container_of(ask, talk), talk.vm.clock()
    refuse_unsupported(index=body.index)
    if body.ttl is not None:
        raise Unprocessable("ttl is not supported here: items stay until they are deleted; leave it out")
    item = StoreItem(
        namespace=check_namespace(body.namespace), key=check_key(body.key), value=body.value, created_at=now, updated_at=now
    )
    size = freed = size_of(item)
    with talk.context() as context:
        await ensure(context, container_id)
        await context.workspace.check_storage(size)
        try:
            freed = await context.workspace.store.container(container_id).store_items.put(item)
        finally:
            await context.workspace.free_storage(freed)
        context.finish()
    return GatewayReply(content=None, status=204)


async def get(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Returns the item, or null: its clients take that for none."""
    items = _items(ask, talk)
    namespace = check_namespace(tuple(ask.query.get("namespace", "").split(".")))
    item = await items.get(namespace, check_key(ask.query.get("key", "")))
    return GatewayReply(content=b"null" if item is None else _show(item))


async def delete(ask: Ask[ItemDeleteBody], talk: Talk) -> GatewayReply:
    freed = await _items(ask, talk).delete(check_namespace(ask.body.namespace), check_key(ask.body.key))
    await talk.context().workspace.free_storage(freed)
    return GatewayReply(content=None, status=204)


async def search(ask: Ask[ItemSearchBody], talk: Talk) -> GatewayReply:
    body, items = ask.body, _items(ask, talk)
    refuse_unsupported(query=body.query)
    members = body.filter or {}
    if len(members) > FILTER_MAX:
        raise Unprocessable(f"filter has at most {FILTER_MAX} members")
    if any(name.startswith("$") for value in members.values() if isinstance(value, dict) for name in value):
        raise Unprocessable("filter compares for equality only; operators as $gt are not supported here")
    prefix = check_namespace(body.namespace_prefix, is_prefix=True)
    matching = await items.search(prefix, members, limit=body.limit, offset=body.offset)
    return GatewayReply(content={"items": [_show(item) for item in matching]})


def _matches(labels: Namespace, pattern: Namespace) -> bool:
    return all(word in ("*", label) for label, word in zip(labels, pattern, strict=True))


async def list_namespaces(ask: Ask[NamespaceListBody], talk: Talk) -> GatewayReply:
    body, items = ask.body, _items(ask, talk)
    prefix = check_namespace(body.prefix or (), is_prefix=True)
    suffix = check_namespace(body.suffix or (), is_prefix=True)
    matching = (
        namespace[: body.max_depth]
        for namespace in await items.list_namespaces()
        if len(namespace) >= max(len(prefix), len(suffix))
        and _matches(namespace[: len(prefix)], prefix)
        and _matches(namespace[len(namespace) - len(suffix) :], suffix)
    )
    page = tuple(dict.fromkeys(matching))[body.offset : body.offset + body.limit]
    return GatewayReply(content={"namespaces": page})


STORE_ROUTES = (
    GatewayRoute(method="PUT", path="/store/items", handler=put, body=ItemPutBody),
    GatewayRoute(method="GET", path="/store/items", handler=get),
    GatewayRoute(method="DELETE", path="/store/items", handler=delete, body=ItemDeleteBody),
    GatewayRoute(method="POST", path="/store/items/search", handler=search, body=ItemSearchBody),
    GatewayRoute(method="POST", path="/store/namespaces", handler=list_namespaces, body=NamespaceListBody),
)
