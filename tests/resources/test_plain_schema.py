"""A value that is taken for fitting does fit, whatever the schema; and ordinary calls do without the library."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from agentvm.resources.plain_schema import fits_plainly

names = st.sampled_from(["a", "b", "c"])
types = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
bounds = st.integers(0, 4)
values: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 6)
    | st.sampled_from([0.5, 1.0, -0.0, 1e300])
    | st.text("a𝄞é\u0301", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
schemas: st.SearchStrategy[dict[str, object]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
            "enum": st.lists(values, min_size=1, max_size=3, unique_by=repr),
            "properties": st.dictionaries(names, schemas | st.booleans(), max_size=2),
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": st.booleans() | schemas,
            "items": schemas | st.booleans(),
            "minimum": bounds,
            "maximum": bounds,
            "minLength": bounds,
            "maxLength": bounds,
            "minItems": bounds,
            "maxItems": bounds,
            "not": schemas,
            "pattern": st.just("^a"),
        },
    )
)


@given(schemas, values)
def test_whatever_is_taken_for_fitting_fits(schema: dict[str, object], value: object) -> None:
    if fits_plainly(schema, value):
        assert list(validator_for(schema).iter_errors(value)) == []


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "object"}, {}, True),
        ({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}, {"n": 1}, True),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {}, False),
        ({"type": "object", "properties": {}, "additionalProperties": False}, {"n": 1}, False),
        ({"properties": {"kind": {"enum": ["a", "b"]}}}, {"kind": "a"}, True),
        ({"properties": {"kind": {"enum": [1]}}}, {"kind": True}, False),
        ({"type": "integer"}, True, False),
        ({"type": "no such"}, 1, False),
        ({"minimum": "1"}, 1, False),
        ({"format": "date"}, "x", False),
        ({"$ref": "#"}, {}, False),
    ],
)
def test_plain_inputs_of_tools_are_recognised(schema: dict[str, object], value: object, fits: bool) -> None:
    assert fits_plainly(schema, value) is fits


def test_a_plain_value_needs_no_library_and_another_is_told_its_faults() -> None:
    program = (
        "import sys\nfrom agentvm.resources.schema import SchemaCheck\n"
        "check = SchemaCheck('input', {'type': 'object', 'properties': {'n': {'type': 'integer'}}})\n"
        "assert check.misfits({'n': 1}) == [] and 'jsonschema_rs' not in sys.modules\n"
        "assert str(check.misfits({'n': 'x'})[0]).startswith('n: ') and 'jsonschema_rs' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
