"""Errors of a cluster: a session that another node runs, and a node that was declared dead."""

from collections.abc import Mapping

from agentvm.errors import Refused, StoreFailed


class SessionMoved(Refused):
    """Another node runs a turn of the session. The command is carried out there; a client sees this only if it cannot be."""

    code = "session_moved"

    def __init__(self, session_id: str, runner: int | None) -> None:
        super().__init__(f"The session {session_id} runs on another node that does not answer; try again in a few seconds")
        self.session_id, self.runner = session_id, runner


class NodeSilent(Refused):
    """Another node has ended, or did not answer in time. It may have executed the request."""

    code = "node_silent"


class SessionsMoved(StoreFailed):
    """A batch was not stored; `runners` maps the sessions that another node runs to that node, or to None if another node has
    run it in the meantime."""

    code = "sessions_moved"

    def __init__(self, runners: Mapping[str, int | None]) -> None:
        super().__init__("Another node runs these sessions")
        self.runners = runners


FENCED = "This node was declared dead by the others, which continue with its turns; restart it"


class NodeFenced(StoreFailed):
    """A node that was declared dead stores nothing any more: others continue with its turns."""

    code = "node_fenced"
