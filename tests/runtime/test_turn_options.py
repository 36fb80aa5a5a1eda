import pytest

from agentvm.drivers.base import ToolSpec
from agentvm.errors import InvalidInput, Unprocessable
from agentvm.model.definition import Definition
from agentvm.model.turn import ClientTool, TurnOptions
from agentvm.runtime.tools import ToolSet, client_tool
from agentvm.runtime.turn_options import add_tools, apply_options, check_options, choose_tool, still_allowed

PLAIN = Definition(name="plain", system_prompt="Be brief", temperature=0.2)


def test_a_sender_chooses_all_but_the_model_unless_the_definition_says_otherwise() -> None:
    everything = TurnOptions(
        temperature=0, max_tokens=5, thinking=9, stop=("x",), instructions="y", tools=(ClientTool(name="t"),)
    )
    check_options(PLAIN, everything)
    check_options(PLAIN, None)
    with pytest.raises(Unprocessable, match="model"):
        check_options(PLAIN, TurnOptions(model="m"))
    check_options(Definition(name="open", turn_options=("model",)), TurnOptions(model="m"))
    with pytest.raises(Unprocessable, match="temperature"):
        check_options(Definition(name="sealed", turn_options=()), TurnOptions(temperature=0))
    with pytest.raises(Unprocessable, match="same name"):
        check_options(PLAIN, TurnOptions(tools=(ClientTool(name="t"), ClientTool(name="t"))))


@pytest.mark.parametrize(
    "options", [TurnOptions(temperature=3), TurnOptions(max_tokens=0), TurnOptions(tools=(ClientTool(name="no name"),))]
)
def test_values_that_could_not_be_read_again_are_refused(options: TurnOptions) -> None:
    with pytest.raises(InvalidInput, match="options are invalid"):
        check_options(PLAIN, options)


def test_what_is_not_chosen_stays_as_the_definition_says() -> None:
    assert apply_options(PLAIN, None) is PLAIN
    chosen = apply_options(PLAIN, TurnOptions(max_tokens=5, instructions="Rhyme"))
    assert (chosen.temperature, chosen.max_tokens) == (0.2, 5)
    assert chosen.system_prompt == "Be brief\n\nInstructions of the user:\nRhyme"
    assert apply_options(PLAIN, TurnOptions(temperature=0)).temperature == 0


def test_a_tool_of_the_sender_takes_the_place_of_one_with_its_name() -> None:
    own = ToolSet([client_tool(ToolSpec(name=name, description="own", input_schema={})) for name in ("a", "b")])
    tools = add_tools(own, TurnOptions(tools=(ClientTool(name="b", description="theirs"), ClientTool(name="c"))))
    assert [(spec.name, spec.description) for spec in tools.specs] == [("a", "own"), ("b", "theirs"), ("c", "")]
    assert tools.waits_for("c") == "client"
    assert add_tools(own, TurnOptions(temperature=0)) is own


def test_a_tool_that_has_to_be_called_is_one_of_the_turns_and_chosen_until_a_call_is_made() -> None:
    options = TurnOptions(tools=(ClientTool(name="t"),), tool_choice="t")
    check_options(PLAIN, options)
    check_options(Definition(name="own", tools=("u",)), TurnOptions(tool_choice="u"))
    with pytest.raises(Unprocessable, match="there is no tool v"):
        check_options(Definition(name="own", tools=("u",)), TurnOptions(tool_choice="v"))
    with pytest.raises(Unprocessable, match="choose toolChoice"):
        check_options(Definition(name="sealed", turn_options=("model",)), TurnOptions(tool_choice="required"))
    assert still_allowed(PLAIN, options) == options
    specs = [ToolSpec(name="t", description="", input_schema={})]
    assert [choose_tool(options, specs, calls) for calls in ((), ("call_1",))] == ["t", None]
    assert choose_tool(options, [], ()) is choose_tool(None, specs, ()) is None
    anything = TurnOptions(tool_choice="required")
    assert [choose_tool(anything, tools, ()) for tools in (specs, [])] == ["required", None]
