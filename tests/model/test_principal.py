import pytest

from agentvm.model.ids import DEFAULT_TENANT, KeyId, UserId
from agentvm.model.principal import EVERYTHING, MEMBER, PERMISSIONS, Principal


def bound(*containers: str) -> Principal:
    return Principal(tenant_id=DEFAULT_TENANT, containers=containers)


def test_a_member_may_less_than_everything_and_nothing_that_administers() -> None:
    assert MEMBER < EVERYTHING == set(PERMISSIONS)
    assert not [
        permission
        for permission in MEMBER
        if permission.endswith(":admin") or (permission.endswith(":write") and "images" not in permission)
    ]


@pytest.mark.parametrize(
    ("containers", "reached", "not_reached"),
    [
        (("user-alice",), ["user-alice"], ["user-bob", "user-alice2", "USER-ALICE", ""]),
        (("team-*",), ["team-a", "team-"], ["team", "a-team-b"]),
        (("a", "b?"), ["a", "b1"], ["b", "c"]),
        ((), [], ["a", ""]),
    ],
)
def test_containers_are_reached_by_name_or_pattern(
    containers: tuple[str, ...], reached: list[str], not_reached: list[str]
) -> None:
    principal = bound(*containers)
    assert [name for name in reached if not principal.reaches(name)] == []
    assert [name for name in not_reached if principal.reaches(name)] == []


def test_without_containers_all_of_the_tenant_are_meant() -> None:
    principal = Principal(tenant_id=DEFAULT_TENANT)
    assert principal.reaches("anything")
    assert principal.home is None


def test_home_is_the_first_container_that_is_named() -> None:
    assert bound("team-*", "user-alice", "user-bob").home == "user-alice"
    assert bound("team-*").home is None


def test_an_actor_is_the_user_or_else_the_key() -> None:
    assert Principal(tenant_id=DEFAULT_TENANT, user_id=UserId("u"), key_id=KeyId("k")).actor == "u/k"
    assert Principal(tenant_id=DEFAULT_TENANT, key_id=KeyId("k")).actor == "k"
    assert Principal(tenant_id=DEFAULT_TENANT).actor == "anonymous"
