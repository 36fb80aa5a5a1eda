import pytest

from agentvm.errors import InvalidInput
from agentvm.model.attachment import (
    Attachment,
    attachment_parts,
    check_media_type,
    check_name,
    is_digest,
    is_text,
    is_url,
    reference_to,
    references,
    referred_digest,
)
from agentvm.model.ids import ContainerId
from agentvm.model.message import FilePart, ImagePart, TextPart

ONE, TWO = f"sha256:{'0' * 64}", f"sha256:{'ab' * 32}"


def test_an_attachment_is_referred_to_by_its_digest() -> None:
    found = Attachment(digest=ONE, container_id=ContainerId("c"), size=1, media_type="a/b", created_at=1)
    assert found.reference == reference_to(ONE) == f"attachment:{ONE}"
    assert referred_digest(found.reference) == ONE


@pytest.mark.parametrize(
    "data",
    ["", "aGk=", "https://x/attachment:", ONE, "attachment:", "attachment:md5:00", f"attachment:{ONE}0", f"Attachment:{ONE}",
     f"attachment:{ONE.upper()}", f"attachment:{ONE}\n"],
)  # fmt: skip
def test_nothing_else_is_a_reference(data: str) -> None:
    assert referred_digest(data) is None


def test_what_a_message_refers_to_is_told_once_in_order() -> None:
    odd = FilePart(data="attachment:odd", media_type="a/b")
    parts = (
        TextPart(text=reference_to(ONE)),
        ImagePart(data=reference_to(TWO), media_type="image/png"),
        FilePart(data="aGk=", media_type="a/b"),
        FilePart(data=reference_to(ONE), media_type="a/b"),
        FilePart(data=reference_to(TWO), media_type="a/b"),
        odd,
    )
    assert references(parts) == (TWO, ONE)
    assert [*attachment_parts(parts)] == [parts[1], parts[3], parts[4], odd]
    assert references(reference_to(ONE)) == ()
    assert [*attachment_parts("text")] == []


def test_digests_are_told_from_other_texts() -> None:
    assert is_digest(ONE)
    assert not is_digest(ONE[:-1])


@pytest.mark.parametrize(
    "text",
    ["image/png", "text/plain; charset=utf-8", 'text/plain;charset="utf-8"', "application/vnd.ms-excel", "image/svg+xml"],
)
def test_media_types_are_accepted(text: str) -> None:
    assert check_media_type(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "png", "image/", "/png", "image/png\r\nX: y", "image/png;", "image /png", "a/" + "b" * 300, "text/plain; charset",
     'text/plain; a="\\"', "image/ü"],
)  # fmt: skip
def test_what_is_no_media_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="media type"):
        check_media_type(text)


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "x" * 256, "\x1b[1m", "\u202eabc"])
def test_names_that_cannot_be_shown_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        check_name(text)


def test_names_are_kept_as_they_are() -> None:
    assert check_name(None) is None
    assert check_name('北京 "x".png') == '北京 "x".png'


def test_an_address_is_told_from_content_and_text_from_other_files() -> None:
    assert [is_url(data) for data in ("https://a.test/x.pdf", "http://a.test", "aHR0cHM6", "attachment:sha256:0")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert is_text("text/csv; charset=utf-8")
    assert is_text("application/vnd.api+json")
    assert not is_text("application/pdf")
