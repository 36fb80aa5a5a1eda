"""Bounds — errors of requests that are too large or too slow for a process that many share."""

from agentvm.errors import AgentVMError, InvalidInput, Refused


class InputTooLarge(InvalidInput):
    code = "input_too_large"


class ServerBusy(Refused):
    code = "server_busy"


class QueryTimeout(Refused):
    """What was asked for takes longer to find than one asker may keep the database busy."""

    code = "query_timeout"


class HistoryTooLarge(Refused):
    """What would have to be read of a session is more than is held in memory for one request."""

    code = "history_too_large"


class TurnLimitReached(AgentVMError):
    code = "turn_limit_reached"
