"""Sandbox files — binary files of sandboxes, put into the image as text files are: it runs the files that it was built with."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from agentvm.model.definition import Definition

ReadBlob = Callable[[str], Awaitable[bytes | None]]
"""Returns the bytes of a binary part by its digest."""


async def with_binary_files(definition: Definition, read: ReadBlob) -> Definition:
    """Returns the definition with the bytes of every binary file of its sandboxes."""
    rendered = definition.rendered
    if rendered is None:
        return definition
    tools = tuple([await _tool(spec, read) for spec in rendered.tools])
    sandbox = None if rendered.sandbox is None else await _whole(rendered.sandbox, read)
    agents = {uri: await with_binary_files(agent, read) for uri, agent in rendered.agents.items()}
    whole = msgspec.structs.replace(rendered, tools=tools, sandbox=sandbox, agents=agents)
    return msgspec.structs.replace(definition, rendered=whole)


async def _tool(spec: Mapping[str, Any], read: ReadBlob) -> dict[str, Any]:
    """A tool has a sandbox, or refers to another tool that has one."""
    resolved = dict(spec.get("resolved") or {})
    if isinstance(sandbox := resolved.get("sandbox"), Mapping):
        resolved["sandbox"] = await _whole(sandbox, read)
    if isinstance(entry := resolved.get("entry"), Mapping):
        resolved["entry"] = await _tool(entry, read)
    return {**spec, "resolved": resolved} if resolved else dict(spec)


async def _whole(sandbox: Mapping[str, Any], read: ReadBlob) -> dict[str, Any]:
    files = {}
    for path, content in (sandbox.get("files") or {}).items():
        body = await read(content["blob"]) if isinstance(content, Mapping) and "blob" in content else None
        files[path] = content if body is None else {"data": b64encode(body).decode()}
    return {**sandbox, "files": files} if files else dict(sandbox)
