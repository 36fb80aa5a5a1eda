"""A token for a WebSocket opens one connection to any node, unless its rights have ended meanwhile."""

from functools import partial

import anyio
import pytest
from msgspec.structs import replace

from agentvm.errors import Unauthenticated
from agentvm.model.account import User
from agentvm.model.ids import ContainerId, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.vm import OPEN_ACCESS, AgentVM

OPERATOR = Principal(tenant_id=OPEN_ACCESS.tenant_id, permissions=EVERYTHING)


async def holder(vm: AgentVM) -> Principal:
    _, text = await vm.tenancy.access.issue(OPERATOR.tenant_id, name="k", granter=OPERATOR)
    return await vm.tenancy.access.authenticate(text.reveal())


async def test_a_token_of_one_node_opens_one_connection_to_another(nodes: tuple[AgentVM, AgentVM]) -> None:
    a, b = nodes
    owner = await holder(a)
    token = await a.tenancy.access.ws_token(owner)
    outcome: list[Principal] = []

    async def use(vm: AgentVM) -> None:
        try:
            outcome.append(await vm.tenancy.access.authenticate(token))
        except Unauthenticated:
            return

    async with anyio.create_task_group() as tasks:
        for vm in (b, a, b, a):
            tasks.start_soon(use, vm)
    assert outcome == [owner]


async def test_a_token_ends_with_the_key_that_another_node_has_revoked(nodes: tuple[AgentVM, AgentVM]) -> None:
    a, b = nodes
    owner = await holder(a)
    token = await a.tenancy.access.ws_token(owner)
    assert owner.key_id is not None
    assert await b.tenancy.access.revoke(owner.tenant_id, owner.key_id)
    with pytest.raises(Unauthenticated):
        await b.tenancy.access.authenticate(token)


async def test_a_token_has_no_more_rights_than_its_user_has_when_it_is_used(nodes: tuple[AgentVM, AgentVM]) -> None:
    a, b = nodes
    tenant_id, alice = OPERATOR.tenant_id, UserId("alice")
    user = User(user_id=alice, tenant_id=tenant_id, external_id="alice", role="admin", created_at=1, updated_at=1)
    users = a.store.accounts(tenant_id).users
    await users.add(user, (ContainerId("own"),))
    await users.bind(alice, ContainerId("team"))
    _, text = await a.tenancy.access.issue(tenant_id, name="k", granter=OPERATOR, user_id=alice)
    by_key = await a.tenancy.access.authenticate(text.reveal())
    by_provider = Principal(tenant_id=tenant_id, user_id=alice, role="admin", containers=by_key.containers)
    tokens = [await a.tenancy.access.ws_token(owner) for owner in (by_key, by_provider)]
    assert by_key.may("tenants:admin")
    assert by_key.reaches("team")
    assert await b.tenancy.people.unbind(tenant_id, alice, ContainerId("team"))
    assert await b.tenancy.people.change_user(user.tenant_id, user.user_id, partial(replace, role="viewer"))
    narrowed, still = [await a.tenancy.access.authenticate(token) for token in tokens]
    assert not narrowed.may("tenants:admin")
    assert [(one.reaches("own"), one.reaches("team")) for one in (narrowed, still)] == [(True, False), (True, False)]
