import socket

import pytest
from tests.cli.desk import avm
from tests.cli.fake_server import answering, refusing

from agentvm.cli.exit_codes import ExitCode, exit_code_of
from agentvm.errors import (
    AgentVMError,
    ChannelClosed,
    Conflict,
    ContainerForbidden,
    PermissionDenied,
    QuotaExceeded,
    RequestTimeout,
    SessionNotFound,
    Unauthenticated,
    WalletEmpty,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ChannelClosed, ExitCode.NETWORK),
        (RequestTimeout, ExitCode.NETWORK),
        (Unauthenticated, ExitCode.DENIED),
        (PermissionDenied, ExitCode.DENIED),
        (ContainerForbidden, ExitCode.DENIED),
        (SessionNotFound, ExitCode.NOT_FOUND),
        (QuotaExceeded, ExitCode.QUOTA),
        (WalletEmpty, ExitCode.QUOTA),
        (Conflict, ExitCode.FAILED),
        (AgentVMError, ExitCode.FAILED),
        (None, ExitCode.FAILED),
    ],
)
def test_an_error_has_the_exit_code_of_its_class(kind: type[AgentVMError] | None, code: int) -> None:
    assert exit_code_of(kind) == code


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (401, "unauthenticated", ExitCode.DENIED),
        (403, "permission_denied", ExitCode.DENIED),
        (404, "session_not_found", ExitCode.NOT_FOUND),
        (429, "quota_exceeded", ExitCode.QUOTA),
        (402, "wallet_empty", ExitCode.QUOTA),
        (409, "conflict", ExitCode.FAILED),
        (500, "internal_error", ExitCode.FAILED),
    ],
)
def test_a_refusal_of_a_server_has_the_exit_code_of_its_kind(status: int, error: str, code: int) -> None:
    with answering(refusing(status, error, "No")) as (url, _):
        assert avm("whoami", url=url).code == code


def test_a_server_that_is_away_has_an_exit_code_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert avm("whoami", url=f"http://127.0.0.1:{port}").code == ExitCode.NETWORK
