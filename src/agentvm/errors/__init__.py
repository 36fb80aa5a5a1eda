"""Errors — all exceptions of AgentVM in one tree, each with a stable code.

The code is part of the API, the text is for people. A message names the item and, where possible, the remedy.

    AgentVMError
    ├── InvalidInput            the request is malformed
    │   ├── UnknownCommand · ResourceUriInvalid · InputTooLarge · FilePathInvalid
    │   └── Unprocessable       the request is well formed, but inconsistent; TooManyMemories
    │       ├── ResourceInvalid · ResourceCycle · ResourceTooDeep · ResourceTooLarge · PromptUnresolved
    │       ├── ResourceVisibilityConflict · BackupInvalid · ArchiveInvalid · ArchiveTooLarge · AttachmentTooLarge
    │       └── McpCommandNotAllowed
    ├── NotFound                the item does not exist, or belongs to another tenant
    │   ├── ContainerNotFound · ImageNotFound · SessionNotFound · AgentNotFound · FileMissing · MemoryNotFound
    │   └── DefinitionNotFound · DriverNotFound · ToolNotFound · ResourceNotFound · AttachmentNotFound · WaitNotFound
    ├── Conflict                the request contradicts the stored state
    │   ├── DefinitionConflict · DataDirInUse · MigrationUnknown · AttachmentInUse · ContainerErasing
    │   ├── WaitAlreadyAnswered · WaitExpired · ApprovalRequired
    │   ├── ResourceExists · ResourceVersionExists · ResourceInUse · ResourceLockMismatch
    │   └── PreconditionFailed  the item has changed since the client read it
    ├── AccessDenied            the caller is not permitted
    │   ├── Unauthenticated     credentials are missing or invalid
    │   ├── AuthenticationOff   the request needs a server with authentication
    │   └── PermissionDenied · ContainerForbidden · WaitForbidden · ToolCallDenied
    ├── Refused                 the request is valid, but cannot be served now
    │   ├── InboxFull · AgentBusy · AgentNotRunning · SessionQuarantined · ShuttingDown · ServerBusy · QueryTimeout
    │   └── SessionMoved · NodeSilent · HistoryTooLarge · QuotaExceeded · WalletEmpty · ModelUnpriced
    ├── NotAvailable            the feature is not configured on this server
    ├── StoreFailed             a write failed; nothing was stored partially
    │   ├── ConstraintFailed    a write contradicts a constraint of the schema
    │   ├── WritesRefused       writes of some sessions contradict the stored state
    │   ├── SessionsMoved       another node runs some of the sessions
    │   ├── NodeFenced          this node was declared dead by the others
    │   └── RecordUnreadable    a stored record is damaged; a retry does not help
    ├── ConfigInvalid           a setting is invalid; MissingKey
    ├── ProviderError           the model provider failed (see `retryable`)
    │   ├── ProviderAuthFailed · ProviderBadRequest · ProviderRateLimited · ProviderOverloaded · ProviderUnreachable
    │   ├── ProviderTimeout · ProviderProtocolError
    │   └── ModelUnavailable    the embedded model is not installed
    ├── ToolFailed              a tool failed; the model is told
    │   ├── EgressRefused · SecretNotGranted · McpChanged · McpConsentRequired · WorkspaceFull
    │   └── TierUnavailable     no tier of this server can run the job
    │       ├── TierBroken
    │       └── EngineLacking
    ├── TurnLimitReached · OutputMisfit
    ├── PlatformFailed          a chat platform failed; the host tries again
    │   └── PlatformRefused     a chat platform does not accept the channel
    └── ChannelError            errors of a client's connection
        └── ChannelClosed · RequestTimeout · RemoteError
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar, Literal, Self

from agentvm.errors.quota import quota_text

_NAME_CHARACTERS_MAX = 200


def shorten(name: str) -> str:
    """A client's text, cut to a length suitable for an error message or a log line."""
    return name if len(name) <= _NAME_CHARACTERS_MAX else f"{name[:_NAME_CHARACTERS_MAX]}…"


def suggest(name: str, names: Iterable[str]) -> str:
    """The closest name as a question, or the list of all names."""
    choices = {choice.lower(): choice for choice in sorted(names)}
    matches = get_close_matches(name[:64].lower(), choices, n=1, cutoff=0.6)
    return f"did you mean {choices[matches[0]]}?" if matches else f"there are {', '.join(choices.values())}"


BY_CODE: dict[str, type["AgentVMError"]] = {}
"""Error classes by code; each class registers itself."""


class AgentVMError(Exception):
    """An expected failure. `str(error)` is safe to show to a client."""

    code: ClassVar[str] = "internal_error"
    details: dict[str, object]
    """The facts of the message as fields, for programs. Sent to the client, too."""

    def __init_subclass__(cls) -> None:
        BY_CODE[cls.code] = cls

    def __new__(cls, *args: object, **settings: object) -> Self:
        # Not in __init__, which is not called for errors from another process.
        self = super().__new__(cls, *args, **settings)
        self.details = {}
        return self

    def __init__(self, *args: object, details: dict[str, object] | None = None) -> None:
        super().__init__(*args)
        self.details = {} if details is None else details


class InvalidInput(AgentVMError):
    code = "invalid_input"
    is_unread = False
    """Whether the input could not be read at all, so that nothing is known of it."""


class UnknownCommand(InvalidInput):
    code = "unknown_command"


class Unprocessable(InvalidInput):
    code = "unprocessable"


class NotFound(AgentVMError):
    code = "not_found"


def not_found(noun: str, name: str) -> NotFound:
    """The usual error for an item that does not exist, or that the caller may not see."""
    return NotFound(f"{noun} not found: {shorten(name)}")


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
    """The database was written by a newer version of AgentVM."""

    code = "migration_unknown"


class PreconditionFailed(Conflict):
    code = "precondition_failed"


class AccessDenied(AgentVMError):
    code = "access_denied"


class Unauthenticated(AccessDenied):
    """Credentials are missing or invalid. The reason is logged, and sent only to their proven holder."""

    code = "unauthenticated"


class PermissionDenied(AccessDenied):
    code = "permission_denied"

    def __init__(self, permission: str) -> None:
        super().__init__(
            f"This request needs the permission {permission}. Use a key that has it "
            f"(avm key create NAME --permission {permission}), of a user whose role allows it"
        )


class ContainerForbidden(AccessDenied):
    code = "container_forbidden"

    def __init__(self, container_id: str) -> None:
        super().__init__(f"No access to container {shorten(container_id)}; use a key of one of its users")


class Refused(AgentVMError):
    code = "refused"


class QuotaExceeded(Refused):
    """A limit is exhausted. `details`: metric, limit, used, and resetAt (ms) if the limit resets."""

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
    is_charged = False  # Whether a request was sent that may have been charged.


class StoreFailed(AgentVMError):
    code = "store_failed"


class WritesRefused(StoreFailed):
    """A batch was not stored; `sessions` are those with contradicting writes."""

    code = "writes_refused"

    def __init__(self, sessions: frozenset[str]) -> None:
        super().__init__("The events contradict the stored state")
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
    """A model call failed. `retryable` says whether the same call may succeed later."""

    code = "provider_error"
    retryable: ClassVar[bool] = False
    retry_after: float | None = None
    unanswered: bool = False
    """Whether the provider did not respond: it may have processed the request, and may charge for it."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProviderAuthFailed(ProviderError):
    code = "provider_auth_failed"


class ProviderBadRequest(ProviderError):
    """The provider rejected the request. `provider_message`, `param` and `reason` are its message, parameter and code, if any.

    `place` is the rejected entry of the conversation and its part. `kind` is the probable cause; None if it is not a message.
    """

    code = "provider_bad_request"
    provider_message: str = ""
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
    """A model call timed out after `waited` seconds; None if the provider reported the timeout."""

    code = "timeout"
    retryable = True
    waited: float | None = None

    def __init__(self, message: str, *, retry_after: float | None = None, waited: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.waited = waited


class ProviderProtocolError(ProviderError):
    """The provider violated its own protocol."""

    code = "provider_protocol_error"


class ModelUnavailable(ProviderError):
    code = "model_unavailable"


class ToolFailed(AgentVMError):
    code = "tool_failed"
    unsent = False  # Whether the request that failed has never left.


class ChannelError(AgentVMError):
    code = "channel_error"


class ChannelClosed(ChannelError):
    code = "channel_closed"


class RequestTimeout(ChannelError):
    code = "request_timeout"


class RemoteError(ChannelError):
    """The server refused with a code unknown to this client, `remote_code`."""

    code = "remote_error"
    remote_code: str | None = None

    def __init__(self, message: str, *, remote_code: str | None = None) -> None:
        super().__init__(message)
        self.remote_code = remote_code


BY_CODE[AgentVMError.code] = AgentVMError


def from_code(code: str | None, text: str) -> AgentVMError:
    """The error of another process, as the class of its code, or a `RemoteError`."""
    kind = BY_CODE.get(code or "")
    if kind is None:
        return RemoteError(text, remote_code=code)
    error = kind.__new__(kind)
    Exception.__init__(error, text)
    return error
