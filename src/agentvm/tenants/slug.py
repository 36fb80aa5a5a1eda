"""Slugs — the names of tenants in URLs and commands. Pure."""

import re

from agentvm.errors import Conflict, InvalidInput
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.model.resource import SYSTEM

_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_RESERVED = frozenset({"create", "get", "list", "update", "delete", SYSTEM, DEFAULT_TENANT})
"""The last parts of routes, the owner of the resources that ship with the server, and the operator's tenant."""


def check_slug(slug: str, tenant_id: TenantId | None = None) -> str:
    """Returns a slug that the tenant may have; without `tenant_id` it is for a new tenant."""
    if tenant_id == DEFAULT_TENANT:
        raise Conflict("The slug of the tenant default cannot be changed")
    if not _SLUG.fullmatch(slug):
        raise InvalidInput("slug must have 1 to 63 small letters, digits and hyphens, and no hyphen at either end")
    if slug in _RESERVED:
        raise InvalidInput(f"slug {slug!r} is reserved; choose another")
    return slug
