from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agentvm.blueprint.definition import (
    DEFAULT,
    DEFINITION_MAX_BYTES,
    DEFINITIONS_MAX,
    DEFINITIONS_MAX_BYTES,
    IMAGE_NAME_MAX,
    NAME_MAX,
    Definitions,
    check_size,
)
from agentvm.errors import DefinitionConflict, DefinitionNotFound, InvalidInput, Refused
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import TenantId
from agentvm.model.image import ImageConfig
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

A, B = TenantId("a"), TenantId("b")
POET = Definition(name="poet", system_prompt="rhyme")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store(None) as opened:
        yield opened


def made(store: Store, registered: Sequence[Definition] = ()) -> Definitions:
    return Definitions(store, lambda: 1, registered)


async def test_the_servers_definitions_and_the_default_are_everybodys(store: Store) -> None:
    definitions = made(store, [POET])
    for tenant in (A, B):
        assert await definitions.get(tenant, "poet") == POET
        assert await definitions.list(tenant) == (DEFAULT, POET)
    assert definitions.default == await definitions.get(A, "default")


async def test_a_tenants_own_definition_is_nobody_elses(store: Store) -> None:
    definitions = made(store)
    assert await definitions.register(A, POET) == POET
    assert await definitions.get(A, "poet") == POET
    assert await definitions.list(A) == (DEFAULT, POET)
    assert await definitions.list(B) == (DEFAULT,)
    with pytest.raises(DefinitionNotFound):
        await definitions.get(B, "poet")
    await definitions.register(B, Definition(name="poet", system_prompt="do not rhyme"))
    assert await definitions.get(A, "poet") == POET


async def test_registering_the_same_definition_again_changes_nothing(store: Store) -> None:
    definitions = made(store)
    for _ in range(2):
        assert await definitions.register(A, POET) == POET
    assert await definitions.list(A) == (DEFAULT, POET)


async def test_another_definition_of_that_name_is_a_conflict_and_changes_nothing(store: Store) -> None:
    definitions = made(store)
    await definitions.register(A, POET)
    with pytest.raises(DefinitionConflict):
        await definitions.register(A, Definition(name="poet", system_prompt="other"))
    assert await definitions.get(A, "poet") == POET


async def test_a_tenant_cannot_shadow_the_servers_own(store: Store) -> None:
    definitions = made(store, [POET])
    for name in ("poet", "default"):
        with pytest.raises(DefinitionConflict):
            await definitions.register(A, Definition(name=name, system_prompt="mine now"))
    assert await definitions.register(A, POET) == POET
    assert await definitions.list(A) == (DEFAULT, POET)


async def test_the_server_cannot_start_with_two_definitions_of_one_name(store: Store) -> None:
    with pytest.raises(DefinitionConflict):
        made(store, [POET, Definition(name="poet")])
    assert await made(store, [POET, POET]).list(A) == (DEFAULT, POET)


async def test_what_a_tenant_has_registered_survives_a_restart(tmp_path: Path) -> None:
    async with open_store(tmp_path / "a.db") as opened:
        await made(opened).register(A, POET)
    async with open_store(tmp_path / "a.db") as opened:
        assert await made(opened).get(A, "poet") == POET
        assert await made(opened).list(A) == (DEFAULT, POET)


async def test_a_tenant_has_so_many_definitions_and_no_more(store: Store) -> None:
    definitions = made(store)
    for number in range(DEFINITIONS_MAX):
        await definitions.register(A, Definition(name=str(number)))
    with pytest.raises(Refused):
        await definitions.register(A, POET)
    await definitions.register(A, Definition(name="0"))
    await definitions.register(B, POET)


async def test_the_server_may_have_another_default(store: Store) -> None:
    assert Definitions(store, lambda: 1, default=POET).default == POET


@pytest.mark.parametrize("name", ["", "x" * (NAME_MAX + 1)])
async def test_a_name_has_a_length(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput):
        await made(store).register(A, Definition(name=name))
    await made(store).register(A, Definition(name="x" * NAME_MAX))


@pytest.mark.parametrize("letter", ["x", "\u4e16", '"'])
async def test_a_definition_is_so_large_and_no_larger(store: Store, letter: str) -> None:
    empty = len(snapshot_of(Definition(name="a", system_prompt=""))[1])
    width = len(snapshot_of(Definition(name="a", system_prompt=letter))[1]) - empty
    room = (DEFINITION_MAX_BYTES - empty) // width
    definitions = made(store)
    check_size(Definition(name="a", system_prompt=letter * room))
    await definitions.register(A, Definition(name="a", system_prompt=letter * room))
    large = letter * (room + 20)
    for definition in (
        Definition(name="b", system_prompt=large),
        Definition(name="b", description=large),
        Definition(name="b", tools=(large,)),
    ):
        with pytest.raises(InvalidInput, match=str(DEFINITION_MAX_BYTES)):
            await definitions.register(A, definition)
    assert [definition.name for definition in await definitions.list(A)] == ["default", "a"]


async def test_all_definitions_of_a_tenant_together_are_so_large_and_no_larger(store: Store) -> None:
    definitions = made(store)
    prompt = "x" * (DEFINITION_MAX_BYTES - 1_000)
    fit = DEFINITIONS_MAX_BYTES // check_size(Definition(name="00", system_prompt=prompt))
    for number in range(fit):
        await definitions.register(A, Definition(name=f"{number:02}", system_prompt=prompt))
    with pytest.raises(Refused, match=str(DEFINITIONS_MAX_BYTES)):
        await definitions.register(A, Definition(name="xx", system_prompt=prompt))
    assert len(await definitions.list(A)) == fit + 1
    await definitions.register(A, Definition(name="00", system_prompt=prompt))
    await definitions.register(B, Definition(name="xx", system_prompt=prompt))


@pytest.mark.parametrize("depth", [900, 5_000])
def test_what_is_nested_too_deeply_is_refused(depth: int) -> None:
    deep: object = []
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(InvalidInput, match="nested"):
        check_size(ImageConfig(variables={"a": deep}))
    check_size(ImageConfig(variables={"a": [[[{"b": []}]]]}))


def test_a_name_of_an_image_has_a_length() -> None:
    check_size(ImageConfig(name="x" * IMAGE_NAME_MAX))
    with pytest.raises(InvalidInput, match="name"):
        check_size(ImageConfig(name="x" * (IMAGE_NAME_MAX + 1)))
