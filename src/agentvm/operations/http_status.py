"""HTTP status — the status of every error, whichever face or gateway reports it."""

from agentvm.errors import (
    AccessDenied,
    AgentVMError,
    Conflict,
    ConstraintFailed,
    InvalidInput,
    NotAvailable,
    NotFound,
    PreconditionFailed,
    QuotaExceeded,
    RecordUnreadable,
    Refused,
    StoreFailed,
    Unauthenticated,
    Unprocessable,
    WalletEmpty,
    WritesRefused,
)
from agentvm.errors.attachment import AttachmentTooLarge
from agentvm.errors.bounds import InputTooLarge
from agentvm.errors.tool import TierBroken, TierUnavailable, WorkspaceFull

STATUS: tuple[tuple[type[AgentVMError], int], ...] = (
    (AttachmentTooLarge, 413),
    (InputTooLarge, 413),
    (Unprocessable, 422),
    (InvalidInput, 400),
    (Unauthenticated, 401),
    (AccessDenied, 403),
    (NotFound, 404),
    (PreconditionFailed, 412),
    (Conflict, 409),
    (WalletEmpty, 402),
    (QuotaExceeded, 429),
    (Refused, 503),
    (TierBroken, 503),
    (TierUnavailable, 422),
    (WorkspaceFull, 413),
    (NotAvailable, 501),
    (WritesRefused, 500),
    (ConstraintFailed, 500),
    (RecordUnreadable, 500),
    (StoreFailed, 503),
)


def status_of(error: AgentVMError | type[AgentVMError]) -> int:
    error_type = error if isinstance(error, type) else type(error)
    return next((status for kind, status in STATUS if issubclass(error_type, kind)), 500)
