"""Bounds — errors of requests that exceed a size or time limit."""

from agentvm.errors import AgentVMError, InvalidInput, Refused


class InputTooLarge(InvalidInput):
    code = "input_too_large"


class ServerBusy(Refused):
    code = "server_busy"


class QueryTimeout(Refused):
    """A query exceeded the time limit of the database."""

    code = "query_timeout"


class HistoryTooLarge(Refused):
    """A session is too large to be read in one request."""

    code = "history_too_large"


class TurnLimitReached(AgentVMError):
    code = "turn_limit_reached"


class OutputMisfit(AgentVMError):
    """The answer of a turn is not JSON of the wanted form, also after the model was asked to repair it."""

    code = "output_misfit"
