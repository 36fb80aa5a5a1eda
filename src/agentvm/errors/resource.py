"""Errors of resources; part of the tree in `agentvm.errors`."""

from agentvm.errors import Conflict, InvalidInput, NotFound, Unprocessable, shorten


class ResourceUriInvalid(InvalidInput):
    code = "resource_uri_invalid"

    def __init__(self, uri: str, why: str) -> None:
        super().__init__(f"{shorten(uri)!r} is not a valid resource URI: {why}")


class ResourceInvalid(Unprocessable):
    code = "resource_invalid"


class ResourceCycle(Unprocessable):
    code = "resource_cycle"

    def __init__(self, path: list[str]) -> None:
        super().__init__(f"Circular dependency: {' -> '.join(path)}", details={"path": path})


class ResourceTooDeep(Unprocessable):
    code = "resource_too_deep"


class ResourceTooLarge(Unprocessable):
    code = "resource_too_large"


class ResourceVisibilityConflict(Unprocessable):
    code = "resource_visibility_conflict"


class PromptUnresolved(Unprocessable):
    code = "prompt_unresolved"

    def __init__(self, uri: str, names: list[str], remedy: str = "pass them as args") -> None:
        super().__init__(f"{shorten(uri)} has no value for: {', '.join(names)}; {remedy}", details={"unresolved": names})
        self.uri, self.names = uri, names


class ResourceNotFound(NotFound):
    code = "resource_not_found"

    def __init__(self, name: str, there: str = "") -> None:
        """`there` lists existing resources, for callers who may see them."""
        super().__init__(f"Resource not found: {shorten(name)}{there and f'; {there}'}")
        self.there = there


class ResourceExists(Conflict):
    code = "resource_exists"


class ResourceVersionExists(Conflict):
    code = "resource_version_exists"


class ResourceInUse(Conflict):
    code = "resource_in_use"


class ResourceLockMismatch(Conflict):
    code = "resource_lock_mismatch"
