import pytest

from agentvm.cli.table import Columns, Show, lines, listed, moment, money, plain, table, when, width


def test_columns_are_aligned_by_what_is_seen() -> None:
    rows = table(["NAME", "N"], [["爱丽丝", 1], ["bob", 12345], ["e\u0301ve", None]]).splitlines()
    assert rows == ["NAME         N", "爱丽丝       1", "bob     12,345", "e\u0301ve"]
    assert [width(line) for line in rows[:3]] == [14, 14, 14]


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    assert plain("a\x1b[31m\n\u202eb") == "a\\x1b[31m\\x0a\\x202eb"
    assert "\x1b" not in table(["NAME"], [["\x1b]0;owned\x07"]])


def test_a_text_keeps_its_lines_and_nothing_else_that_a_terminal_would_obey() -> None:
    assert lines("a\r\nb\tc\x1b[31m\rd") == "a\nb\tc\\x1b[31m\\x0dd"
    assert lines("a\nb\nc", "  ") == "a\n  b\n  c"


def test_an_empty_list_says_so_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    Show().items([], {"ID": "id"}, none="There is nothing.")
    assert tuple(capsys.readouterr()) == ("", "There is nothing.\n")
    Show(as_json=True).items([], {"ID": "id"}, none="There is nothing.")
    assert tuple(capsys.readouterr()) == ("[]\n", "")


def test_a_record_has_a_line_for_each_member_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    columns: Columns = {"名": "name", "When": moment("at"), "Paid": money("paid"), "All": listed("all"), "Gone": "gone"}
    Show().record({"name": "x", "at": 0, "paid": 1_500_000_000, "all": ["a", "b"]}, columns)
    assert capsys.readouterr().out == "名    x\nWhen  1970-01-01 00:00\nPaid  $1.50\nAll   a b\n"


def test_further_lines_of_a_text_cannot_be_taken_for_fields(capsys: pytest.CaptureFixture[str]) -> None:
    Show().record({"text": "a\nName  b\x1b\n", "name": "x"}, {"Text": "text", "Name": "name"})
    assert capsys.readouterr().out == "Text  a\n      Name  b\\x1b\nName  x\n"


def test_json_is_what_the_server_said(capsys: pytest.CaptureFixture[str]) -> None:
    Show(as_json=True).record({"name": "爱丽丝"}, {"Name": "name"})
    assert capsys.readouterr().out == '{\n  "name": "爱丽丝"\n}\n'
    Show(as_json=True).done("It is done.")
    assert capsys.readouterr().out == ""


def test_a_time_that_is_none_is_shown_as_it_came() -> None:
    assert when(10**18) == "1000000000000000000"
