from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors import ContainerForbidden, InvalidInput, PermissionDenied
from agentvm.model.account import User
from agentvm.model.ids import ContainerId, TenantId, UserId, check_container_id
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.tenants import rights
from agentvm.tenants.rights import (
    CAPS,
    DEFAULT_PERMISSIONS,
    check_name,
    check_patterns,
    check_permissions,
    check_reach,
    check_role_cap,
    default_permissions,
    first_container,
    first_containers,
    literal_pattern,
)

T = TenantId("t")


def granter(*permissions: str, containers: tuple[str, ...] | None = None) -> Principal:
    return Principal(tenant_id=T, permissions=frozenset(permissions), containers=containers)


def user(external_id: str) -> User:
    return User(user_id=UserId("u"), tenant_id=T, external_id=external_id, created_at=0, updated_at=0)


def test_no_role_reaches_beyond_its_tenant() -> None:
    assert all("system:admin" not in cap for cap in (*CAPS.values(), *DEFAULT_PERMISSIONS.values()))
    assert CAPS["owner"] == CAPS["admin"] == EVERYTHING - {"system:admin"}
    assert CAPS["member"] == MEMBER


def test_a_viewer_only_reads_and_without_a_key_no_more_than_a_member() -> None:
    assert all(permission.endswith(":read") for permission in CAPS["viewer"])
    assert DEFAULT_PERMISSIONS["viewer"] < DEFAULT_PERMISSIONS["member"] < DEFAULT_PERMISSIONS["admin"]


def test_permissions_are_put_in_order_each_once() -> None:
    assert check_permissions(["usage:read", "agent:use", "usage:read"], granter(*EVERYTHING)) == ("agent:use", "usage:read")


def test_an_unknown_permission_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="no permission images:wirte; did you mean images:write"):
        check_permissions(["images:wirte"], granter(*EVERYTHING))


def test_a_long_permission_is_compared_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = list[int]()

    def compare(word: str, known: Sequence[str], **_: object) -> list[str]:
        lengths.append(len(word))
        return list(known[:1])

    monkeypatch.setattr(rights, "get_close_matches", compare)
    with pytest.raises(InvalidInput, match="no permission"):
        check_permissions(["images:" * 10_000], granter(*EVERYTHING))
    assert lengths == [rights.COMPARED_NAME_MAX]


def test_nobody_grants_what_they_have_not() -> None:
    with pytest.raises(PermissionDenied, match="system:admin"):
        check_permissions(["agent:use", "system:admin"], granter("agent:use", "keys:admin"))


def test_patterns_are_checked_like_names() -> None:
    assert check_patterns(["user-*", "user-?", "user-*"]) == ("user-*", "user-?")
    assert check_patterns(None) is None
    for bad in (["../x"], [""], ["a" * 129], [f"c{n}" for n in range(101)]):
        with pytest.raises(InvalidInput):
            check_patterns(bad)


def test_nobody_lets_others_reach_further_than_themselves() -> None:
    check_reach(None, granter())
    check_reach(("anything",), granter())
    narrow = granter(containers=("user-a", "team-*"))
    check_reach(("user-a", "team-1", "team-*"), narrow)
    for wanted in (None, ("user-b",), ("*",), ("team-?",), ("user-[a]",)):
        with pytest.raises(ContainerForbidden):
            check_reach(wanted, narrow)


@pytest.mark.parametrize("name", ["", "  ", "a" * 201, "bell\a", "line\nbreak"])
def test_a_keys_name_can_be_printed(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_name(name)


@pytest.mark.parametrize("external_id", ["alice", "alice@example.org", "张伟", "auth0:1234-5"])
def test_a_users_container_is_named_after_them(external_id: str) -> None:
    assert first_container(user(external_id)) == f"user-{external_id}"


@given(st.text(max_size=300))
def test_any_user_has_a_container_whose_name_is_allowed_and_means_only_itself(external_id: str) -> None:
    home = first_container(user(external_id))
    assert check_container_id(home) == home
    assert not set(home) & set("*?[")


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_two_users_share_a_container(one: str, other: str) -> None:
    assert (first_container(user(one)) == first_container(user(other))) == (one == other)


@pytest.mark.parametrize(("one", "other"), [("a/b", "a?b"), ("*", "["), ("x" * 200, "x" * 201), ("a/b", "a_b"), ("", "_")])
def test_users_whose_ids_differ_only_in_what_is_replaced_do_not_share(one: str, other: str) -> None:
    assert first_container(user(one)) != first_container(user(other))


def test_a_user_cannot_choose_the_container_that_another_is_given() -> None:
    victim = first_container(user("a/b"))
    assert first_container(user(victim.removeprefix("user-"))) != victim


@given(st.text(alphabet="ab*?[]!-", min_size=1, max_size=8), st.text(alphabet="ab*?[]!-", min_size=1, max_size=8))
def test_a_name_that_looks_like_a_pattern_means_only_itself(name: str, other: str) -> None:
    owner = Principal(tenant_id=T, containers=(literal_pattern(ContainerId(name)),))
    assert owner.reaches(name)
    assert owner.reaches(other) == (name == other)


def test_a_key_has_what_members_may_and_of_the_rest_what_its_maker_has() -> None:
    assert default_permissions("admin", granter("config:read")) == MEMBER | {"config:read"}
    assert default_permissions("member", granter("config:read")) == MEMBER
    assert "system:admin" not in default_permissions("owner", granter(*EVERYTHING))


def test_more_than_the_role_may_is_named() -> None:
    check_role_cap(["agent:use", "nonsense"], user("al"))
    with pytest.raises(InvalidInput, match="role member, which caps their keys: it may not config:read, keys:admin;"):
        check_role_cap(["keys:admin", "config:read", "agent:use"], user("al"))


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_the_second_home_is_nobodys_first_and_another_users_never(one: str, other: str) -> None:
    first, second = first_containers(user(one))
    assert first == first_container(user(one))
    assert second not in (first, first_container(user(other)), first_container(user(second.removeprefix("user-"))))
    namesake = User(user_id=UserId("another"), tenant_id=T, external_id=one, created_at=0, updated_at=0)
    assert first_containers(namesake) == (first, first_containers(namesake)[1])
    assert first_containers(namesake)[1] != second
