"""Images — definition + config -> Image. Everything that decides an agent's behaviour is frozen in it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import Clock, ContainerId, ImageId, NewId, SessionId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.resource import Locked, ResourceType, is_reference
from agentvm.model.session import Session

DEFAULT_NAME = "New Conversation"
VARIABLES_UNUSED = "variables have no effect: they are values for prompts that are named by a resource:// URI"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A URI of a build: the field that holds it, the type that it must have, and the URI as written."""

    place: str
    type: ResourceType
    uri: str
    inherited: bool = False
    """True for a reference of the agent that the build is based on, whose lock has its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The result of resolving a definition and a config."""

    definition: Definition
    """The snapshot: every reference is resolved."""
    source: Definition
    """The definition as written."""
    refers: bool = False
    """True when the source or the config has references or variables, which the snapshot does not keep."""
    lock: tuple[Locked, ...] = ()
    roots: Mapping[str, Locked] = field(default_factory=dict)
    """The lock entry of each URI of the build itself, by the URI as written."""
    warnings: tuple[str, ...] = ()


def apply_config(definition: Definition, config: ImageConfig) -> Definition:
    """Returns the definition with the fields that the config sets. References stay references."""
    variables = {**(definition.variables or {}), **(config.variables or {})}
    return msgspec.structs.replace(
        definition,
        description=None,
        system_prompt=definition.system_prompt if config.system_prompt is None else config.system_prompt,
        model=config.model or definition.model,
        tools=definition.tools if config.tools is None else config.tools,
        sandbox=definition.sandbox if config.sandbox is None else config.sandbox,
        knowledge=definition.knowledge if config.knowledge is None else config.knowledge,
        skills=definition.skills if config.skills is None else config.skills,
        variables=variables or None,
        max_tokens=config.max_tokens or definition.max_tokens,
        thinking=config.thinking or definition.thinking,
        temperature=definition.temperature if config.temperature is None else config.temperature,
        output=config.output or definition.output,
        # Only a build sets the resolved references, never the request.
        rendered=None,
    )


def freeze_plain(definition: Definition, config: ImageConfig) -> Frozen:
    """Freezes a definition without references. Variables are for prompts by reference, so they have no effect here."""
    merged = apply_config(definition, config)
    snapshot = msgspec.structs.replace(merged, variables=None)
    refers = bool(definition.variables) or any(True for _ in references(definition, ImageConfig()))
    warnings = (VARIABLES_UNUSED,) if merged.variables else ()
    return Frozen(definition=snapshot, source=definition, refers=refers, warnings=warnings)


def references(definition: Definition, config: ImageConfig) -> Iterator[Reference]:
    """Yields every URI that a build resolves, in a fixed order."""
    based = is_reference(config.definition)
    if config.definition is not None and based:
        yield Reference(place="definition", type="agents", uri=config.definition)
    prompt = definition.system_prompt if config.system_prompt is None else config.system_prompt
    if prompt is not None and is_reference(prompt):
        inherited = based and config.system_prompt is None
        yield Reference(place="systemPrompt", type="prompts", uri=prompt, inherited=inherited)
    for index, tool in enumerate((definition.tools if config.tools is None else config.tools) or ()):
        if is_reference(tool):
            yield Reference(place=f"tools.{index}", type="tools", uri=tool, inherited=based and config.tools is None)
    sandbox = definition.sandbox if config.sandbox is None else config.sandbox
    if sandbox is not None:
        yield Reference(place="sandbox", type="sandboxes", uri=sandbox, inherited=based and config.sandbox is None)
    for index, uri in enumerate(definition.knowledge if config.knowledge is None else config.knowledge):
        inherited = based and config.knowledge is None
        yield Reference(place=f"knowledge.{index}", type="knowledge", uri=uri, inherited=inherited)
    for index, uri in enumerate(definition.skills if config.skills is None else config.skills):
        yield Reference(place=f"skills.{index}", type="skills", uri=uri, inherited=based and config.skills is None)
    for index, uri in enumerate(definition.handoffs):
        yield Reference(place=f"handoffs.{index}", type="agents", uri=uri, inherited=based)


def build(
    definition: Definition,
    config: ImageConfig,
    container_id: ContainerId,
    *,
    name: str,
    clock: Clock,
    new_id: NewId,
    frozen: Frozen | None = None,
) -> tuple[Image, Session]:
    """Returns a new image and its default session. `name` is used when the config has none."""
    frozen = frozen or freeze_plain(definition, config)
    now = clock()
    image_id, session_id = ImageId(new_id("img")), SessionId(new_id("sess"))
    image = Image(
        image_id=image_id,
        container_id=container_id,
        session_id=session_id,
        name=name if config.name is None else config.name,
        description=definition.description if config.description is None else config.description,
        definition_name=definition.name,
        digest=snapshot_of(frozen.definition)[0],
        definition=frozen.definition,
        config=config,
        created_at=now,
        updated_at=now,
        source=frozen.source if frozen.refers else None,
        lock=frozen.lock,
    )
    return image, new_session(image, session_id, None, now)


def rebuild(image: Image, config: ImageConfig, frozen: Frozen, now: int) -> Image:
    """Returns the image with another snapshot."""
    return msgspec.structs.replace(
        image,
        digest=snapshot_of(frozen.definition)[0],
        definition=frozen.definition,
        config=config,
        updated_at=now,
        source=frozen.source if frozen.refers else None,
        lock=frozen.lock,
    )


def new_session(image: Image, session_id: SessionId, title: str | None, now: int) -> Session:
    return Session(
        session_id=session_id,
        image_id=image.image_id,
        container_id=image.container_id,
        title=title,
        created_at=now,
        updated_at=now,
    )
