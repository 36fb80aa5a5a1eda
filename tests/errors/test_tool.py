from agentvm.errors import ToolFailed
from agentvm.errors.tool import EgressRefused, McpChanged, McpCommandNotAllowed, SecretNotGranted
from agentvm.server.errors import status_of


def test_a_missing_grant_names_the_secret_the_tool_and_the_host_with_the_command_that_grants_it() -> None:
    error = SecretNotGranted("ACME", "zoo/orders", "header", "api.acme.org")
    assert error.details == {"secret": "ACME", "tool": "zoo/orders", "as": "header", "host": "api.acme.org"}
    assert "avm secret grant ACME zoo/orders --as header --host api.acme.org" in str(error)
    assert len(str(SecretNotGranted("x" * 10_000, "z" * 10_000, "env", "y" * 10_000))) < 2_000


def test_failures_of_calls_are_told_to_the_model_and_refused_commands_to_the_author() -> None:
    assert all(issubclass(kind, ToolFailed) for kind in (EgressRefused, SecretNotGranted, McpChanged))
    assert status_of(McpCommandNotAllowed) == 422
