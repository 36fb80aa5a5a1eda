"""Errors — every exception AgentVM raises on purpose, one tree, one stable code each.

The code is contract, the text is for people. A message names the thing and, where there is one, the remedy.

    AgentVMError
    ├── InvalidInput            what the peer sent cannot be understood
    │   ├── UnknownCommand · ResourceUriInvalid · InputTooLarge
    │   └── Unprocessable       well formed, but what it says does not hold together
    │       ├── ResourceInvalid · ResourceCycle · ResourceTooDeep · ResourceTooLarge · PromptUnresolved
    │       └── ResourceVisibilityConflict · BackupInvalid · ArchiveInvalid · ArchiveTooLarge · AttachmentTooLarge
    ├── NotFound                absent, or not yours: the two look the same
    │   ├── ContainerNotFound · ImageNotFound · SessionNotFound · AgentNotFound
    │   └── DefinitionNotFound · DriverNotFound · ToolNotFound · ResourceNotFound · AttachmentNotFound
    ├── Conflict                the request contradicts what is already there
    │   ├── DefinitionConflict · DataDirInUse · MigrationUnknown · AttachmentInUse · ContainerErasing
    │   ├── ResourceExists · ResourceVersionExists · ResourceInUse · ResourceLockMismatch
    │   └── PreconditionFailed  it has changed since the asker looked
    ├── AccessDenied            who asks may not
    │   ├── Unauthenticated     no credentials, or none that are good
    │   ├── AuthenticationOff   what a server that asks nobody for credentials does for nobody
    │   └── PermissionDenied · ContainerForbidden
    ├── Refused                 understood, but not now
    │   ├── InboxFull · AgentBusy · AgentNotRunning · SessionQuarantined · ShuttingDown · ServerBusy · QueryTimeout
    │   └── HistoryTooLarge · QuotaExceeded · WalletEmpty · ModelUnpriced
    ├── NotAvailable            this server has no such part, or it is not set up
    ├── StoreFailed             the disk did not take it; nothing was half-written
    │   ├── ConstraintFailed    a write contradicts a constraint of the schema
    │   ├── WritesRefused       some sessions' writes contradict what is there; the others' do not
    │   └── RecordUnreadable    what the disk gave back means nothing: trying again does not help
    ├── ConfigInvalid           the operator must change a setting
    │   └── MissingKey
    ├── ProviderError           the model's side failed (see `retryable`)
    │   ├── ProviderAuthFailed · ProviderBadRequest · ProviderRateLimited · ProviderOverloaded · ProviderUnreachable
    │   ├── ProviderTimeout · ProviderProtocolError
    │   └── ModelUnavailable    the embedded model is not installed
    ├── ToolFailed · TurnLimitReached
    └── ChannelError            the client's side of a socket
        └── ChannelClosed · RequestTimeout · RemoteError
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar, Literal, Self

from agentvm.errors.quota import quota_text

_LONGEST_NAME = 200


def shorten(name: str) -> str:
    """A peer's own text, at a length that is fit for an error and a log line."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def suggest(name: str, known: Iterable[str]) -> str:
    """What was probably meant, or all there is."""
    names = sorted(known)
    near = get_close_matches(name[:64].lower(), [one.lower() for one in names], n=1, cutoff=0.6)
    meant = next((one for one in names if near and one.lower() == near[0]), None)
    return f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"


BY_CODE: dict[str, type["AgentVMError"]] = {}
"""Every class enters itself, in whichever module it stands."""


class AgentVMError(Exception):
    """Anything AgentVM can explain. `str(error)` is safe to show to the peer."""

    code: ClassVar[str] = "internal_error"
    details: dict[str, object]
    """For programs: what the text says, as members. Shown to the peer too."""

    def __init_subclass__(cls) -> None:
        BY_CODE[cls.code] = cls

    def __new__(cls, *args: object, **about: object) -> Self:
        # Here and not in __init__, which an error that comes from another process does not go through.
        self = super().__new__(cls, *args, **about)
        self.details = {}
        return self

    def __init__(self, *args: object, details: dict[str, object] | None = None) -> None:
        super().__init__(*args)
        self.details = {} if details is None else details


class InvalidInput(AgentVMError):
    code = "invalid_input"


class UnknownCommand(InvalidInput):
    code = "unknown_command"


class Unprocessable(InvalidInput):
    code = "unprocessable"


class NotFound(AgentVMError):
    code = "not_found"


class ContainerNotFound(NotFound):
    code = "container_not_found"

    def __init__(self, container_id: str) -> None:
        super().__init__(f"Container not found: {shorten(container_id)}")


class ImageNotFound(NotFound):
    code = "image_not_found"

    def __init__(self, image_id: str) -> None:
        super().__init__(f"Image not found: {shorten(image_id)}")


class SessionNotFound(NotFound):
    code = "session_not_found"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session not found: {shorten(session_id)}")


class AgentNotFound(NotFound):
    code = "agent_not_found"

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"Agent not found: {shorten(agent_id)}")


class DefinitionNotFound(NotFound):
    code = "definition_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"Definition not found: {shorten(name)}")


class DriverNotFound(NotFound):
    code = "driver_not_found"


class ToolNotFound(NotFound):
    code = "tool_not_found"


class Conflict(AgentVMError):
    code = "conflict"


class DefinitionConflict(Conflict):
    code = "definition_conflict"


class DataDirInUse(Conflict):
    code = "data_dir_in_use"


class MigrationUnknown(Conflict):
    """The database was written by a newer AgentVM than this one."""

    code = "migration_unknown"


class PreconditionFailed(Conflict):
    code = "precondition_failed"


class AccessDenied(AgentVMError):
    code = "access_denied"


class Unauthenticated(AccessDenied):
    """No credentials, or none that are good. Why they are not is for the log, and for who has proven to hold them."""

    code = "unauthenticated"


class PermissionDenied(AccessDenied):
    code = "permission_denied"

    def __init__(self, permission: str) -> None:
        super().__init__(
            f"This needs the permission {permission}; use a key that has it (avm key create NAME --permission {permission}), "
            "of a user whose role allows it"
        )


class ContainerForbidden(AccessDenied):
    code = "container_forbidden"

    def __init__(self, container_id: str) -> None:
        super().__init__(f"Container {shorten(container_id)} is not yours")


class Refused(AgentVMError):
    code = "refused"


class QuotaExceeded(Refused):
    """`details` are for programs: metric, limit, used, resetAt (ms, or absent when time does not help)."""

    code = "quota_exceeded"

    def __init__(self, metric: str, *, limit: int, used: int, adding: int = 1, reset_at: int | None = None) -> None:
        super().__init__(quota_text(metric, limit=limit, used=used, adding=adding, reset_at=reset_at))
        self.details = {"metric": metric, "limit": limit, "used": used}
        if reset_at is not None:
            self.details["resetAt"] = reset_at


class WalletEmpty(Refused):
    code = "wallet_empty"


class ModelUnpriced(Refused):
    code = "model_unpriced"


class InboxFull(Refused):
    code = "inbox_full"


class AgentBusy(Refused):
    code = "agent_busy"


class SessionQuarantined(Refused):
    code = "session_quarantined"


class AgentNotRunning(Refused):
    code = "agent_not_running"


class ShuttingDown(Refused):
    code = "shutting_down"


class NotAvailable(AgentVMError):
    code = "not_available"


class StoreFailed(AgentVMError):
    code = "store_failed"


class WritesRefused(StoreFailed):
    """Nothing was stored; `sessions` are those whose writes cannot be."""

    code = "writes_refused"

    def __init__(self, sessions: frozenset[str]) -> None:
        super().__init__("The events contradict what is stored")
        self.sessions = sessions


class ConstraintFailed(StoreFailed):
    """A write contradicts a constraint of the schema, such as a unique key."""

    code = "constraint_failed"


class RecordUnreadable(StoreFailed):
    code = "record_unreadable"


class ConfigInvalid(AgentVMError):
    code = "config_invalid"


class MissingKey(ConfigInvalid):
    code = "missing_key"


class ProviderError(AgentVMError):
    """The model's side failed. `retryable` says whether the same call may succeed later."""

    code = "provider_error"
    retryable: ClassVar[bool] = False
    retry_after: float | None = None
    unanswered: bool = False
    """Whether nothing was heard of the provider: it may have read the request, and may charge for it."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProviderAuthFailed(ProviderError):
    code = "provider_auth_failed"


class ProviderBadRequest(ProviderError):
    """The provider does not take the request. `said`, `param` and `reason` are its own words for that, as far as it has any.

    `place` is what of the prompt it names: an entry of the conversation, and a part of that. `kind` is what it seems to be
    about; None when it is about nothing that was said.
    """

    code = "provider_bad_request"
    said: str = ""
    param: str = ""
    reason: str = ""
    place: tuple[int, int | None] | None = None
    kind: Literal["media", "tools", "unknown"] | None = None


class ProviderRateLimited(ProviderError):
    code = "provider_rate_limited"
    retryable = True


class ProviderOverloaded(ProviderError):
    code = "provider_overloaded"
    retryable = True


class ProviderUnreachable(ProviderError):
    code = "provider_unreachable"
    retryable = True


class ProviderTimeout(ProviderError):
    """`waited` is how many seconds this server waited before it gave up; None when the provider itself reported a timeout."""

    code = "timeout"
    retryable = True
    waited: float | None = None

    def __init__(self, message: str, *, retry_after: float | None = None, waited: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.waited = waited


class ProviderProtocolError(ProviderError):
    """The provider answered with something its own documentation does not allow."""

    code = "provider_protocol_error"


class ModelUnavailable(ProviderError):
    code = "model_unavailable"


class ToolFailed(AgentVMError):
    code = "tool_failed"


class ChannelError(AgentVMError):
    code = "channel_error"


class ChannelClosed(ChannelError):
    code = "channel_closed"


class RequestTimeout(ChannelError):
    code = "request_timeout"


class RemoteError(ChannelError):
    """The other side refused. `remote_code` is its stable code."""

    code = "remote_error"
    remote_code: str | None = None

    def __init__(self, message: str, *, remote_code: str | None = None) -> None:
        super().__init__(message)
        self.remote_code = remote_code


BY_CODE[AgentVMError.code] = AgentVMError


def from_code(code: str | None, text: str) -> AgentVMError:
    """The error another process raised, as the same class where this one knows its code."""
    kind = BY_CODE.get(code or "")
    if kind is None:
        return RemoteError(text, remote_code=code)
    error = kind.__new__(kind)
    Exception.__init__(error, text)
    return error
