"""Roles and keys (F30): nobody comes to act as somebody with more rights, whatever they make, rotate, change or keep.

The table tries every action of every kind of asker on every role. The search lets an administrator who will not give up try
everything with everything they were given on the way.
"""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.operations.fixtures import Desk
from tests.operations.fixtures import open_desk as open_commands
from tests.protocol.fixtures import REQUESTS
from tests.server.http.fixtures import World, open_world

from agentvm import ScriptedDriver, ServerConfig
from agentvm.app import open_agentvm
from agentvm.config import SessionSettings, SystemSettings, history
from agentvm.errors import AccessDenied, Unauthenticated
from agentvm.model.account import UserRole
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.operations.table import COMMANDS
from agentvm.storage.settings import Change
from agentvm.tenants.keys import make_key
from agentvm.tenants.rights import DEFAULT_PERMISSIONS, TENANT_WIDE, check_may_assign
from agentvm.vm import system_clock

ROLES: tuple[UserRole, ...] = ("owner", "admin", "member", "viewer")
ASKERS = ("operator", "tenant key", *ROLES)
"""A tenant's key is nobody's, reaches all of its tenant and may do everything in it."""

SHARED = ContainerId("shared")


@dataclass(slots=True)
class Staff:
    """A tenant with a user of each role, each with a key of theirs, and another user of each to whom things are done."""

    world: World
    tenant_id: TenantId
    keys: dict[str, str]
    targets: dict[UserRole, UserId]
    key_ids: dict[UserRole, str]

    async def ask(self, asker: str, method: str, path: str, body: object = None) -> int:
        named = f"{path}{'&' if '?' in path else '?'}tenant=acme"
        return (await self.world.ask(method, named, body, key=self.keys[asker])).status


@asynccontextmanager
async def open_staff() -> AsyncIterator[Staff]:
    async with open_world() as world:
        tenant_id = world.acme.tenant_id
        staff = Staff(world, tenant_id, {"operator": world.operator, "tenant key": world.acme.admin}, {}, {})
        for role in ROLES:
            asker = await world.user(tenant_id, f"asking-{role}", role)
            target = await world.user(tenant_id, f"target-{role}", role)
            for user_id in (asker, target):
                await world.vm.tenancy.people.bind(tenant_id, user_id, SHARED)
            staff.keys[role] = await world.key(tenant_id, DEFAULT_PERMISSIONS[role], user_id=asker)
            made = await world.ask("POST", "/v1/auth/keys?tenant=acme", {"name": "t", "userId": target, "containers": [SHARED]})
            staff.targets[role], staff.key_ids[role] = target, made.body["keyId"]
        yield staff


def covers(asker: str, role: UserRole) -> bool:
    """Whether the asker manages users of the role, and their keys."""
    if asker in ("operator", "owner"):
        return True
    return asker in ("tenant key", "admin") and role != "owner"


def actions(staff: Staff, role: UserRole) -> dict[str, tuple[str, str, Any]]:
    """Everything that can be done to a user of the role, by name. The last ones end what the others need."""
    user_id, key_id = staff.targets[role], staff.key_ids[role]
    return {
        "issue a key": ("POST", "/v1/auth/keys", {"name": "k", "userId": user_id, "containers": [SHARED]}),
        "limit": ("PUT", "/v1/quotas", {"metric": "requests_per_minute", "hard": 100_000, "userId": user_id}),
        "make another": ("POST", "/v1/users", {"externalId": f"new-{role}", "role": role}),
        "promote to it": ("PUT", f"/v1/users/{staff.targets['viewer']}", {"role": role}),
        "bind": ("PUT", f"/v1/users/{user_id}/containers/{SHARED}", None),
        "rotate": ("POST", f"/v1/auth/keys/{key_id}/rotate", {"graceSeconds": 60}),
        "revoke": ("DELETE", f"/v1/auth/keys/{key_id}", None),
        "unbind": ("DELETE", f"/v1/users/{user_id}/containers/{SHARED}", None),
        "suspend": ("PUT", f"/v1/users/{user_id}", {"status": "suspended"}),
        "demote": ("PUT", f"/v1/users/{user_id}", {"role": "viewer", "status": "active"}),
    }


@pytest.mark.parametrize("asker", ASKERS)
@pytest.mark.parametrize("role", ROLES)
async def test_f30_a_user_is_managed_only_by_those_whose_rights_cover_their_role(asker: str, role: UserRole) -> None:
    async with open_staff() as staff:
        for name, (method, path, body) in actions(staff, role).items():
            status = await staff.ask(asker, method, path, body)
            if role == "viewer" and name in ("promote to it", "demote"):
                continue  # Changes nothing.
            allowed = covers(asker, role) and asker not in ("member", "viewer")
            assert (status in (200, 201, 204)) == allowed, f"{asker} does {name} to {role}: {status}"
            assert allowed or status in (403, 404)


async def test_f30_keys_of_oneself_stay_ones_own() -> None:
    async with open_staff() as staff:
        for role in ROLES:
            world, key = staff.world, staff.keys[role]
            mine = (await world.ask("GET", f"/v1/auth/keys?userId=usr_asking-{role}_{staff.tenant_id}", key=key)).items[0]
            renewed = await world.ask("POST", f"/v1/auth/keys/{mine['keyId']}/rotate", key=key)
            assert renewed.status == 201
            assert (await world.ask("GET", "/v1/auth/whoami", key=renewed.body["key"])).body["role"] == role


@pytest.mark.parametrize("asker", ["admin", "tenant key"])
async def test_f30_an_administrator_who_tries_everything_never_acts_as_an_owner(asker: str) -> None:
    async with open_staff() as staff:
        world, held, known = staff.world, [staff.keys[asker]], set[object]()
        while held:
            key = held.pop()
            who = await world.vm.authenticate(key)
            assert who is not None
            assert who.role != "owner"
            assert not who.may("system:admin")
            if (able := (who.user_id, who.role, who.permissions, who.containers)) in known:
                continue  # Another key of the same rights opens no other way.
            known.add(able)
            for role in ROLES:
                for target in (staff.targets[role], f"usr_asking-{role}_{staff.tenant_id}"):
                    held += await attempts(world, key, UserId(target))
        assert len(known) > 1
        owner = (await world.ask("GET", "/v1/auth/whoami", key=staff.keys["owner"])).body
        assert owner["role"] == "owner"


async def attempts(world: World, key: str, target: UserId) -> list[str]:
    """Everything that one could do about a user to become them; the keys that came of it."""
    got = []
    for permissions in (None, ["tenants:admin", "keys:admin"]):
        for containers in (None, [SHARED]):
            body = {"name": "k", "userId": target, "permissions": permissions, "containers": containers}
            said = await world.ask("POST", "/v1/auth/keys", {n: v for n, v in body.items() if v is not None}, key=key)
            if said.status == 201:
                got.append(said.body["key"])
    for found in (await world.ask("GET", f"/v1/auth/keys?userId={target}&limit=2", key=key)).body.get("items", ()):
        said = await world.ask("POST", f"/v1/auth/keys/{found['keyId']}/rotate", {"graceSeconds": 3600}, key=key)
        if said.status == 201:
            got.append(said.body["key"])
    await world.ask("PUT", f"/v1/users/{target}", {"role": "owner"}, key=key)
    return got


async def test_f30_whoever_holds_the_key_of_another_is_not_promoted_with_them() -> None:
    async with open_staff() as staff:
        world, target = staff.world, staff.targets["admin"]
        body = {"name": "k", "userId": target, "containers": [SHARED]}
        held = (await world.ask("POST", "/v1/auth/keys", body, key=staff.keys["admin"])).body["key"]
        assert (await world.ask("PUT", f"/v1/users/{target}?tenant=acme", {"role": "owner"})).status == 200
        who = await world.vm.authenticate(held)
        assert who is not None
        assert (who.user_id, who.role) == (target, "admin")
        # Nor does a key that is made with it, though it is for the same user.
        again = (await world.ask("POST", "/v1/auth/keys", body, key=held)).body["key"]
        second = await world.vm.authenticate(again)
        assert second is not None
        assert second.role == "admin"
        me = f"/v1/users/usr_asking-admin_{staff.tenant_id}"
        assert (await world.ask("PUT", me, {"role": "owner"}, key=again)).status == 403
        fresh = await world.ask("POST", "/v1/auth/keys?tenant=acme", body)
        owner = await world.vm.authenticate(fresh.body["key"])
        assert owner is not None
        assert owner.role == "owner"


async def test_f30_nobody_gives_a_role_that_may_more_than_they_may() -> None:
    async with open_staff() as staff:
        world = staff.world
        narrow = await world.key(staff.tenant_id, ["tenants:admin"])
        for role in ("admin", "owner"):
            assert (await world.ask("POST", "/v1/users", {"externalId": f"n-{role}", "role": role}, key=narrow)).status == 403
            path = f"/v1/users/{staff.targets['member']}"
            assert (await world.ask("PUT", path, {"role": role}, key=narrow)).status == 403
        assert (await world.ask("POST", "/v1/users", {"externalId": "plain"}, key=narrow)).status == 201


async def test_f30_a_token_acts_with_the_role_that_the_provider_says_now() -> None:
    async with open_staff() as staff:
        demoted = Principal(
            tenant_id=staff.tenant_id,
            user_id=staff.targets["owner"],
            role="admin",
            permissions=TENANT_WIDE,
            containers=(SHARED,),
        )
        ticket = await staff.world.vm.tenancy.access.ws_token(demoted)
        assert await staff.world.vm.authenticate(ticket) == demoted
        # Though the user is stored as an owner.
        with pytest.raises(AccessDenied):
            check_may_assign(demoted, "owner")


HIDDEN = ("a-secret-title", "a-secret-word")


async def test_f30_a_key_that_may_only_send_reads_nothing_by_any_command_or_event() -> None:
    async with open_commands(titles="first-words") as desk:
        image = await desk.create_image()
        ids = {"containerId": image["containerId"], "imageId": image["imageId"], "sessionId": image["sessionId"]}
        who = Principal(tenant_id=desk.peer.tenant_id, permissions=frozenset({"agent:use"}))
        sender = Desk(desk.vm, desk.vm.attach(who))
        await sender.ask("container_get", containerId=ids["containerId"])
        await sender.ask("agent_list", containerId=ids["containerId"])
        await desk.ask("message_send", imageId=ids["imageId"], content=HIDDEN[1])
        await desk.hear("turn_response")
        await desk.ask("session_set_title", sessionId=ids["sessionId"], title=HIDDEN[0])
        deleting = ("container_delete", "session_delete", "image_delete", "agent_destroy", "agent_destroy_all")
        for name in [name for name in COMMANDS if name not in deleting]:
            await sender.ask(name, **{**REQUESTS[name], **{key: ids[key] for key in REQUESTS[name] if key in ids}})
        other = (await desk.ask("session_create", imageId=ids["imageId"], title=HIDDEN[0]))["session"]
        await desk.ask("session_fork", sessionId=ids["sessionId"])
        await sender.ask("session_delete", sessionId=other["sessionId"])
        restored = await sender.ask("session_restore", sessionId=other["sessionId"])
        assert restored["session"]["sessionId"] == other["sessionId"]
        pinned = await sender.ask("session_pin", sessionId=other["sessionId"], pinned=True)
        assert pinned["session"]["pinnedAt"]
        listed = await sender.ask("agent_list", containerId=ids["containerId"])
        assert "sessionId" not in str(listed)
        heard = json.dumps(sender.hear_nowait())
        assert not [secret for secret in HIDDEN if secret in heard]
        everybody = json.dumps(desk.hear_nowait())
        assert not [secret for secret in HIDDEN if secret not in everybody], "there was something to hide"


async def test_f30_a_key_that_may_only_send_reads_nothing_over_http() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, HIDDEN[1])
        path = f"/v1/sessions/{session_id}"
        key = await world.key(world.acme.tenant_id, ["agent:use"])
        assert (await world.ask("PUT", f"{path}?tenant=acme", {"title": HIDDEN[0]})).status == 200
        shown = await world.ask("GET", f"{path}?tenant=acme")
        assert (shown.body["title"], shown.body["preview"]) == HIDDEN
        for method, end, body in (
            ("PUT", "", {"pinned": True}),
            ("PUT", "", {"archived": True}),
            ("POST", "/fork", {}),
            ("DELETE", "", None),
            ("POST", "/restore", {}),
            ("POST", "/compact", {}),
            ("GET", "", None),
            ("GET", "/messages", None),
            ("GET", "/rewinds", None),
            ("GET", "/summaries", None),
        ):
            said = await world.ask(method, f"{path}{end}", body, key=key)
            assert not [secret for secret in HIDDEN if secret.encode() in said.raw], (method, end)


GRANTING: tuple[tuple[str, str, object], ...] = (
    ("POST", "/v1/auth/keys", {"name": "k", "permissions": ["system:admin", "keys:admin"]}),
    ("POST", "/v1/auth/keys/nobody/rotate", {}),
    ("POST", "/v1/users", {"externalId": "mallory", "role": "owner"}),
    ("PUT", "/v1/users/usr_1", {"role": "owner"}),
    ("PUT", "/v1/users/usr_1/containers/c1", None),
    ("PUT", "/v1/config", {"changes": {"system.adminKey": "avm_x"}}),
    ("PUT", "/v1/config", {"changes": {"system.oidc": {"issuer": "https://evil.example", "audience": "x"}}}),
    ("PUT", "/v1/config", {"changes": {"system.auth": "off"}}),
    ("PUT", "/v1/config", {"changes": {"system.trustedProxies": ["0.0.0.0/0"]}}),
)


@pytest.mark.parametrize(("method", "path", "body"), GRANTING)
async def test_f30_nothing_that_gives_rights_is_made_while_authentication_is_off(method: str, path: str, body: object) -> None:
    async with open_world(auth=False) as world:
        refused = await world.ask(method, path, body)
        assert (refused.status, refused.code) == (403, "authentication_off")
        assert "--auth on" in refused.body["error"]["message"]
        assert await world.vm.tenancy.store.accounts(DEFAULT_TENANT).keys.list() == ()


async def test_f30_the_operator_gets_a_key_whatever_keys_others_have(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(data_dir=str(tmp_path), auth="on"), sessions=SessionSettings(titles="off"))
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        first = vm.first_key
        assert first is not None
        access, operator = vm.tenancy.access, await vm.authenticate(first.reveal())
        assert operator is not None
        assert operator.key_id is not None
        # Neither of them lets the operator in.
        await access.issue(DEFAULT_TENANT, name="member", granter=operator)
        await access.issue(
            DEFAULT_TENANT, name="soon", granter=operator, permissions=EVERYTHING, expires_at=vm.clock() + 60_000
        )
        await vm.tenancy.store.accounts(DEFAULT_TENANT).keys.revoke(operator.key_id, 1)
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}, clock=lambda: system_clock() + 120_000) as vm:
        assert vm.first_key is not None
        assert (await vm.authenticate(vm.first_key.reveal())) is not None
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        assert vm.first_key is None


async def test_f30_settings_that_were_made_while_authentication_was_off_let_nobody_in(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(data_dir=str(tmp_path), auth="on"), sessions=SessionSettings(titles="off"))
    planted = make_key(secrets.randbits)[1].reveal()
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        # As an earlier release would have stored it.
        raw = history.encode(None, "system.adminKey", Secret(planted), vm.tenancy.vault)
        change = Change(revision=1, at=1, actor="anonymous", changes={"system.adminKey": raw, "limits.steps": 7})
        await vm.tenancy.store.settings(None).append(change)
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        assert vm.config.limits.steps == 7
        with pytest.raises(Unauthenticated):
            await vm.authenticate(planted)
