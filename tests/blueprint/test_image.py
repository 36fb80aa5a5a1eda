import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.blueprint.image import DEFAULT_NAME, apply_config, build, freeze_plain, new_session, rebuild, references
from agentvm.model.definition import Definition
from agentvm.model.ids import ContainerId, SessionId, id_factory
from agentvm.model.image import Image, ImageConfig
from agentvm.model.session import Session

POET = Definition(
    name="poet",
    description="writes",
    system_prompt="rhyme",
    model="scripted/a",
    tools=("calculator",),
    max_tokens=100,
    thinking=2_000,
    temperature=0.7,
)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
tools = st.none() | st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple)
configs = st.builds(
    ImageConfig,
    name=texts,
    description=texts,
    system_prompt=texts,
    model=texts,
    tools=tools,
    max_tokens=st.none() | st.integers(1, 9),
    thinking=st.none() | st.integers(1, 9),
    temperature=st.none() | st.sampled_from([0.0, 0.5]),
)


def made(definition: Definition = POET, config: ImageConfig | None = None) -> tuple[Image, Session]:
    numbers = iter(range(100))
    new_id = id_factory(lambda: 0, lambda bits: next(numbers))
    config = config or ImageConfig()
    return build(definition, config, ContainerId("c1"), name=DEFAULT_NAME, clock=lambda: 7, new_id=new_id)


def test_an_image_comes_with_its_default_session() -> None:
    image, session = made()
    assert (image.name, image.description, image.definition_name) == (DEFAULT_NAME, "writes", "poet")
    assert (image.created_at, image.updated_at) == (7, 7)
    assert session == Session(
        session_id=image.session_id,
        image_id=image.image_id,
        container_id=ContainerId("c1"),
        title=None,
        created_at=7,
        updated_at=7,
    )
    assert new_session(image, SessionId("sess_2"), "t", 8).title == "t"


@given(configs)
def test_the_config_wins_where_it_has_a_word(config: ImageConfig) -> None:
    image, _ = made(POET, config)
    frozen = image.definition
    assert image.name == (DEFAULT_NAME if config.name is None else config.name)
    assert image.description == (POET.description if config.description is None else config.description)
    assert frozen.system_prompt == (POET.system_prompt if config.system_prompt is None else config.system_prompt)
    assert frozen.model == (config.model or POET.model)
    assert frozen.tools == (POET.tools if config.tools is None else config.tools)
    assert frozen.max_tokens == (config.max_tokens or POET.max_tokens)
    assert frozen.thinking == (config.thinking or POET.thinking)
    assert frozen.temperature == (POET.temperature if config.temperature is None else config.temperature)
    assert image.config == config


def test_no_tools_and_an_empty_prompt_are_words_too() -> None:
    frozen = apply_config(POET, ImageConfig(tools=(), system_prompt=""))
    assert (frozen.tools, frozen.system_prompt) == ((), "")


@given(configs, configs)
def test_builds_share_a_digest_exactly_when_they_behave_alike(one: ImageConfig, other: ImageConfig) -> None:
    same = apply_config(POET, one) == apply_config(POET, other)
    assert (made(POET, one)[0].digest == made(POET, other)[0].digest) == same


def test_names_and_descriptions_do_not_change_the_digest() -> None:
    renamed = msgspec.structs.replace(POET, description="writes more")
    assert made(renamed)[0].digest == made(POET, ImageConfig(name="x", description="y"))[0].digest


def test_a_changed_definition_never_changes_an_existing_image() -> None:
    image, _ = made()
    before = msgspec.json.encode(image)
    changed = msgspec.structs.replace(POET, system_prompt="do not rhyme")
    assert made(changed)[0].digest != image.digest
    assert msgspec.json.encode(image) == before
    with pytest.raises(AttributeError):
        image.definition.system_prompt = "do not rhyme"  # type: ignore[misc]  # it is frozen, which is the point


def test_references_are_found_wherever_they_stand_and_in_order() -> None:
    definition = Definition(
        name="a",
        system_prompt="resource://prompts/p",
        tools=("calculator", "resource://tools/t"),
        sandbox="resource://sandboxes/s",
        knowledge=("resource://knowledge/k",),
    )
    found = [(one.place, one.type, one.uri, one.inherited) for one in references(definition, ImageConfig())]
    assert found == [
        ("systemPrompt", "prompts", "resource://prompts/p", False),
        ("tools.1", "tools", "resource://tools/t", False),
        ("sandbox", "sandboxes", "resource://sandboxes/s", False),
        ("knowledge.0", "knowledge", "resource://knowledge/k", False),
    ]
    config = ImageConfig(definition="resource://agents/a", system_prompt="RESOURCE://prompts/q", tools=())
    assert [(one.place, one.uri, one.inherited) for one in references(definition, config)] == [
        ("definition", "resource://agents/a", False),
        ("systemPrompt", "RESOURCE://prompts/q", False),
        ("sandbox", "resource://sandboxes/s", True),
        ("knowledge.0", "resource://knowledge/k", True),
    ]
    plain = ImageConfig(definition="a", system_prompt="", sandbox=None, knowledge=(), tools=("calculator",))
    assert list(references(Definition(name="a", system_prompt="resource://prompts/p"), plain)) == []


def test_variables_are_joined_and_decide_nothing_without_references() -> None:
    definition = msgspec.structs.replace(POET, variables={"a": 1, "b": 2})
    config = ImageConfig(variables={"b": 3})
    assert apply_config(definition, config).variables == {"a": 1, "b": 3}
    image, _ = made(definition, config)
    assert image.digest == made(POET)[0].digest
    assert image.source == definition, "they may be needed when it is built anew"
    assert made(POET, config)[0].source is None


def test_what_the_config_hides_of_a_definition_is_not_forgotten() -> None:
    definition = Definition(name="a", system_prompt="resource://prompts/p")
    assert freeze_plain(definition, ImageConfig(system_prompt="x")).refers
    assert not freeze_plain(POET, ImageConfig(system_prompt="x")).refers


def test_an_image_that_is_built_anew_keeps_what_it_is_called() -> None:
    image, _ = made(POET, ImageConfig(name="x"))
    config = ImageConfig(name="x", system_prompt="other")
    rebuilt = rebuild(image, config, freeze_plain(POET, config), 9)
    assert (rebuilt.definition.system_prompt, rebuilt.config, rebuilt.updated_at) == ("other", config, 9)
    assert (rebuilt.image_id, rebuilt.session_id, rebuilt.name, rebuilt.created_at) == (
        image.image_id, image.session_id, image.name, image.created_at,
    )  # fmt: skip
    assert rebuilt.digest != image.digest
