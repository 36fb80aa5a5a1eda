from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.conformance.store import ACME, RIVAL

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.errors.tool import SecretNotGranted
from agentvm.log import masked_secrets
from agentvm.model.account import Tenant
from agentvm.model.ids import TenantId
from agentvm.model.secret import Secret
from agentvm.model.secret_grant import SecretGrant, SecretUse
from agentvm.storage.engine import open_store
from agentvm.tenants.vault import Vault
from agentvm.tools.base import (
    CallContext,
    Caller,
    CallProgress,
    CallResult,
    CallTraits,
    InputRequired,
    Outcome,
    Question,
    ResultFile,
    ResultLink,
    ResultText,
    TraitsOfTool,
)
from agentvm.tools.redaction import Redaction
from agentvm.tools.secrets import Grantee, SecretGrants, SecretTool, clean_outcome

VALUE = "s3cr3t/of acme+ü"
TOOL = Grantee("res_1", "zoo/orders")
SPEC = ToolSpec(name="leaky", description="d", input_schema={})
TRAITS = CallTraits()


@asynccontextmanager
async def open_grants(*rows: SecretGrant, value: str = VALUE) -> AsyncIterator[SecretGrants]:
    async with open_store(None) as store:
        vault = Vault(store, key=b"k" * 32, clock=lambda: 1)
        for tenant_id in (ACME, RIVAL):
            await store.directory.add_tenant(Tenant(tenant_id=tenant_id, slug=tenant_id, name="n", created_at=1, updated_at=1))
        await vault.put(ACME, "KEY", Secret(value))
        await vault.put(RIVAL, "KEY", Secret("the rival's"))
        for row in rows:
            await store.accounts(ACME).grants.put(row)
        yield SecretGrants(store=store, vault=vault)


def granted(use: SecretUse = "header", *hosts: str, grantee: str = "res_1") -> SecretGrant:
    return SecretGrant(
        secret="KEY", tool="resource://tools/zoo/orders", grantee=grantee, use=use, hosts=hosts, granted_by="a", granted_at=1
    )


async def test_a_secret_goes_to_the_hosts_that_it_was_granted_for() -> None:
    async with open_grants(granted("header", "api.acme.org", "*.acme.net:8443")) as grants:
        for host, port in (("api.acme.org", 443), ("API.acme.org", 443), ("x.acme.net", 8443)):
            assert (await grants.reveal(ACME, TOOL, "KEY", "header", [(host, port)])).reveal() == VALUE


@pytest.mark.parametrize(
    ("tenant_id", "grantee", "name", "use", "host", "port"),
    [
        (ACME, TOOL, "KEY", "header", "api.acme.org", 8443),
        (ACME, TOOL, "KEY", "header", "evil.org", 443),
        (ACME, TOOL, "KEY", "header", "api.acme.org.evil.org", 443),
        (ACME, TOOL, "KEY", "query", "api.acme.org", 443),
        (ACME, TOOL, "KEY", "env", "api.acme.org", 443),
        (ACME, TOOL, "OTHER", "header", "api.acme.org", 443),
        (ACME, Grantee("res_2", "evil/orders"), "KEY", "header", "api.acme.org", 443),
        (RIVAL, TOOL, "KEY", "header", "api.acme.org", 443),
    ],
)
async def test_anything_else_is_refused_with_the_command_that_grants_it(
    tenant_id: TenantId, grantee: Grantee, name: str, use: SecretUse, host: str, port: int
) -> None:
    async with open_grants(granted("header", "api.acme.org")) as grants:
        with pytest.raises(SecretNotGranted) as refused:
            await grants.reveal(tenant_id, grantee, name, use, [(host, port)])
        shown = host if port == 443 else f"{host}:{port}"
        command = f"avm secret grant {name} {grantee.name} --as {use} --host {shown}"
        assert command in str(refused.value)
        assert refused.value.details == {"secret": name, "tool": grantee.name, "as": use, "host": shown}


async def test_a_variable_is_for_code_that_reaches_granted_hosts_only() -> None:
    async with open_grants(granted("env", "api.acme.org", "*.acme.net")) as grants:
        for network in ([], ["API.acme.org"], ["*.acme.net", "api.acme.org"]):
            assert (await grants.reveal_to_code(ACME, TOOL, "KEY", network)).reveal() == VALUE
        for network in (["evil.org"], ["api.acme.org", "evil.org"], ["api.acme.org:22"], ["*.org"]):
            with pytest.raises(SecretNotGranted, match=r"--as env --host"):
                await grants.reveal_to_code(ACME, TOOL, "KEY", network)
    async with open_grants(granted("header", "api.acme.org")) as grants:
        with pytest.raises(SecretNotGranted, match=r"--as env$"):
            await grants.reveal_to_code(ACME, TOOL, "KEY")


async def test_a_secret_that_is_gone_takes_its_grants_along() -> None:
    async with open_grants(granted("env")) as grants:
        await grants.vault.remove(ACME, "KEY")
        await grants.vault.put(ACME, "KEY", Secret("another value"))
        with pytest.raises(SecretNotGranted):
            await grants.reveal_to_code(ACME, TOOL, "KEY")


async def test_a_secret_that_could_not_be_recognised_is_not_given() -> None:
    async with open_grants(granted("env"), value="1234") as grants:
        with pytest.raises(ToolFailed, match="fewer than 5"):
            await grants.reveal_to_code(ACME, TOOL, "KEY")


async def test_an_image_without_the_id_of_its_tool_is_told_apart() -> None:
    async with open_grants(granted("env", grantee="")) as grants:
        with pytest.raises(ToolFailed, match="update it"):
            await grants.reveal_to_code(ACME, Grantee("", "orders"), "KEY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaky(TraitsOfTool):
    """Tells its secret in the way that a test wants."""

    outcome: Outcome | Exception
    spec: ToolSpec = SPEC
    traits: CallTraits = TRAITS
    seen: list[object] = field(default_factory=list)

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        assert context.secrets is not None
        self.seen.append(await context.secrets.for_code(()))
        context.progress(CallProgress(progress=1, message=f"sent {VALUE}"))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


async def leak(outcome: Outcome | Exception) -> tuple[Outcome, list[CallProgress]]:
    heard: list[CallProgress] = []
    inner = Leaky(outcome=outcome)
    async with open_grants(granted("env")) as grants:
        tool = SecretTool(inner=inner, grants=grants, grantee=TOOL, names=("KEY",))
        context = CallContext(key="k", caller=Caller(ACME, "alice"), deadline=0, progress=heard.append)
        try:
            return await tool.run({}, context), heard
        finally:
            assert inner.seen == [{"KEY": VALUE}]
            assert VALUE in masked_secrets()


async def test_a_result_of_any_kind_has_no_secret() -> None:
    nested: Any = {"a": [VALUE, {VALUE: f"x{VALUE}y"}], "n": 7, "t": True, "none": None}
    result, heard = await leak(CallResult(type="json", value=nested))
    assert result == CallResult(
        type="json", value={"a": ["[secret KEY]", {"[secret KEY]": "x[secret KEY]y"}], "n": 7, "t": True, "none": None}
    )
    assert [progress.message for progress in heard] == ["sent [secret KEY]"]
    parts = (ResultText(text=VALUE), ResultLink(uri=f"u{VALUE}", name=VALUE), ResultFile(data=VALUE.encode(), media_type="a/b"))
    result, _ = await leak(CallResult(type="content", parts=parts))
    assert isinstance(result, CallResult)
    assert result.parts == (
        ResultText(text="[secret KEY]"),
        ResultLink(uri="u[secret KEY]", name="[secret KEY]"),
        ResultFile(data=b"[secret KEY]", media_type="a/b"),
    )


async def test_an_error_and_its_details_have_no_secret() -> None:
    with pytest.raises(ToolFailed) as failed:
        await leak(ToolFailed(f"no {VALUE}", details={"why": [VALUE]}))
    assert (str(failed.value), failed.value.details) == ("no [secret KEY]", {"why": ["[secret KEY]"]})


async def test_a_question_has_no_secret_and_the_server_gets_its_state_back() -> None:
    asked = InputRequired(questions={"q": Question(mode="form", message=f"Is {VALUE} yours?")}, state=VALUE)
    result, _ = await leak(asked)
    assert result == InputRequired(questions={"q": Question(mode="form", message="Is [secret KEY] yours?")}, state=VALUE)


def test_a_number_that_is_a_secret_becomes_its_name() -> None:
    cleaned = clean_outcome(CallResult(type="json", value=[1234567, 12]), Redaction({"PIN": Secret("1234567")}))
    assert cleaned == CallResult(type="json", value=["[secret PIN]", 12])
