import pytest

from agentvm.errors import ToolFailed
from agentvm.knowledge import parser_program
from agentvm.knowledge.parse import ENDINGS, FOLDER, KINDS, kind_of, packages_of


def test_a_document_is_read_by_its_media_type_or_the_ending_of_its_name() -> None:
    assert kind_of("a.MD", None) == "text"
    assert kind_of("folder/b.docx", "application/octet-stream") == "docx"
    assert kind_of("c", "text/html") == "html"
    for name, mime in (("a", None), ("a.exe", None), ("a.md", "image/png")):
        with pytest.raises(ToolFailed, match="these can: csv, docx"):
            kind_of(name, mime)


def test_every_kind_has_a_reader_and_every_ending_a_kind() -> None:
    assert set(KINDS.values()) == set(parser_program.READERS)
    assert set(ENDINGS.values()) <= set(KINDS)
    assert FOLDER == parser_program.PACKAGES


def test_readers_of_the_standard_library_need_no_package() -> None:
    assert packages_of("docx") == {}
