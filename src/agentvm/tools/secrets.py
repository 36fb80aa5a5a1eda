"""Secrets of tools — passes a value to a call if its tenant has granted it to the tool, for this use and this host.

A tool has names of secrets only, and a stranger may have written it: without a grant by the tenant that calls it, it gets
none. A value in a header or a query goes to granted hosts; one in a variable goes to code that can reach granted hosts only.
The result of the tool is searched for the values that its call received.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.errors.tool import SecretNotGranted
from agentvm.log import mask_in_logs
from agentvm.model.allowed_host import is_allowed
from agentvm.model.ids import TenantId
from agentvm.model.secret import Secret
from agentvm.model.secret_grant import SecretGrant, SecretUse
from agentvm.model.tool import Effect, Repeat, World
from agentvm.sharing.large_work import go_through
from agentvm.storage.sql.store import Store
from agentvm.tenants.vault import Vault
from agentvm.tools.base import (
    CallableTool,
    CallContext,
    CallProgress,
    CallResult,
    Outcome,
    ResultFile,
    ResultImage,
    ResultLink,
    ResultPart,
    ResultText,
)
from agentvm.tools.redaction import SECRET_CHARACTERS_MIN, Redaction

TLS_PORT = 443


@dataclass(frozen=True, slots=True)
class Grantee:
    """A tool as grants know it."""

    id: str
    """The id of its resource, or `stdio:<id>`; empty for an image of a release that kept none."""
    name: str
    """For people: `owner/name`, or the name alone for a tool of the tenant itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretGrants:
    """The secrets of all tenants, for tools."""

    store: Store
    vault: Vault

    async def reveal(
        self, tenant_id: TenantId, grantee: Grantee, name: str, use: SecretUse, hosts: Iterable[tuple[str, int]] = ()
    ) -> Secret:
        """Returns a value that goes to all of these hosts; `SecretNotGranted` names the first that it may not go to."""
        grant = await self._grant(tenant_id, grantee, name, use)
        for host, port in hosts:
            shown = host if port == TLS_PORT else f"{host}:{port}"
            if grant is None or not is_allowed(host, port, grant.hosts):
                raise SecretNotGranted(name, grantee.name, use, shown)
        return await self._value(tenant_id, grantee, name, use, grant)

    async def reveal_to_code(self, tenant_id: TenantId, grantee: Grantee, name: str, network: Iterable[str] = ()) -> Secret:
        """Returns a value for code that can reach the hosts of `network`, each an entry such as `*.example.org:443`."""
        grant = await self._grant(tenant_id, grantee, name, "env")
        granted = frozenset() if grant is None else {host.lower() for host in grant.hosts}
        for host in network:
            if host.lower() not in granted:
                raise SecretNotGranted(name, grantee.name, "env", host)
        return await self._value(tenant_id, grantee, name, "env", grant)

    async def _grant(self, tenant_id: TenantId, grantee: Grantee, name: str, use: SecretUse) -> SecretGrant | None:
        if not grantee.id:
            raise ToolFailed(f"This image was built before tools could use secrets; update it to use {name}")
        return await self.store.accounts(tenant_id).grants.get(name, grantee.id, use)

    async def _value(
        self, tenant_id: TenantId, grantee: Grantee, name: str, use: SecretUse, grant: SecretGrant | None
    ) -> Secret:
        value = None if grant is None else await self.vault.get(tenant_id, name)
        if value is None:
            raise SecretNotGranted(name, grantee.name, use, None)
        if len(value.reveal()) < SECRET_CHARACTERS_MIN:
            raise ToolFailed(
                f"The secret {name} has fewer than {SECRET_CHARACTERS_MIN} characters; in results it could not be "
                "distinguished from ordinary text, so tools do not get it"
            )
        return value


@dataclass(frozen=True, slots=True)
class CallSecrets:
    """The secrets of one call, and those that were used."""

    grants: SecretGrants
    grantee: Grantee
    tenant_id: TenantId
    names: tuple[str, ...]
    """The secrets that the tool names."""
    given: dict[str, Secret] = field(default_factory=dict, repr=False)

    async def for_host(self, name: str, use: SecretUse, host: str, port: int) -> Secret:
        """Returns a value that is sent to a host."""
        return self._keep(name, await self.grants.reveal(self.tenant_id, self.grantee, name, use, ((host, port),)))

    async def for_code(self, network: Iterable[str]) -> dict[str, str]:
        """Returns all secrets of the tool as variables of code that can reach the hosts of `network`."""
        hosts = tuple(network)
        for name in self.names:
            self._keep(name, await self.grants.reveal_to_code(self.tenant_id, self.grantee, name, hosts))
        return {name: self.given[name].reveal() for name in self.names}

    def _keep(self, name: str, value: Secret) -> Secret:
        mask_in_logs(value.reveal())
        self.given[name] = value
        return value

    @property
    def redaction(self) -> Redaction:
        return Redaction(self.given)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretTool:
    """A tool that names secrets. Its results, errors, progress and questions do not have the values that it was given."""

    inner: CallableTool
    grants: SecretGrants
    grantee: Grantee
    names: tuple[str, ...]

    @property
    def spec(self) -> ToolSpec:
        return self.inner.spec

    @property
    def effect(self) -> Effect:
        return self.inner.effect

    @property
    def world(self) -> World:
        return self.inner.world

    @property
    def repeat(self) -> Repeat:
        return self.inner.repeat

    @property
    def timeout_seconds(self) -> float:
        return self.inner.timeout_seconds

    @property
    def writes_files(self) -> bool:
        return bool(getattr(self.inner, "writes_files", False))

    @property
    def has_network(self) -> bool:
        return bool(getattr(self.inner, "has_network", False))

    async def why_missing(self) -> str | None:
        why_missing = getattr(self.inner, "why_missing", None)
        return None if why_missing is None else cast(str | None, await why_missing())

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        secrets = CallSecrets(self.grants, self.grantee, TenantId(context.caller.tenant_id), self.names)

        def report(progress: CallProgress) -> None:
            message = None if progress.message is None else secrets.redaction.clean_text(progress.message)
            context.progress(replace(progress, message=message))

        try:
            outcome = await self.inner.run(input, replace(context, secrets=secrets, progress=report))
        except ToolFailed as error:
            redaction = secrets.redaction
            error.args = tuple(map(redaction.clean_value, error.args))
            error.details = {name: redaction.clean_value(value) for name, value in error.details.items()}
            raise
        return await go_through(secrets.tenant_id, size_of(outcome), partial(clean_outcome, outcome, secrets.redaction))


def size_of(outcome: Outcome) -> int:
    """Returns the bytes of an outcome that are searched for secrets; of one that is no JSON, those of its parts."""
    if not isinstance(outcome, CallResult):
        return 0
    size = sum(len(part.data) for part in outcome.parts if isinstance(part, ResultImage | ResultFile))
    try:
        return size + len(msgspec.json.encode(outcome.value))
    except (TypeError, ValueError, RecursionError):
        return size


def clean_outcome(outcome: Outcome, redaction: Redaction) -> Outcome:
    """Returns an outcome without secrets."""
    if isinstance(outcome, CallResult):
        parts = tuple(_clean_part(part, redaction) for part in outcome.parts)
        return msgspec.structs.replace(outcome, value=redaction.clean_value(outcome.value), parts=parts)
    # `state` belongs to the tool's server, which gets it back as it is; people are shown the rest.
    clean = msgspec.convert(redaction.clean_value(msgspec.to_builtins(outcome)), type(outcome))
    return msgspec.structs.replace(clean, state=outcome.state)


def _clean_part(part: ResultPart, redaction: Redaction) -> ResultPart:
    match part:
        case ResultText(text=text):
            return ResultText(text=redaction.clean_text(text))
        case ResultLink(uri=uri, name=name):
            return ResultLink(uri=redaction.clean_text(uri), name=None if name is None else redaction.clean_text(name))
        case ResultImage(data=data) | ResultFile(data=data):
            return msgspec.structs.replace(part, data=redaction.clean(data))
