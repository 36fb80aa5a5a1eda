"""Image builder — resolves the references of a definition and a config once, and freezes the result.

The result is kept with the image, together with the lock: the versions that it was built from. A resource that changes later
does not change an image until the image is upgraded.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from agentvm.blueprint.definition import agent_definition, check_size
from agentvm.blueprint.image import Frozen, Reference, apply_config, freeze_plain, references
from agentvm.blueprint.resolution import Names, Pins, Resolution, Specs, agents_of, distinct_name
from agentvm.blueprint.templates import READ_PERMISSION
from agentvm.drivers.models import Models
from agentvm.errors import DriverNotFound, InvalidInput, ToolNotFound
from agentvm.errors.resource import ResourceTooDeep
from agentvm.model.definition import DEFAULT_TOOLS, Definition, Rendered
from agentvm.model.ids import TenantId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.principal import Principal
from agentvm.model.resource import (
    NODES_MAX,
    Locked,
    is_reference,
)
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.resolver import VersionClosure
from agentvm.resources.schema import check_schema
from agentvm.tenants.own_keys import OwnKeys

ToolsOfServers = Callable[[Mapping[str, object]], Awaitable[tuple[Specs, Names]]]
"""Returns the tools of MCP servers, and sentences about those that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuilder:
    """Builds for one principal. `tools` are the names of the server's tools.

    `missing` tells which of some tools the machine cannot run, and why.
    """

    principal: Principal
    tenant_id: TenantId
    resources: ResourceCentre
    models: Models
    own_keys: OwnKeys
    tools: Names
    missing: Callable[[Collection[str], Rendered], Awaitable[Mapping[str, str]]]
    tools_of_servers: ToolsOfServers
    """Reads the tools of the MCP servers that a config of AgentX 1.x names."""

    async def build(self, source: Definition | None, config: ImageConfig, pins: Pins | None = None) -> Frozen:
        """Applies the config, resolves every reference, and checks that this server can run the result.

        `source` is not needed when `config.definition` is a URI.
        """
        frozen = await self.freeze(source, config, pins)
        if config.mcp_servers:
            specs, notes = await self.tools_of_servers(config.mcp_servers)
            extended = _with_tools(frozen.definition, specs, self.tools)
            frozen = replace(frozen, definition=extended, warnings=(*frozen.warnings, *notes))
        await self.check(frozen.definition, keyed=config.has_api_key)
        for uri, agent in agents_of(frozen.definition).items():
            try:
                await self.check(agent, keyed=config.has_api_key)
            except (DriverNotFound, ToolNotFound) as error:
                raise InvalidInput(f"{uri}: {error}") from None
        missing = dict[str, str]()
        for definition in (frozen.definition, *agents_of(frozen.definition).values()):
            missing |= await self.missing(definition.tools or (), definition.rendered or Rendered())
        warnings = tuple(f"{name} cannot run on this machine, and models do not see it: {why}" for name, why in missing.items())
        warnings += self._of_other_providers(frozen.definition)
        return replace(frozen, warnings=(*frozen.warnings, *warnings)) if warnings else frozen

    async def freeze(self, source: Definition | None, config: ImageConfig, pins: Pins | None = None) -> Frozen:
        """Applies the config and resolves every reference.

        `ResourceNotFound` for a missing or invisible resource, `PromptUnresolved` for a prompt that lacks a value.
        """
        resolution = Resolution(self, pins or {})
        agent: VersionClosure | None = None
        if config.definition is not None and is_reference(config.definition):
            agent = await resolution.find(Reference(place="definition", type="agents", uri=config.definition))
            source = agent_definition(agent.root.resource.name, agent.root.content)
        if source is None:
            raise InvalidInput("A definition is required")
        check_size(source, config)
        needed = list(references(source, config))
        if not needed:
            return freeze_plain(source, config)
        self.principal.require(READ_PERMISSION)
        if len(needed) > NODES_MAX:
            raise ResourceTooDeep(f"An image refers to at most {NODES_MAX} resources, not {len(needed)}")
        closures = {reference: await resolution.find(reference, agent) for reference in needed}
        definition = await resolution.render(apply_config(source, config), closures)
        check_size(definition, subject="The definition with its resolved references")
        return Frozen(
            definition=definition,
            source=source,
            refers=True,
            lock=resolution.lock(),
            roots=resolution.roots(),
            warnings=tuple(dict.fromkeys(resolution.warnings())),
        )

    def _of_other_providers(self, definition: Definition) -> Names:
        """Returns a sentence about each tool that the provider of the image's model does not run."""
        specs = () if definition.rendered is None else definition.rendered.tools
        drivers = [(spec["name"], str(spec["entry"]).partition("/")[0]) for spec in specs if spec.get("runtime") == "provider"]
        if not drivers:
            return ()
        try:
            own = self.models.choose(definition.model).driver.name
        except DriverNotFound:
            # The tenant's own key opens a driver by this name.
            own = str(definition.model).partition("/")[0]
        return tuple(
            f"{name} is run by {driver} for its own models; this one does not see it"
            for name, driver in drivers
            if driver != own
        )

    async def check(self, definition: Definition, *, keyed: bool = False) -> None:
        """Refuses a definition whose model or tools this server does not have; `keyed` if the image has a key of its own."""
        try:
            self.models.choose(definition.model)
        except DriverNotFound:
            # The server has no key for that provider, but the tenant or the image may.
            keyed = keyed and self.own_keys.takes_key(self.models.parse(definition.model)[0])
            if not keyed and not await self.own_keys.has(self.tenant_id, definition.model):
                raise
        check_tools(definition, self.tools)
        if definition.output is not None:
            check_schema("output.schema", definition.output.schema)


def check_tools(definition: Definition, tools: Sequence[str]) -> None:
    """Refuses names of tools that this server does not have. References are checked when an image is built."""
    own = () if definition.rendered is None else definition.rendered.tools
    names = {*tools, *(spec["name"] for spec in own)}
    unknown = [name for name in definition.tools or () if not is_reference(name) and name not in names]
    if unknown:
        raise ToolNotFound(f"No tool named {unknown[0]!r}; available: {', '.join(tools)}")


def _with_tools(definition: Definition, specs: Specs, reserved: Names) -> Definition:
    """Returns the definition with further tools after its own."""
    names = list(DEFAULT_TOOLS if definition.tools is None else definition.tools)
    added: list[dict[str, object]] = []
    for spec in specs:
        names.append(distinct_name(str(spec["name"]), {*names, *reserved}))
        added.append({**spec, "name": names[-1]})
    rendered = definition.rendered or Rendered()
    rendered = msgspec.structs.replace(rendered, tools=(*rendered.tools, *added))
    extended = msgspec.structs.replace(definition, tools=tuple(names), rendered=rendered)
    check_size(extended, subject="The definition with the tools of its MCP servers")
    return extended


def locked_roots(image: Image) -> dict[str, Locked]:
    """Returns the lock entry of each URI of the image itself, by the URI as written."""
    return {uri: entry for entry in image.lock for uri in entry.written}


def unchanged_pins(image: Image, changes: ImageConfig) -> Pins:
    """Returns the versions of the image's references that an update leaves as they are: they keep their meaning."""
    changed = {reference.uri for reference in references(Definition(name=""), changes)}
    return {uri: entry.version_id for uri, entry in locked_roots(image).items() if uri not in changed}
