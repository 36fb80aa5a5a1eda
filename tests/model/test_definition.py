import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.definition import Definition, snapshot_of

texts = st.text(st.characters(exclude_categories=["Cs"]))
definitions = st.builds(
    Definition,
    name=texts,
    description=st.none() | texts,
    system_prompt=st.none() | texts,
    model=st.none() | texts,
    tools=st.none() | st.lists(texts, max_size=3).map(tuple),
    max_tokens=st.none() | st.integers(1, 2**31),
)


@given(definitions, definitions)
def test_two_definitions_share_a_digest_exactly_when_they_are_equal(one: Definition, other: Definition) -> None:
    assert (snapshot_of(one)[0] == snapshot_of(other)[0]) == (one == other)


@given(definitions)
def test_the_snapshot_is_the_definition(definition: Definition) -> None:
    digest, body = snapshot_of(definition)
    assert msgspec.json.decode(body, type=Definition) == definition
    assert digest.startswith("sha256:")
    assert snapshot_of(definition) == (digest, body)


def test_no_tools_is_not_the_same_as_every_tool() -> None:
    assert snapshot_of(Definition(name="a", tools=()))[0] != snapshot_of(Definition(name="a"))[0]
