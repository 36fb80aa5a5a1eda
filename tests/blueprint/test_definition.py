import pytest

from agentvm.blueprint.definition import (
    DEFAULT,
    MAX_IMAGE_NAME,
    MAX_NAME,
    MAX_PER_TENANT,
    MAX_SIZE,
    MAX_SIZE_PER_TENANT,
    Definitions,
    check_size,
)
from agentvm.errors import DefinitionConflict, DefinitionNotFound, InvalidInput, Refused
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import TenantId
from agentvm.model.image import ImageConfig

A, B = TenantId("a"), TenantId("b")
POET = Definition(name="poet", system_prompt="rhyme")


def test_the_servers_definitions_and_the_default_are_everybodys() -> None:
    definitions = Definitions([POET])
    for tenant in (A, B):
        assert definitions.get(tenant, "poet") == POET
        assert definitions.list(tenant) == (DEFAULT, POET)
    assert definitions.default == definitions.get(A, "default")


def test_a_tenants_own_definition_is_nobody_elses() -> None:
    definitions = Definitions()
    assert definitions.register(A, POET) == POET
    assert definitions.get(A, "poet") == POET
    assert definitions.list(A) == (DEFAULT, POET)
    assert definitions.list(B) == (DEFAULT,)
    with pytest.raises(DefinitionNotFound):
        definitions.get(B, "poet")
    definitions.register(B, Definition(name="poet", system_prompt="do not rhyme"))
    assert definitions.get(A, "poet") == POET


def test_registering_the_same_definition_again_changes_nothing() -> None:
    definitions = Definitions()
    for _ in range(2):
        assert definitions.register(A, POET) == POET
    assert definitions.list(A) == (DEFAULT, POET)


def test_another_definition_of_that_name_is_a_conflict_and_changes_nothing() -> None:
    definitions = Definitions()
    definitions.register(A, POET)
    with pytest.raises(DefinitionConflict):
        definitions.register(A, Definition(name="poet", system_prompt="other"))
    assert definitions.get(A, "poet") == POET


def test_a_tenant_cannot_shadow_the_servers_own() -> None:
    definitions = Definitions([POET])
    for name in ("poet", "default"):
        with pytest.raises(DefinitionConflict):
            definitions.register(A, Definition(name=name, system_prompt="mine now"))
    assert definitions.register(A, POET) == POET
    assert definitions.list(A) == (DEFAULT, POET)


def test_the_server_cannot_start_with_two_definitions_of_one_name() -> None:
    with pytest.raises(DefinitionConflict):
        Definitions([POET, Definition(name="poet")])
    assert Definitions([POET, POET]).list(A) == (DEFAULT, POET)


def test_a_tenant_has_so_many_definitions_and_no_more() -> None:
    definitions = Definitions()
    for number in range(MAX_PER_TENANT):
        definitions.register(A, Definition(name=str(number)))
    with pytest.raises(Refused):
        definitions.register(A, POET)
    definitions.register(A, Definition(name="0"))
    definitions.register(B, POET)


def test_the_server_may_have_another_default() -> None:
    assert Definitions(default=POET).default == POET


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME + 1)])
def test_a_name_has_a_length(name: str) -> None:
    with pytest.raises(InvalidInput):
        Definitions().register(A, Definition(name=name))
    Definitions().register(A, Definition(name="x" * MAX_NAME))


@pytest.mark.parametrize("letter", ["x", "\u4e16", '"'])
def test_a_definition_is_so_large_and_no_larger(letter: str) -> None:
    empty = len(snapshot_of(Definition(name="a", system_prompt=""))[1])
    width = len(snapshot_of(Definition(name="a", system_prompt=letter))[1]) - empty
    room = (MAX_SIZE - empty) // width
    definitions = Definitions()
    check_size(Definition(name="a", system_prompt=letter * room))
    definitions.register(A, Definition(name="a", system_prompt=letter * room))
    large = letter * (room + 20)
    for definition in (
        Definition(name="b", system_prompt=large),
        Definition(name="b", description=large),
        Definition(name="b", tools=(large,)),
    ):
        with pytest.raises(InvalidInput, match=str(MAX_SIZE)):
            definitions.register(A, definition)
    assert [definition.name for definition in definitions.list(A)] == ["default", "a"]


def test_all_definitions_of_a_tenant_together_are_so_large_and_no_larger() -> None:
    definitions = Definitions()
    prompt = "x" * (MAX_SIZE - 1_000)
    fit = MAX_SIZE_PER_TENANT // check_size(Definition(name="00", system_prompt=prompt))
    for number in range(fit):
        definitions.register(A, Definition(name=f"{number:02}", system_prompt=prompt))
    with pytest.raises(Refused, match=str(MAX_SIZE_PER_TENANT)):
        definitions.register(A, Definition(name="xx", system_prompt=prompt))
    assert len(definitions.list(A)) == fit + 1
    definitions.register(A, Definition(name="00", system_prompt=prompt))
    definitions.register(B, Definition(name="xx", system_prompt=prompt))


@pytest.mark.parametrize("depth", [900, 5_000])
def test_what_is_nested_too_deeply_is_refused(depth: int) -> None:
    deep: object = []
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(InvalidInput, match="nested"):
        check_size(ImageConfig(mcp_servers={"a": deep}))
    check_size(ImageConfig(mcp_servers={"a": [[[{"b": []}]]]}))


def test_a_name_of_an_image_has_a_length() -> None:
    check_size(ImageConfig(name="x" * MAX_IMAGE_NAME))
    with pytest.raises(InvalidInput, match="name"):
        check_size(ImageConfig(name="x" * (MAX_IMAGE_NAME + 1)))
