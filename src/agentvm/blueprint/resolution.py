"""Resolution — the references of one build: looked up once, locked, and rendered into the definition of the image."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec

from agentvm.blueprint.definition import DEFINITION_MAX_BYTES, agent_definition
from agentvm.blueprint.image import Reference, apply_config, references
from agentvm.blueprint.sandbox_files import with_binary_files
from agentvm.blueprint.templates import READ_PERMISSION
from agentvm.errors import InvalidInput, shorten
from agentvm.errors.resource import PromptUnresolved, ResourceNotFound, ResourceTooDeep, ResourceTooLarge
from agentvm.model.definition import DEFAULT_TOOLS, LOAD_SKILL, SEARCH_KNOWLEDGE, SKILLS_MAX, Definition, Rendered
from agentvm.model.image import ImageConfig
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
from agentvm.resources.kind import exact_uri
from agentvm.resources.kinds import why_idle
from agentvm.resources.resolver import INLINE_MAX_BYTES, VersionClosure, lock_of, warnings_of
from agentvm.resources.resolver import check_size as check_nodes
from agentvm.resources.tool import TOOL_NAME_MAX
from agentvm.resources.tool_set import expand
from agentvm.storage.resources import Node

if TYPE_CHECKING:
    from agentvm.blueprint.builder import ImageBuilder

_LACKING = "set them as variables of the config; for an existing image with images.update(variables=…)"

Args = Mapping[str, object]
Names = tuple[str, ...]
Specs = tuple[dict[str, object], ...]
Pins = Mapping[str, VersionId]
"""The versions of URIs, as written, that are known and not looked up."""


class Resolution:
    """The references of one build."""

    def __init__(self, builder: "ImageBuilder", pins: Pins) -> None:
        self._builder = builder
        self._pins = pins
        self._roots: dict[str, Node] = {}
        self._nodes: dict[VersionId, Node] = {}
        self._idle: list[str] = []
        """Warnings about resources that have no effect on this server."""
        self._size = 0
        self._agents: dict[str, Definition] = {}
        """The agents that tools call, by their exact URIs."""
        self._args: Args = {}

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
        self._args = merged.variables or {}
        definition = self._definition(merged, closures)
        if not self._agents:
            return definition
        rendered = msgspec.structs.replace(definition.rendered or Rendered(), agents=self._agents)
        return msgspec.structs.replace(definition, rendered=rendered)

    def _definition(self, merged: Definition, closures: Mapping[Reference, VersionClosure]) -> Definition:
        """Returns a definition without references. The agents that its tools call are added to those of the build."""
        at = {reference.place: (reference, closure) for reference, closure in closures.items()}
        args = merged.variables or {}
        prompt = merged.system_prompt
        if "systemPrompt" in at:
            prompt = str(self._rendered(*at["systemPrompt"], args))
        tools, specs = self._tools(merged.tools or (), at, args)
        sandbox = self._spec(*at["sandbox"], args) if "sandbox" in at else None
        knowledge = [self._spec(*at[f"knowledge.{index}"], args) for index in range(len(merged.knowledge))]
        skills = self._skills([at[f"skills.{index}"] for index in range(len(merged.skills))])
        handoffs = [at[f"handoffs.{index}"][1] for index in range(len(merged.handoffs))]
        uris = tuple(dict.fromkeys(self._add_agent(agent) for agent in handoffs))
        rendered = Rendered(tools=specs, sandbox=sandbox, knowledge=_once(knowledge), skills=skills, handoffs=uris)
        locked_specs: list[tuple[ResourceType, dict[str, object]]] = [("tools", spec) for spec in specs]
        locked_specs += [("sandboxes", sandbox)] if sandbox is not None else []
        locked_specs += [("knowledge", spec) for spec in rendered.knowledge]
        builtins = self._builder.tools
        self._idle += [
            f"{spec['uri']}: {why}" for kind, spec in locked_specs if (why := why_idle(kind, spec, builtins)) is not None
        ]
        return msgspec.structs.replace(
            merged,
            system_prompt=prompt,
            tools=self._named(merged, tools, rendered),
            sandbox=None,
            knowledge=(),
            skills=(),
            handoffs=(),
            variables=None,
            rendered=None if rendered == Rendered() else rendered,
        )

    def _named(self, merged: Definition, tools: Names, rendered: Rendered) -> Names | None:
        """Returns the names of tools in the snapshot. An agent with knowledge gets the tool to search it, one with skills the
        tool to read them. The build adds these tools, and only the build, so that an older image gains none by an upgrade of
        the server."""
        conditional = ((SEARCH_KNOWLEDGE, rendered.knowledge), (LOAD_SKILL, rendered.skills))
        added = [name for name, named in conditional if named and name in self._builder.tools]
        if not added:
            return None if merged.tools is None else tools
        return tuple(dict.fromkeys((*(DEFAULT_TOOLS if merged.tools is None else tools), *added)))

    def _skills(self, written: Sequence[tuple[Reference, VersionClosure]]) -> Specs:
        """Returns the facts about skills that the image keeps. Their texts are read in the locked versions when needed."""
        specs: dict[str, dict[str, object]] = {}
        for reference, closure in written:
            whole = self._spec(reference, closure, {})
            name, uri = str(whole["name"]), whole["uri"]
            if specs.setdefault(name, whole)["uri"] != uri:
                raise InvalidInput(f"{specs[name]['uri']} and {uri} have one name; a model could not tell them apart")
            specs[name] = {"digest": closure.root.version.digest, **{key: whole[key] for key in ("uri", "name", "description")}}
        if len(specs) > SKILLS_MAX:
            raise InvalidInput(f"An agent has at most {SKILLS_MAX} skills, not {len(specs)}")
        return tuple(specs.values())

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
            if whole["runtime"] == "agent":
                tool = at[f"tools.{index}"][1]
                target = next(link.target for link in tool.root.links if parse_uri(link.uri).type == "agents")
                self._add_agent(VersionClosure(tool.nodes[target], tool.nodes))
            elif calls_agent(whole):
                raise InvalidInput(f"{whole['uri']} is a face of a tool that calls an agent; name that tool itself")
            if whole["runtime"] == "builtin":
                names.append(str(whole["entry"]))
                specs.append({**whole, "name": whole["entry"]})
                continue
            for spec in expand(whole):
                if all(other["uri"] != spec["uri"] for other in specs):
                    name = distinct_name(str(spec["name"]), {*names, *written, *self._builder.tools})
                    names.append(name)
                    specs.append({**spec, "name": name})
        return tuple(dict.fromkeys(names)), _once(specs)

    def _add_agent(self, agent: VersionClosure) -> str:
        """Renders an agent with all that it refers to, as that was locked when it was published; returns its exact URI."""
        uri = exact_uri(agent.root, self._builder.tenant_id)
        if uri in self._agents:
            return uri
        written = agent_definition(agent.root.resource.name, agent.root.content)
        merged = apply_config(written, ImageConfig(variables=dict(self._args)))
        # Before what it calls: nothing is rendered twice.
        self._agents[uri] = merged
        closures = {reference: _within(agent, reference.uri) for reference in references(written, ImageConfig())}
        self._agents[uri] = msgspec.structs.replace(self._definition(merged, closures), description=written.description)
        return uri

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


def agents_of(definition: Definition) -> Mapping[str, Definition]:
    """Returns the agents that a definition can call, by their URIs."""
    return {} if definition.rendered is None else definition.rendered.agents


def calls_agent(spec: Mapping[str, object]) -> bool:
    """Whether a tool, or the one that it is a face of, calls an agent."""
    resolved = spec.get("resolved")
    target = resolved.get("entry") if isinstance(resolved, Mapping) else None
    return spec.get("runtime") == "agent" or (isinstance(target, Mapping) and calls_agent(target))


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


def distinct_name(name: str, used: Collection[str]) -> str:
    """Returns the name, with a number if another tool has it."""
    numbered = (f"{name[: TOOL_NAME_MAX - 4]}_{number}" for number in count(2))
    return name if name not in used else next(other for other in numbered if other not in used)
