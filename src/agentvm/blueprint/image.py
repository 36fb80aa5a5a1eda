"""Building — definition + config -> Image. What decides behaviour is frozen here, once."""

import msgspec

from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import Clock, ContainerId, ImageId, NewId, SessionId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.session import Session

DEFAULT_NAME = "New Conversation"


def apply_config(definition: Definition, config: ImageConfig) -> Definition:
    """What the agent will be: the config's word where it has one, the definition's otherwise."""
    return msgspec.structs.replace(
        definition,
        description=None,
        system_prompt=definition.system_prompt if config.system_prompt is None else config.system_prompt,
        model=config.model or definition.model,
        tools=definition.tools if config.tools is None else config.tools,
        max_tokens=config.max_tokens or definition.max_tokens,
        thinking=config.thinking or definition.thinking,
        temperature=definition.temperature if config.temperature is None else config.temperature,
    )


def build(
    definition: Definition, config: ImageConfig, container_id: ContainerId, *, name: str, clock: Clock, new_id: NewId
) -> tuple[Image, Session]:
    """A new image and its default session. `name` is used when the config has none."""
    frozen = apply_config(definition, config)
    digest, _ = snapshot_of(frozen)
    now = clock()
    image_id, session_id = ImageId(new_id("img")), SessionId(new_id("sess"))
    image = Image(
        image_id=image_id,
        container_id=container_id,
        session_id=session_id,
        name=name if config.name is None else config.name,
        description=definition.description if config.description is None else config.description,
        definition_name=definition.name,
        digest=digest,
        definition=frozen,
        config=config,
        created_at=now,
        updated_at=now,
    )
    return image, new_session(image, session_id, None, now)


def new_session(image: Image, session_id: SessionId, title: str | None, now: int) -> Session:
    return Session(
        session_id=session_id,
        image_id=image.image_id,
        container_id=image.container_id,
        title=title,
        created_at=now,
        updated_at=now,
    )
