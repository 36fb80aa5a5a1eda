"""Rights — what a role allows, what may be granted, and which containers a user has. Pure."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from hashlib import sha256

from agentvm.errors import AccessDenied, ContainerForbidden, InvalidInput, PermissionDenied, shorten
from agentvm.model.account import Role, User
from agentvm.model.ids import MAX_CONTAINER_ID, ContainerId, check_container_id
from agentvm.model.principal import EVERYTHING, MEMBER, PERMISSIONS, Principal

TENANT_WIDE = EVERYTHING - {"system:admin"}
READING = frozenset(permission for permission in EVERYTHING if permission.endswith(":read"))

CAPS: dict[Role, frozenset[str]] = {"viewer": READING, "member": MEMBER, "admin": TENANT_WIDE, "owner": TENANT_WIDE}
"""The most that a user of the role may do, whatever their key says. None reaches beyond the tenant."""

USUAL: dict[Role, frozenset[str]] = {**CAPS, "viewer": READING & MEMBER}
"""What a user of the role may do without a key that says it. A viewer's key may name more to read than a member's usual."""

_RANKS: dict[Role, int] = {"viewer": 0, "member": 1, "admin": 2, "owner": 3}

MOST_CONTAINERS = 100
MAX_NAME = 200
COMPARED_NAME_MAX = 64
"""Characters of an unknown permission that are compared with the known ones."""

# Letters of any script and what ids and mail addresses are made of; nothing that a pattern, a path or a URL gives a meaning.
_ODD = re.compile(r"[^\w.@+=:,~-]")
_TOO_LONG = MAX_CONTAINER_ID - len("user-") - 20


def check_permissions(names: Iterable[str], granter: Principal) -> tuple[str, ...]:
    """The permissions in their own order, each once; nobody grants what they have not."""
    wanted = set(names)
    for name in sorted(wanted):
        if name not in EVERYTHING:
            nearest = get_close_matches(name[:COMPARED_NAME_MAX], PERMISSIONS, n=1, cutoff=0)[0]
            raise InvalidInput(f"There is no permission {shorten(name)}; did you mean {nearest}?")
    granted = tuple(name for name in PERMISSIONS if name in wanted)
    for name in granted:
        if not granter.may(name):
            raise PermissionDenied(name)
    return granted


def usual(role: Role, granter: Principal) -> frozenset[str]:
    """What a user's key has if nothing is said: what members may, and of what else the role may, what the granter has."""
    return USUAL[role] & (MEMBER | granter.permissions)


def lower(one: Role, other: Role) -> Role:
    """Of two roles the one that may less."""
    return min(one, other, key=_RANKS.__getitem__)


def check_over(principal: Principal, role: Role) -> None:
    """Refuses a principal whose own rights do not cover the role of the user that something is done to.

    An owner is changed, deleted and given keys by an owner of the tenant or by the operator: an administrator who could act as
    one would be one.
    """
    if principal.may("system:admin"):
        return
    if role == "owner" and principal.role != "owner":
        raise AccessDenied(
            "Only an owner of the tenant, or the operator, may do this to an owner or make one; an owner's key must have been "
            "made since they are one"
        )
    if role in ("admin", "owner") and not principal.may("tenants:admin"):
        raise PermissionDenied("tenants:admin")


def check_gives(principal: Principal, role: Role) -> None:
    """Refuses to give somebody a role which may more than the principal: nobody grants what they have not."""
    check_over(principal, role)
    if role in ("admin", "owner") and not principal.may("system:admin"):
        check_permissions(CAPS[role], principal)


def check_cap(names: Iterable[str], user: User) -> None:
    """A key that names more than its user's role may would be cut without a word, each time it is used."""
    beyond = sorted((set(names) & EVERYTHING) - CAPS[user.role])
    if beyond:
        who = shorten(user.external_id)
        remedy = "leave it away" if user.role in ("admin", "owner") else f"change it: avm user update {who} --role admin"
        raise InvalidInput(f"{who} has the role {user.role}, which caps their keys: it may not {', '.join(beyond)}; {remedy}")


def check_patterns(patterns: Iterable[str] | None) -> tuple[str, ...] | None:
    """Names and patterns of containers, as a key has them: each one that a container could match."""
    if patterns is None:
        return None
    checked = tuple(dict.fromkeys(patterns))
    if len(checked) > MOST_CONTAINERS:
        raise InvalidInput(f"A key names at most {MOST_CONTAINERS} containers, not {len(checked)}; use a pattern like user-*")
    for pattern in checked:
        check_container_id(pattern.replace("?", "x"))
    return checked


def check_reach(containers: tuple[str, ...] | None, granter: Principal) -> None:
    """Nobody lets others reach a container that they do not reach themselves."""
    if granter.containers is None:
        return
    for pattern in ("*",) if containers is None else containers:
        plain = not set(pattern) & set("*?[")
        if pattern not in granter.containers and not (plain and granter.reaches(pattern)):
            raise ContainerForbidden(pattern)


def check_name(name: str) -> str:
    """What a person calls a key."""
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidInput(f"The name of a key must have 1 to {MAX_NAME} characters that can be printed")
    return name


def home_of(user: User) -> ContainerId:
    """The container a user is given at first: `user-<external id>`.

    What has no place in a container's name is replaced. Then the name also carries a digest of the whole external id, because
    two users whose ids differ only there must not share a container. The first part can say nothing that ends like the second.
    """
    plain = _ODD.sub("_", user.external_id)[:_TOO_LONG]
    if plain == user.external_id and plain and not re.search(r"~[0-9a-f]{16}$", plain):
        return check_container_id(f"user-{plain}")
    mark = sha256(user.external_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return check_container_id(f"user-{plain}~{mark}")


def homes_of(user: User) -> tuple[ContainerId, ContainerId]:
    """The container a user is given at first, and the one instead of it if somebody else has or had that: never the same twice.

    The second carries a digest of the user's id too, and looks like nobody's first.
    """
    mark = sha256(f"{user.external_id}\0{user.user_id}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    plain = _ODD.sub("_", user.external_id)[:_TOO_LONG]
    return home_of(user), check_container_id(f"user-{plain}~{mark}")


def literal(container_id: ContainerId) -> str:
    """The pattern that only this container matches: a name may hold what a pattern gives a meaning."""
    return re.sub(r"([*?[])", r"[\1]", container_id)


def within(bound: Iterable[ContainerId], patterns: Iterable[str] | None) -> tuple[str, ...]:
    """What a user's key reaches: of the containers that the user is bound to, those which the key names."""
    named = None if patterns is None else tuple(patterns)
    return tuple(literal(name) for name in bound if named is None or any(fnmatchcase(name, pattern) for pattern in named))


def earlier(one: int | None, other: int | None) -> int | None:
    """Of two moments the first; None is never."""
    return other if one is None else one if other is None else min(one, other)
