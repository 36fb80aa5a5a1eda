"""Resource commands — registering, publishing, discovering and resolving on the socket. The rest is at `/v1/resources`."""

from typing import Annotated, Literal

import msgspec

from agentvm.model.resource import CONTENT_MAX_BYTES, Visibility
from agentvm.model.semver import Bump
from agentvm.protocol.bounds import Bound
from agentvm.protocol.commands.base import Command, Reply
from agentvm.protocol.records import LockRecord, ResourceRecord

RESOURCE_BOUND = Bound(max_bytes=2 * CONTENT_MAX_BYTES, max_values=200_000)
"""Text in JSON, and binary parts in base64, take more than their bytes."""


class ResourceRegisterReply(Reply):
    """`uri` names the exact version."""

    record: ResourceRecord
    uri: str
    version: str
    digest: str
    warnings: tuple[str, ...] = ()
    """What of it this server does not act upon."""


class ResourceRegister(Command[ResourceRegisterReply]):
    """`type` may be singular. `tag` is a name that shall point to the version."""

    name = "resource_register"
    reply_type = ResourceRegisterReply
    bound = RESOURCE_BOUND
    type: str
    resource_name: str = msgspec.field(name="name")
    content: dict[str, object]
    version: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    schema: dict[str, object] | None = None
    dependencies: dict[str, str] | None = None
    tag: str | None = None


class ResourcePublish(Command[ResourceRegisterReply]):
    """`uri` may also be an id. What is not given is that of the latest version; without `version` and `bump` it is a patch."""

    name = "resource_publish"
    reply_type = ResourceRegisterReply
    bound = RESOURCE_BOUND
    uri: str
    content: dict[str, object] | None = None
    version: str | None = None
    bump: Bump | None = None
    tag: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    schema: dict[str, object] | None = None
    dependencies: dict[str, str] | None = None


class ResourceListReply(Reply):
    """`total` is how many there are on all pages."""

    records: tuple[ResourceRecord, ...]
    total: int
    next_cursor: str | None = None


class ResourceList(Command[ResourceListReply]):
    """`q` is what to search for. `cursor` is the `nextCursor` of the page before."""

    name = "resource_list"
    reply_type = ResourceListReply
    q: str | None = None
    type: str | None = None
    tag: str | None = None
    owner: str | None = None
    scope: Literal["own", "public", "all"] = "all"
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    cursor: str | None = None


class ResourceResolveReply(Reply):
    """`rendered` is what its type makes of it: a prompt's text, a tool's spec, an agent's definition."""

    uri: str
    resolved: str
    digest: str
    rendered: object
    lock: tuple[LockRecord, ...]
    warnings: tuple[str, ...] = ()


class ResourceResolve(Command[ResourceResolveReply]):
    """`args` are the values of a prompt's variables."""

    name = "resource_resolve"
    reply_type = ResourceResolveReply
    uri: str
    args: dict[str, object] | None = None
