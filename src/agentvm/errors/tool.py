"""Errors of tools; part of the tree in `agentvm.errors`."""

from agentvm.errors import AccessDenied, Conflict, NotFound, ToolFailed, Unprocessable, shorten


class EgressRefused(ToolFailed):
    """A request to an address that tools may not reach. The text names the host, never the address behind it."""

    code = "egress_refused"
    unsent = True


class SecretNotGranted(ToolFailed):
    """A tool may not use a secret in this way, or not for this host. The text has the command that grants it."""

    code = "secret_not_granted"

    def __init__(self, secret: str, tool: str, use: str, host: str | None) -> None:
        secret, tool, place = shorten(secret), shorten(tool), "" if host is None else f" for {shorten(host)}"
        option = "" if host is None else f" --host {shorten(host)}"
        super().__init__(
            f"The secret {secret} is not granted to {tool}{place}; an administrator of the tenant can grant it: "
            f"avm secret grant {secret} {tool} --as {use}{option}",
            details={"secret": secret, "tool": tool, "as": use, **({} if host is None else {"host": shorten(host)})},
        )


class McpChanged(ToolFailed):
    """An MCP server describes a tool otherwise than when the image was made. `details`: tool, pinned, current and changes."""

    code = "mcp_changed"


class McpConsentRequired(ToolFailed):
    """A user has to allow AgentVM to act for him on an MCP server, at `url`; `state` comes back with the callback."""

    code = "mcp_consent_required"

    def __init__(self, server: str, url: str, state: str) -> None:
        super().__init__(
            f"The user has to sign in to {shorten(server)} first",
            details={"server": shorten(server), "url": url, "state": state},
        )
        self.server, self.url, self.state = server, url, state


class McpCommandNotAllowed(Unprocessable):
    code = "mcp_command_not_allowed"


class TierUnavailable(ToolFailed):
    """No tier of this server can run a job. The text names the missing engine or wall, and the remedy; `details` the verdict on
    each."""

    code = "tier_unavailable"


class TierBroken(TierUnavailable):
    """A tier could not build a wall, or lost the job; nothing foreign has run without the wall."""

    code = "tier_broken"
    started: bool = False
    """True when foreign code may have begun to run."""


class EngineLacking(TierUnavailable):
    """A subset engine lacks a module or syntax that the code uses; the code has had no effect yet."""

    code = "engine_lacking"


class WorkspaceFull(ToolFailed):
    """The files of a job are more, or larger, than its workspace may hold."""

    code = "workspace_full"


class ToolCallDenied(AccessDenied):
    """A rule denies a call of a tool; the text has the rule."""

    code = "tool_denied"


class ApprovalRequired(Conflict):
    """A call outside a conversation needs an approval. `details`: `why` and `audience`."""

    code = "approval_required"


class WaitNotFound(NotFound):
    code = "wait_not_found"

    def __init__(self, wait_id: str) -> None:
        super().__init__(f"There is no tool call that waits under the id {shorten(wait_id)}")


class WaitAlreadyAnswered(Conflict):
    """Another answer came first; `details` has its decision."""

    code = "wait_answered"

    def __init__(self, wait_id: str, decision: str) -> None:
        super().__init__(f"{shorten(wait_id)} was answered already: {decision or 'it has ended'}")
        self.details = {"decision": decision}


class WaitExpired(Conflict):
    code = "wait_expired"

    def __init__(self, wait_id: str) -> None:
        super().__init__(f"{shorten(wait_id)} has expired, so its call is denied; ask the agent again")


class WaitForbidden(AccessDenied):
    code = "wait_forbidden"

    def __init__(self, wait_id: str, why: str) -> None:
        super().__init__(f"You cannot answer {shorten(wait_id)}: {why}")
