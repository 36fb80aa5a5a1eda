"""Exit codes — the number with which `avm` ends, so that a script can tell a wrong key from a server that is away."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentvm.errors import AgentVMError

FAILED = 1
USAGE = 2
NETWORK = 3
"""No server answered, or not in time."""
DENIED = 4
"""The key is missing, not in force, or lacks a permission."""
NOT_FOUND = 5
QUOTA = 6
"""A quota or the wallet is used up."""
BUG = 70
INTERRUPTED = 130


def exit_code_of(error: "type[AgentVMError] | None") -> int:
    """The exit code for a class of error; `FAILED` for every class without a code of its own."""
    from agentvm.errors import AccessDenied, ChannelClosed, NotFound, QuotaExceeded, RequestTimeout, WalletEmpty

    codes: tuple[tuple[type[AgentVMError], int], ...] = (
        (ChannelClosed, NETWORK),
        (RequestTimeout, NETWORK),
        (AccessDenied, DENIED),
        (NotFound, NOT_FOUND),
        (QuotaExceeded, QUOTA),
        (WalletEmpty, QUOTA),
    )
    return next((code for kind, code in codes if error is not None and issubclass(error, kind)), FAILED)
