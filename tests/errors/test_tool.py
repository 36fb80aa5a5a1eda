from agentvm.errors import ToolFailed
from agentvm.errors.tool import EgressRefused, McpChanged, McpCommandNotAllowed, SecretNotGranted
from agentvm.server.errors import status_of


def test_a_missing_grant_names_the_secret_and_the_host_and_stays_short() -> None:
    error = SecretNotGranted("ACME", "api.acme.org")
    assert error.details == {"secret": "ACME", "host": "api.acme.org"}
    assert "grant" in str(error)
    assert len(str(SecretNotGranted("x" * 10_000, "y" * 10_000))) < 800


def test_failures_of_calls_are_told_to_the_model_and_refused_commands_to_the_author() -> None:
    assert all(issubclass(kind, ToolFailed) for kind in (EgressRefused, SecretNotGranted, McpChanged))
    assert status_of(McpCommandNotAllowed) == 422
