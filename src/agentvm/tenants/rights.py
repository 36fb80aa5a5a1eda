"""Rights — the permissions of a role, the limits of granting, and the containers of a user. Pure."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from hashlib import sha256

from agentvm.errors import AccessDenied, ContainerForbidden, InvalidInput, PermissionDenied, shorten
from agentvm.model.account import User, UserRole
from agentvm.model.ids import CONTAINER_ID_MAX, ContainerId, check_container_id
from agentvm.model.principal import EVERYTHING, MEMBER, PERMISSIONS, Principal

TENANT_WIDE = EVERYTHING - {"system:admin"}
READING = frozenset(permission for permission in EVERYTHING if permission.endswith(":read"))

CAPS: dict[UserRole, frozenset[str]] = {"viewer": READING, "member": MEMBER, "admin": TENANT_WIDE, "owner": TENANT_WIDE}
"""The most that a user of the role may do, with any key. No role reaches beyond the tenant."""

DEFAULT_PERMISSIONS: dict[UserRole, frozenset[str]] = {**CAPS, "viewer": READING & MEMBER}
"""The permissions of a user of the role without a key that lists some. A viewer's key may list more to read than a member's
default."""

_RANKS: dict[UserRole, int] = {"viewer": 0, "member": 1, "admin": 2, "owner": 3}

CONTAINERS_MAX = 100
KEY_NAME_MAX = 200
COMPARED_NAME_MAX = 64
"""Characters of an unknown permission that are compared with the known ones."""

# Letters of any script and the characters of ids and mail addresses; none with a meaning in a pattern, a path or a URL.
_ODD = re.compile(r"[^\w.@+=:,~-]")
_EXTERNAL_ID_MAX = CONTAINER_ID_MAX - len("user-") - 20


def check_permissions(names: Iterable[str], granter: Principal) -> tuple[str, ...]:
    """Returns the permissions in their own order, each once; `PermissionDenied` for one that the granter has not."""
    requested = set(names)
    for name in sorted(requested):
        if name not in EVERYTHING:
            nearest = get_close_matches(name[:COMPARED_NAME_MAX], PERMISSIONS, n=1, cutoff=0)[0]
            raise InvalidInput(f"There is no permission {shorten(name)}; did you mean {nearest}?")
    granted = tuple(name for name in PERMISSIONS if name in requested)
    for name in granted:
        if not granter.may(name):
            raise PermissionDenied(name)
    return granted


def default_permissions(role: UserRole, granter: Principal) -> frozenset[str]:
    """Returns the default permissions of a user's key: a member's, and of the role's others those that the granter has."""
    return DEFAULT_PERMISSIONS[role] & (MEMBER | granter.permissions)


def lower_role(first: UserRole, other: UserRole) -> UserRole:
    """Returns the role with fewer rights."""
    return min(first, other, key=_RANKS.__getitem__)


def check_covers_role(principal: Principal, role: UserRole) -> None:
    """Refuses a principal whose own rights do not cover the role of the affected user.

    Only an owner of the tenant or the operator can change or delete an owner, or create keys for one; otherwise an
    administrator could become an owner.
    """
    if principal.may("system:admin"):
        return
    if role == "owner" and principal.role != "owner":
        raise AccessDenied(
            "Only an owner of the tenant, or the operator, may change or create an owner; an owner's key must have been "
            "created after they became one"
        )
    if role in ("admin", "owner") and not principal.may("tenants:admin"):
        raise PermissionDenied("tenants:admin")


def check_may_assign(principal: Principal, role: UserRole) -> None:
    """Refuses to assign a role with more rights than the principal has."""
    check_covers_role(principal, role)
    if role in ("admin", "owner") and not principal.may("system:admin"):
        check_permissions(CAPS[role], principal)


def check_role_cap(names: Iterable[str], user: User) -> None:
    """Refuses a key that lists more than its user's role allows: it would be cut silently each time it is used."""
    beyond = sorted((set(names) & EVERYTHING) - CAPS[user.role])
    if beyond:
        name = shorten(user.external_id)
        remedy = "leave it away" if user.role in ("admin", "owner") else f"change it: avm user update {name} --role admin"
        raise InvalidInput(f"{name} has the role {user.role}, which caps their keys: it may not {', '.join(beyond)}; {remedy}")


def check_patterns(patterns: Iterable[str] | None) -> tuple[str, ...] | None:
    """Names and patterns of containers, as a key has them: each one that a container could match."""
    if patterns is None:
        return None
    checked = tuple(dict.fromkeys(patterns))
    if len(checked) > CONTAINERS_MAX:
        raise InvalidInput(f"A key names at most {CONTAINERS_MAX} containers, not {len(checked)}; use a pattern like user-*")
    for pattern in checked:
        check_container_id(pattern.replace("?", "x"))
    return checked


def check_reach(containers: tuple[str, ...] | None, granter: Principal) -> None:
    """Refuses to grant a container that the granter does not reach."""
    if granter.containers is None:
        return
    for pattern in ("*",) if containers is None else containers:
        plain = not set(pattern) & set("*?[")
        if pattern not in granter.containers and not (plain and granter.reaches(pattern)):
            raise ContainerForbidden(pattern)


def check_name(name: str) -> str:
    """Checks the name that a person gives a key."""
    if not name.strip() or len(name) > KEY_NAME_MAX or not name.isprintable():
        raise InvalidInput(f"The name of a key must have 1 to {KEY_NAME_MAX} characters that can be printed")
    return name


def first_container(user: User) -> ContainerId:
    """Returns the first container of a user: `user-<external id>`.

    Characters that a container's name cannot hold are replaced. Then the name also carries a digest of the whole external id,
    because two users whose ids differ only there must not share a container. The first part cannot end like the second.
    """
    plain = _ODD.sub("_", user.external_id)[:_EXTERNAL_ID_MAX]
    if plain == user.external_id and plain and not re.search(r"~[0-9a-f]{16}$", plain):
        return check_container_id(f"user-{plain}")
    mark = sha256(user.external_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return check_container_id(f"user-{plain}~{mark}")


def first_containers(user: User) -> tuple[ContainerId, ContainerId]:
    """Returns the first container of a user, and the one to use if another user has or had that: never the same twice.

    The second carries a digest of the user's id, too, and looks like no user's first.
    """
    mark = sha256(f"{user.external_id}\0{user.user_id}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    plain = _ODD.sub("_", user.external_id)[:_EXTERNAL_ID_MAX]
    return first_container(user), check_container_id(f"user-{plain}~{mark}")


def literal_pattern(container_id: ContainerId) -> str:
    """Returns the pattern that only this container matches: a name may hold characters with a meaning in a pattern."""
    return re.sub(r"([*?[])", r"[\1]", container_id)


def reachable_patterns(bound: Iterable[ContainerId], patterns: Iterable[str] | None) -> tuple[str, ...]:
    """Returns the containers that a user's key reaches: those the user is bound to and the key's patterns match."""
    named = None if patterns is None else tuple(patterns)
    return tuple(
        literal_pattern(name) for name in bound if named is None or any(fnmatchcase(name, pattern) for pattern in named)
    )


def earlier(first: int | None, other: int | None) -> int | None:
    """Returns the earlier of two moments; None is never."""
    return other if first is None else first if other is None else min(first, other)
