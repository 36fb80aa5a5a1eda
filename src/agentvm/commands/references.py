"""References — what the `resource://` URIs of a definition and a config come to when an image is built.

They are followed once. What they came to is kept with the image, together with the lock: which versions that were. So whatever
happens to a resource afterwards, an image goes on as it was built.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio.to_thread
import msgspec

from agentvm.blueprint.definition import MAX_SIZE, check_size
from agentvm.blueprint.image import Frozen, Reference, apply_config, freeze_plain, references
from agentvm.commands import gate
from agentvm.errors import InvalidInput, shorten
from agentvm.errors.resource import PromptUnresolved, ResourceNotFound, ResourceTooDeep, ResourceTooLarge
from agentvm.model.definition import Definition, Rendered
from agentvm.model.image import Image, ImageConfig
from agentvm.model.resource import (
    MAX_CLOSURE,
    MAX_NODES,
    Locked,
    ResourceType,
    ResourceUri,
    VersionId,
    is_reference,
    parse_uri,
)
from agentvm.resources.agent import to_definition
from agentvm.resources.kind import decode, exact_uri
from agentvm.resources.kinds import KINDS
from agentvm.resources.resolver import LIGHT, VersionClosure, lock_of, warnings_of
from agentvm.resources.resolver import check_size as check_nodes
from agentvm.resources.runnable import why_idle
from agentvm.storage.resources import Node
from agentvm.vm import Peer

READ = "resources:read"
_LACKING = "give them as variables of the config; an image that is there gets them with images.update(variables=…)"

Args = Mapping[str, object]
Names = tuple[str, ...]
Specs = tuple[dict[str, object], ...]
Pins = Mapping[str, VersionId]
"""URIs, as they are written, whose versions are known: they are not looked for."""


async def freeze(peer: Peer, source: Definition | None, config: ImageConfig, pins: Pins | None = None) -> Frozen:
    """Applies the config and follows every reference. `source` is not needed when `config.definition` is a URI.

    `ResourceNotFound` for what is absent or not the asker's, `PromptUnresolved` for a prompt that lacks a value.
    """
    followed = _Following(peer, pins or {})
    agent: VersionClosure | None = None
    if config.definition is not None and is_reference(config.definition):
        agent = await followed.find(Reference(place="definition", type="agents", uri=config.definition))
        source = as_written(agent.root.resource.name, agent.root.content)
    if source is None:
        raise InvalidInput("No definition is given")
    check_size(source, config)
    wanted = list(references(source, config))
    if not wanted:
        return freeze_plain(source, config)
    gate.require(peer.principal, READ)
    if len(wanted) > MAX_NODES:
        raise ResourceTooDeep(f"An image refers to at most {MAX_NODES} resources, not {len(wanted)}")
    found = {one: await followed.find(one, agent) for one in wanted}
    definition = await followed.render(apply_config(source, config), found)
    check_size(definition, what="The definition, with its references followed,")
    return Frozen(
        definition=definition,
        source=source,
        refers=True,
        lock=followed.lock(),
        roots=followed.roots(),
        warnings=tuple(dict.fromkeys(followed.warnings())),
    )


def as_written(name: str, body: bytes) -> Definition:
    """An agent as a definition, its references as they stand in it."""
    content: Any = decode(KINDS["agents"], body)
    return to_definition(name, content)


def locked_roots(image: Image) -> dict[str, Locked]:
    """What each of the image's own URIs came to when it was built, by the URI as it is written."""
    return {uri: entry for entry in image.lock for uri in entry.written}


class _Following:
    """The references of one build."""

    def __init__(self, peer: Peer, pins: Pins) -> None:
        self._peer = peer
        self._pins = pins
        self._roots: dict[str, Node] = {}
        self._nodes: dict[VersionId, Node] = {}
        self._idle: list[str] = []
        """What of it does nothing here."""
        self._size = 0

    async def find(self, wanted: Reference, agent: VersionClosure | None = None) -> VersionClosure:
        gate.require(self._peer.principal, READ)
        uri = _checked(wanted)
        if wanted.inherited and agent is not None:
            return _within(agent, wanted.uri)
        if wanted.uri in self._roots:
            root = self._roots[wanted.uri]
            return VersionClosure(root, self._nodes)
        try:
            found = await self._look_up(wanted.uri, uri)
        except ResourceNotFound as error:
            raise ResourceNotFound(wanted.uri, error.there) from None
        self._roots[wanted.uri] = found.root
        self._nodes |= found.nodes
        if len(self._nodes) > MAX_NODES:
            raise ResourceTooDeep(f"All that an image refers to may be {MAX_NODES} versions; with {wanted.uri} it is more")
        if sum(len(node.content) for node in self._nodes.values()) > MAX_CLOSURE:
            raise ResourceTooLarge(f"All that an image refers to may have {MAX_CLOSURE} bytes; with {wanted.uri} it has more")
        return found

    async def _look_up(self, text: str, uri: ResourceUri) -> VersionClosure:
        version_id = self._pins.get(text)
        if version_id is None:
            return await self._peer.vm.resources.resolver.find(self._peer.tenant_id, uri)
        nodes = await self._peer.vm.resources.store.resources(self._peer.tenant_id).closure(version_id, limit=MAX_NODES + 1)
        if version_id not in nodes:
            raise ResourceNotFound(text)
        check_nodes(nodes, version_id, text)
        return VersionClosure(nodes[version_id], nodes)

    async def render(self, merged: Definition, found: Mapping[Reference, VersionClosure]) -> Definition:
        """The snapshot."""
        if sum(there.weight for there in found.values()) <= LIGHT:
            return self._render(merged, found)
        return await anyio.to_thread.run_sync(self._render, merged, found)

    def _render(self, merged: Definition, found: Mapping[Reference, VersionClosure]) -> Definition:
        at, args = {one.place: (one, there) for one, there in found.items()}, merged.variables or {}
        prompt = merged.system_prompt
        if "systemPrompt" in at:
            prompt = str(self._rendered(*at["systemPrompt"], args))
        tools, specs = self._tools(merged.tools or (), at, args)
        sandbox = self._spec(*at["sandbox"], args) if "sandbox" in at else None
        knowledge = [self._spec(*at[f"knowledge.{index}"], args) for index in range(len(merged.knowledge))]
        rendered = Rendered(tools=specs, sandbox=sandbox, knowledge=_once(knowledge))
        kept: list[tuple[ResourceType, dict[str, object]]] = [("tools", spec) for spec in specs]
        kept += [("sandboxes", sandbox)] if sandbox is not None else []
        kept += [("knowledge", one) for one in rendered.knowledge]
        known = self._peer.vm.runtime.tool_names
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
        """Those that can run here, by name, and the specs of the others."""
        names: list[str] = []
        others: list[dict[str, object]] = []
        for index, name in enumerate(written):
            if f"tools.{index}" not in at:
                names.append(name)
                continue
            spec = self._spec(*at[f"tools.{index}"], args)
            if why_idle("tools", spec, self._peer.vm.runtime.tool_names) is None:
                names.append(str(spec["entry"]))
            else:
                others.append(spec)
        return tuple(dict.fromkeys(names)), _once(others)

    def _spec(self, wanted: Reference, found: VersionClosure, args: Args) -> dict[str, object]:
        rendered = self._rendered(wanted, found, args)
        assert isinstance(rendered, dict), "only prompts have another form"
        return {"uri": exact_uri(found.root, self._peer.tenant_id), **rendered}

    def _rendered(self, wanted: Reference, found: VersionClosure, args: Args) -> object:
        try:
            rendered = self._peer.vm.resources.resolver.render(self._peer.tenant_id, parse_uri(wanted.uri), found, args)
        except PromptUnresolved as error:
            raise PromptUnresolved(error.uri, error.names, _LACKING) from None
        # Counted as it grows: many that are just small enough are refused before they are all in memory.
        self._size += len(msgspec.json.encode(rendered))
        if self._size > MAX_SIZE:
            raise InvalidInput(f"What the references come to has more than the {MAX_SIZE} bytes that an image may have")
        return rendered

    def lock(self) -> tuple[Locked, ...]:
        """Those that the image itself refers to, in its order, then the rest by their URIs; each version once."""
        first = self._own()
        rest = [entry for entry in self._entries() if entry not in first]
        return (*first, *sorted(rest, key=lambda entry: entry.uri))

    def roots(self) -> dict[str, Locked]:
        entries = {entry.version_id: entry for entry in self._entries()}
        return {uri: entries[node.version.version_id] for uri, node in self._roots.items()}

    def warnings(self) -> Iterable[str]:
        yield from self._idle
        for warned in warnings_of(self._all(), self._peer.tenant_id):
            yield f"{warned.uri}: {warned.message}"

    def _own(self) -> list[Locked]:
        return list(dict.fromkeys(self.roots().values()))

    def _entries(self) -> tuple[Locked, ...]:
        written: dict[VersionId, tuple[str, ...]] = {}
        for uri, node in self._roots.items():
            written[node.version.version_id] = (*written.get(node.version.version_id, ()), uri)
        return tuple(
            msgspec.structs.replace(entry, written=written.get(entry.version_id, ()))
            for entry in lock_of(self._all(), self._peer.tenant_id)
        )

    def _all(self) -> VersionClosure:
        return VersionClosure(next(iter(self._roots.values())), self._nodes)


def _checked(wanted: Reference) -> ResourceUri:
    if not is_reference(wanted.uri):
        raise InvalidInput(f"{wanted.place} must be a URI such as resource://{wanted.type}/name, not {shorten(wanted.uri)!r}")
    uri = parse_uri(wanted.uri)
    if uri.type != wanted.type:
        raise InvalidInput(f"{wanted.place} must name one of {wanted.type}; {shorten(wanted.uri)} is one of {uri.type}")
    if uri.fragment is not None and uri.type != "prompts":
        raise InvalidInput(f"{wanted.place} must name the whole of {shorten(wanted.uri)}: only prompts are used in parts")
    return uri


def _within(agent: VersionClosure, text: str) -> VersionClosure:
    """What a URI of the agent was locked to when the agent was published."""
    target = next(link.target for link in agent.root.links if link.uri == text)
    return VersionClosure(agent.nodes[target], agent.nodes)


def _once(specs: Iterable[dict[str, object]]) -> Specs:
    """One of each version."""
    return tuple({spec["uri"]: spec for spec in specs}.values())
