from collections import Counter

from agentvm.model.principal import EVERYTHING
from agentvm.server.http import FACES


def test_every_route_is_there_once() -> None:
    assert [name for name, count in Counter(route.name for route in FACES).items() if count > 1] == []
    assert len(FACES) > 30


def test_every_route_names_permissions_that_exist() -> None:
    assert {permission for route in FACES for permission in route.operation.needs} <= EVERYTHING


def test_only_what_is_about_oneself_needs_no_permission() -> None:
    assert [route.name for route in FACES if not route.operation.needs] == [
        "GET /v1/auth/whoami",
        "POST /v1/auth/ws-token",
        "POST /v1/auth/session",
        "DELETE /v1/auth/session",
        "GET /v1/auth/sessions",
        "DELETE /v1/auth/sessions/{browser_session_id}",
        "POST /v1/auth/oidc/start",
        "GET /v1/auth/oidc/callback",
        "GET /v1/auth/preferences",
        "PUT /v1/auth/preferences",
        "POST /v1/auth/invitation",
        "POST /v1/auth/invitation/accept",
        "GET /v1/catalog/models",
        # Signed with the secret of the trigger.
        "POST /v1/triggers/{trigger_id}",
    ]


def test_only_keys_are_open_to_their_owners() -> None:
    assert {route.path.split("/")[2] for route in FACES if route.operation.own} == {"auth"}
