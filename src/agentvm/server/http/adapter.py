"""Adapter — an operation as a route."""

from typing import Any, cast

from agentvm.operations.context import Context, HttpDetails
from agentvm.operations.http_reply import NO_CONTENT, HttpReply
from agentvm.operations.operation import Operation
from agentvm.server.http.face import HttpFace
from agentvm.server.http.route import Ask, Given, Nothing, Route


def context_of(ask: Ask[Any]) -> Context:
    details = HttpDetails(
        body=ask.body,
        file=ask.file,
        accept=ask.accept,
        content_type=ask.content_type,
        if_match=ask.if_match,
        if_none_match=ask.if_none_match,
        names_tenant=ask.named,
    )
    workspace = ask.vm.workspace(ask.principal, ask.tenant_id)
    return Context(vm=ask.vm, workspace=workspace, http=details, request_id=ask.request_id, target=ask.target)


def route_of(operation: Operation) -> Route:
    """The route of an operation that has one."""
    http = operation.http
    assert http is not None
    face = HttpFace(operation, http)

    async def serve(ask: Ask[Any]) -> object:
        context = context_of(ask)
        with context:
            try:
                query, body = (ask.query, ask.given) if face.has_body else (ask.given, None)
                reply = await operation.function(context, face.request(ask.path, query, body))
            finally:
                ask.target, ask.looked_only = context.target, context.is_dry_run
            context.finish()
            if isinstance(reply, HttpReply):
                return reply
            content = face.content(reply, ask.path) if reply is not None else None
            status = http.status if http.status_of is None else http.status_of(reply)
            return NO_CONTENT if content is None else HttpReply(content=content, status=status)

    serve.__doc__ = operation.function.__doc__
    serve.__annotations__ = {"return": face.content_type}
    none = operation.reply is None
    guard, receiving = http.guard, http.receiving
    return Route(
        method=http.method,
        path=http.path.replace("}", ":str}"),
        needs=operation.needs,
        own=operation.own,
        across=operation.across,
        action=operation.audit,
        takes=cast("type[Given]", face.body if face.has_body else face.query),
        query=cast("type[Given]", face.query) if face.has_body else Nothing,
        body=http.body,
        most_body=http.max_body_bytes,
        max_values=http.max_values,
        bound=None if guard is None else lambda ask, size: guard(context_of(ask), size),
        receiving=None if receiving is None else lambda ask: receiving(context_of(ask)),
        head=http.head,
        statuses=http.statuses or ((204,) if none else (http.status,)),
        media_type=http.media_type,
        raises=operation.raises,
        hidden=http.hidden,
        grants=operation.grants,
        tag=operation.group,
        id=http.id or f"{operation.group}_{operation.function.__name__}",
        function=serve,
    )
