"""Errors of chat channels; part of the tree in `agentvm.errors`."""

from agentvm.errors import AgentVMError


class PlatformFailed(AgentVMError):
    """A chat platform could not be reached, or failed. The host tries again.

    `permanent`: this delivery will never succeed. `retry_seconds`: the time that the platform asks to wait.
    """

    code = "platform_failed"

    def __init__(self, message: str, *, permanent: bool = False, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.permanent, self.retry_seconds = permanent, retry_seconds


class PlatformRefused(PlatformFailed):
    """A chat platform does not accept the channel; `remedy` names the change that is needed."""

    code = "platform_refused"

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy
