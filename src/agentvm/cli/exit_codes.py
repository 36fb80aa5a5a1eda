"""Exit codes — the exit status of `avm` by kind of failure, for scripts."""

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentvm.errors import AgentVMError


class ExitCode(IntEnum):
    """Exit status of a command."""

    FAILED = 1
    USAGE = 2
    NETWORK = 3
    """No server answered in time."""
    DENIED = 4
    """The API key is missing, invalid or lacks a permission."""
    NOT_FOUND = 5
    QUOTA = 6
    """A quota or the wallet is exhausted."""
    BUG = 70
    INTERRUPTED = 130


def exit_code_of(error: "type[AgentVMError] | None") -> ExitCode:
    """The exit code of an error class; `FAILED` for all others."""
    from agentvm.errors import AccessDenied, ChannelClosed, NotFound, QuotaExceeded, RequestTimeout, WalletEmpty

    codes: tuple[tuple[type[AgentVMError], ExitCode], ...] = (
        (ChannelClosed, ExitCode.NETWORK),
        (RequestTimeout, ExitCode.NETWORK),
        (AccessDenied, ExitCode.DENIED),
        (NotFound, ExitCode.NOT_FOUND),
        (QuotaExceeded, ExitCode.QUOTA),
        (WalletEmpty, ExitCode.QUOTA),
    )
    return next((code for kind, code in codes if error is not None and issubclass(error, kind)), ExitCode.FAILED)
