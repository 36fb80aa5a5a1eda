import pytest

from agentvm.cli.inline import SPAN_CHARACTERS_MAX, StyledText, parse, render


def shown(text: str) -> str:
    """The runs, each styled one as <style:text>."""
    runs = render(text)
    return "".join(run.text if not run.style else f"<{run.style}:{run.text}>" for run in runs)


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("plain", "plain"),
        ("a **b** c", "a <1:b> c"),
        ("a *b* c", "a <3:b> c"),
        ("a _b_ c", "a <3:b> c"),
        ("***b***", "<1;3:b>"),
        ("**b *i***", "<1:b ><1;3:i>"),
        ("*i **b***", "<3:i ><3;1:b>"),
        ("~~old~~ new", "<9:old> new"),
        ("这是**重点**内容", "这是<1:重点>内容"),
        ("`a*b*c`", "<36:a*b*c>"),
        ("`` a`b ``", "<36:a`b>"),
        ("**`x`**", "<1;36:x>"),
        ("[text](http://x.test/a_(b))", "<4:text><2: (http://x.test/a_(b))>"),
        ("[http://x.test](http://x.test)", "<4:http://x.test>"),
        (r"\*not\*", "*not*"),
        (r"C:\dir", r"C:\dir"),
    ],
)
def test_markup_becomes_style(text: str, looks: str) -> None:
    assert shown(text) == looks


@pytest.mark.parametrize(
    "text",
    [
        "2 * 3 * 4",
        "2*3*4",
        "snake_case_name",
        "a ** b",
        "**open",
        "`open",
        "[open",
        "[a] b",
        "[a](b c",
        "~5 to ~6",
        "*",
        "****",
        "\\",
    ],
)
def test_other_signs_are_text(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize("text", ["*", "**b", "**b*", "**b**", "`a", "`a`", "[a", "[a]", "[a](b", "\\", "_a_"])
def test_a_front_that_can_still_change_is_waited_for(text: str) -> None:
    assert parse(text, "", "", final=False) is None


def test_a_decided_front_is_not_waited_for() -> None:
    front = parse("**b** ", "", "", final=False)
    assert front is not None
    assert (front.length, front.runs) == (5, (StyledText("b", "1"),))
    assert parse("[a] ", "", "", final=False) is not None
    assert parse("word", "", "", final=False) is not None


def test_markup_that_is_never_closed_holds_nothing_back_for_long() -> None:
    front = parse("**" + "b" * SPAN_CHARACTERS_MAX, "", "", final=False)
    assert front is not None
    assert front.runs == (StyledText("**", ""),)
