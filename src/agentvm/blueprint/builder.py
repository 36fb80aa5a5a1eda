"""Image builder — resolves the references of a definition and a config once, and freezes the result.

The result is kept with the image, together with the lock: the versions that it was built from. A resource that changes later
does not change an image until somebody upgrades it.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import anyio.to_thread
import msgspec

from agentvm.blueprint.definition import DEFINITION_MAX_BYTES, agent_definition, check_size
from agentvm.blueprint.image import Frozen, Reference, apply_config, freeze_plain, references
from agentvm.blueprint.sandbox_files import with_binary_files
from agentvm.blueprint.templates import READ_PERMISSION
from agentvm.drivers.models import Models
from agentvm.errors import DriverNotFound, InvalidInput, ToolNotFound, shorten
from agentvm.errors.resource import PromptUnresolved, ResourceNotFound, ResourceTooDeep, ResourceTooLarge
from agentvm.model.definition import DEFAULT_TOOLS, Definition, Rendered
from agentvm.model.ids import TenantId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.principal import Principal
from agentvm.model.provider_tool import why_not_run
from agentvm.model.resource import (
    CLOSURE_MAX_BYTES,
    NODES_MAX,
    Locked,
    ResourceType,
    ResourceUri,
    VersionId,
    is_reference,
    parse_uri,
)
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.kind import exact_uri
from agentvm.resources.kinds import why_idle
from agentvm.resources.resolver import INLINE_MAX_BYTES, VersionClosure, lock_of, warnings_of
from agentvm.resources.resolver import check_size as check_nodes
from agentvm.resources.schema import check_schema
from agentvm.resources.tool import TOOL_NAME_MAX
from agentvm.resources.tool_set import expand
from agentvm.storage.resources import Node
from agentvm.tenants.own_keys import OwnKeys

_LACKING = "set them as variables of the config; for an existing image with images.update(variables=…)"

Args = Mapping[str, object]
Names = tuple[str, ...]
Specs = tuple[dict[str, object], ...]
ToolsOfServers = Callable[[Mapping[str, object]], Awaitable[tuple[Specs, Names]]]
"""Returns the tools of MCP servers, and sentences about those that cannot be used."""
Pins = Mapping[str, VersionId]
"""The versions of URIs, as written, that are known and not looked up."""


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
    missing: Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
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
        missing = await self.missing(frozen.definition.tools or ())
        warnings = tuple(f"{name} cannot run on this machine, and models do not see it: {why}" for name, why in missing.items())
        warnings += self._of_other_providers(frozen.definition)
        return replace(frozen, warnings=(*frozen.warnings, *warnings)) if warnings else frozen

    async def freeze(self, source: Definition | None, config: ImageConfig, pins: Pins | None = None) -> Frozen:
        """Applies the config and resolves every reference.

        `ResourceNotFound` for a missing or invisible resource, `PromptUnresolved` for a prompt that lacks a value.
        """
        resolution = _Resolution(self, pins or {})
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
        check_size(definition, what="The definition with its resolved references")
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
    known = {*tools, *(spec["name"] for spec in own)}
    unknown = [name for name in definition.tools or () if not is_reference(name) and name not in known]
    if unknown:
        raise ToolNotFound(f"No tool named {unknown[0]!r}; available: {', '.join(tools)}")


def _with_tools(definition: Definition, specs: Specs, taken: Names) -> Definition:
    """Returns the definition with further tools after its own."""
    names = list(DEFAULT_TOOLS if definition.tools is None else definition.tools)
    added: list[dict[str, object]] = []
    for spec in specs:
        names.append(_distinct(str(spec["name"]), {*names, *taken}))
        added.append({**spec, "name": names[-1]})
    rendered = definition.rendered or Rendered()
    rendered = msgspec.structs.replace(rendered, tools=(*rendered.tools, *added))
    extended = msgspec.structs.replace(definition, tools=tuple(names), rendered=rendered)
    check_size(extended, what="The definition with the tools of its MCP servers")
    return extended


def locked_roots(image: Image) -> dict[str, Locked]:
    """Returns the lock entry of each URI of the image itself, by the URI as written."""
    return {uri: entry for entry in image.lock for uri in entry.written}


def unchanged_pins(image: Image, changes: ImageConfig) -> Pins:
    """Returns the versions of the image's references that an update leaves as they are: they keep their meaning."""
    changed = {reference.uri for reference in references(Definition(name=""), changes)}
    return {uri: entry.version_id for uri, entry in locked_roots(image).items() if uri not in changed}


class _Resolution:
    """The references of one build."""

    def __init__(self, builder: ImageBuilder, pins: Pins) -> None:
        self._builder = builder
        self._pins = pins
        self._roots: dict[str, Node] = {}
        self._nodes: dict[VersionId, Node] = {}
        self._idle: list[str] = []
        """Warnings about resources that have no effect on this server."""
        self._size = 0

    async def find(self, reference: Reference, agent: VersionClosure | None = None) -> VersionClosure:
        self._builder.principal.require(READ_PERMISSION)
        uri = _checked(reference)
        if reference.inherited and agent is not None:
            return _within(agent, reference.uri)
        if reference.uri in self._roots:
            return VersionClosure(self._roots[reference.uri], self._nodes)
        try:
            closure = await self._look_up(reference.uri, uri)
        except ResourceNotFound as error:
            raise ResourceNotFound(reference.uri, error.there) from None
        self._roots[reference.uri] = closure.root
        self._nodes |= closure.nodes
        if len(self._nodes) > NODES_MAX:
            raise ResourceTooDeep(f"An image refers to at most {NODES_MAX} versions in all; {reference.uri} exceeds that")
        if sum(len(node.content) for node in self._nodes.values()) > CLOSURE_MAX_BYTES:
            raise ResourceTooLarge(
                f"The resources of an image have at most {CLOSURE_MAX_BYTES} bytes in all; {reference.uri} exceeds that"
            )
        return closure

    async def _look_up(self, text: str, uri: ResourceUri) -> VersionClosure:
        version_id = self._pins.get(text)
        if version_id is None:
            return await self._builder.resources.resolver.find(self._builder.tenant_id, uri)
        nodes = await self._builder.resources.store.resources(self._builder.tenant_id).closure(version_id, limit=NODES_MAX + 1)
        if version_id not in nodes:
            raise ResourceNotFound(text)
        check_nodes(nodes, version_id, text)
        return VersionClosure(nodes[version_id], nodes)

    async def render(self, merged: Definition, closures: Mapping[Reference, VersionClosure]) -> Definition:
        """Returns the snapshot."""
        if sum(closure.weight for closure in closures.values()) <= INLINE_MAX_BYTES:
            definition = self._render(merged, closures)
        else:
            definition = await anyio.to_thread.run_sync(self._render, merged, closures)
        return await with_binary_files(definition, self._read_blob)

    async def _read_blob(self, digest: str) -> bytes | None:
        store = self._builder.resources.store.resources(self._builder.tenant_id)
        for version_id in self._nodes:
            if (body := await store.blob(version_id, digest)) is not None:
                return body
        return None

    def _render(self, merged: Definition, closures: Mapping[Reference, VersionClosure]) -> Definition:
        at = {reference.place: (reference, closure) for reference, closure in closures.items()}
        args = merged.variables or {}
        prompt = merged.system_prompt
        if "systemPrompt" in at:
            prompt = str(self._rendered(*at["systemPrompt"], args))
        tools, specs = self._tools(merged.tools or (), at, args)
        sandbox = self._spec(*at["sandbox"], args) if "sandbox" in at else None
        knowledge = [self._spec(*at[f"knowledge.{index}"], args) for index in range(len(merged.knowledge))]
        rendered = Rendered(tools=specs, sandbox=sandbox, knowledge=_once(knowledge))
        kept: list[tuple[ResourceType, dict[str, object]]] = [("tools", spec) for spec in specs]
        kept += [("sandboxes", sandbox)] if sandbox is not None else []
        kept += [("knowledge", spec) for spec in rendered.knowledge]
        known = self._builder.tools
        self._idle = [f"{spec['uri']}: {why}" for kind, spec in kept if (why := why_idle(kind, spec, known)) is not None]
        return msgspec.structs.replace(
            merged,
            system_prompt=prompt,
            tools=None if merged.tools is None else tools,
            sandbox=None,
            knowledge=(),
            variables=None,
            rendered=None if rendered == Rendered() else rendered,
        )

    def _tools(
        self, written: Sequence[str], at: Mapping[str, tuple[Reference, VersionClosure]], args: Args
    ) -> tuple[Names, Specs]:
        """Returns the names of the tools that can run here, and their specs.

        A spec whose name is not among the names is stored and does nothing: an image gains no tool by an upgrade of the server.
        """
        names: list[str] = []
        specs: list[dict[str, object]] = []
        for index, name in enumerate(written):
            if f"tools.{index}" not in at:
                names.append(name)
                continue
            whole = self._spec(*at[f"tools.{index}"], args)
            if whole["runtime"] == "provider" and (why := why_not_run(str(whole["entry"]))) is not None:
                raise InvalidInput(f"{whole['uri']}: {why}")
            if why_idle("tools", whole, self._builder.tools) is not None:
                specs.append(whole)
                continue
            if whole["runtime"] == "builtin":
                names.append(str(whole["entry"]))
                specs.append({**whole, "name": whole["entry"]})
                continue
            for spec in expand(whole):
                if all(other["uri"] != spec["uri"] for other in specs):
                    name = _distinct(str(spec["name"]), {*names, *written, *self._builder.tools})
                    names.append(name)
                    specs.append({**spec, "name": name})
        return tuple(dict.fromkeys(names)), _once(specs)

    def _spec(self, reference: Reference, closure: VersionClosure, args: Args) -> dict[str, object]:
        rendered = self._rendered(reference, closure, args)
        assert isinstance(rendered, dict), "only prompts have another form"
        return {"uri": exact_uri(closure.root, self._builder.tenant_id), **rendered}

    def _rendered(self, reference: Reference, closure: VersionClosure, args: Args) -> object:
        try:
            rendered = self._builder.resources.resolver.render(self._builder.tenant_id, parse_uri(reference.uri), closure, args)
        except PromptUnresolved as error:
            raise PromptUnresolved(error.uri, error.names, _LACKING) from None
        # Counted as it grows: many that are just small enough are refused before they are all in memory.
        self._size += len(msgspec.json.encode(rendered))
        if self._size > DEFINITION_MAX_BYTES:
            raise InvalidInput(f"The resolved references have more than {DEFINITION_MAX_BYTES} bytes, the maximum of an image")
        return rendered

    def lock(self) -> tuple[Locked, ...]:
        """Returns the entries of the image's own references, in its order, then the rest by their URIs; each version once."""
        first = self._own()
        rest = [entry for entry in self._entries() if entry not in first]
        return (*first, *sorted(rest, key=lambda entry: entry.uri))

    def roots(self) -> dict[str, Locked]:
        entries = {entry.version_id: entry for entry in self._entries()}
        return {uri: entries[node.version.version_id] for uri, node in self._roots.items()}

    def warnings(self) -> Iterable[str]:
        yield from self._idle
        for warned in warnings_of(self._all(), self._builder.tenant_id):
            yield f"{warned.uri}: {warned.message}"

    def _own(self) -> list[Locked]:
        return list(dict.fromkeys(self.roots().values()))

    def _entries(self) -> tuple[Locked, ...]:
        written: dict[VersionId, tuple[str, ...]] = {}
        for uri, node in self._roots.items():
            written[node.version.version_id] = (*written.get(node.version.version_id, ()), uri)
        return tuple(
            msgspec.structs.replace(entry, written=written.get(entry.version_id, ()))
            for entry in lock_of(self._all(), self._builder.tenant_id)
        )

    def _all(self) -> VersionClosure:
        return VersionClosure(next(iter(self._roots.values())), self._nodes)


def _checked(reference: Reference) -> ResourceUri:
    place, text = reference.place, shorten(reference.uri)
    if not is_reference(reference.uri):
        raise InvalidInput(f"{place} must be a URI such as resource://{reference.type}/name, not {text!r}")
    uri = parse_uri(reference.uri)
    if uri.type != reference.type:
        raise InvalidInput(f"{place} must name one of {reference.type}; {text} is one of {uri.type}")
    if uri.fragment is not None and uri.type != "prompts":
        raise InvalidInput(f"{place} must name the whole of {text}: only prompts are used in parts")
    return uri


def _within(agent: VersionClosure, text: str) -> VersionClosure:
    """Returns the version that a URI of the agent was locked to when the agent was published."""
    target = next(link.target for link in agent.root.links if link.uri == text)
    return VersionClosure(agent.nodes[target], agent.nodes)


def _once(specs: Iterable[dict[str, object]]) -> Specs:
    """Returns one spec of each version."""
    return tuple({spec["uri"]: spec for spec in specs}.values())


def _distinct(name: str, used: Collection[str]) -> str:
    """Returns the name, with a number if another tool has it."""
    numbered = (f"{name[: TOOL_NAME_MAX - 4]}_{number}" for number in count(2))
    return name if name not in used else next(other for other in numbered if other not in used)
