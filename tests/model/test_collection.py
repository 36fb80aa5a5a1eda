import msgspec
import pytest

from agentvm.model.collection import CollectionId, CollectionReference, is_document_name, is_reference, parse_reference


def test_a_reference_names_a_collection_and_a_revision() -> None:
    assert parse_reference("hand-book@12") == ("hand-book", 12)
    assert msgspec.convert("a@1", CollectionReference) == "a@1"
    for wrong in ("a", "a@0", "a@01", "A@1", "-a@1", "erased:1@1"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, CollectionReference)
        assert not is_reference(wrong)
    assert is_reference("a@1")
    assert not is_reference("a@1\n")


def test_ids_cannot_be_those_of_erased_collections() -> None:
    for wrong in ("erased:1", "", "a b", "a-", "x" * 65):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, CollectionId)


def test_the_name_of_a_document_can_stand_in_a_uri_and_is_that_of_a_file_below_a_folder() -> None:
    assert is_document_name("sales/价格.xlsx")
    assert is_document_name("..notes/v1..2.md")
    assert not any(map(is_document_name, ("a b", "a#b", "a\nb", "../a", "a/../b", "a/./b", "/a", "a//b", "a/", ".", "..")))
