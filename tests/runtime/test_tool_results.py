"""What a tool gives, and what of it a message holds."""

import hashlib
from typing import Any

import pytest

from agentvm.errors import ToolFailed
from agentvm.errors.attachment import AttachmentTooLarge
from agentvm.model.message import FilePart, ImagePart, LinkPart, TextPart
from agentvm.runtime.tool_results import PARTS_MAX, QUOTED_MAX, ResultKeeper
from agentvm.tools.base import (
    IMAGE_MAX_BYTES,
    IMAGES_MAX,
    RESULT_MAX_BYTES,
    CallResult,
    ResultFile,
    ResultImage,
    ResultLink,
    ResultPart,
    ResultText,
)

pytestmark = pytest.mark.anyio
PNG = ResultImage(data=b"png", media_type="image/png")


class Shelf:
    """Files that were stored, and results that were spilled."""

    def __init__(self, path: str | None = None) -> None:
        self.files: list[tuple[bytes, str, str | None]] = []
        self.spilled: list[bytes] = []
        self._path = path

    async def store(self, data: bytes, media_type: str, name: str | None) -> str:
        self.files.append((data, media_type, name))
        return digest(data)

    async def spill(self, body: bytes) -> str | None:
        self.spilled.append(body)
        return self._path


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def keeper(shelf: Shelf | None = None, **more: Any) -> ResultKeeper:
    shelf = shelf or Shelf()
    settings = {"name": "t", "output_max": 100, "file_max_bytes": 1_000, "store": shelf.store, "spill": shelf.spill, **more}
    return ResultKeeper(**settings)


def content(*parts: ResultPart) -> CallResult:
    return CallResult(type="content", parts=parts)


async def test_parts_are_kept_in_order_and_bytes_as_attachments() -> None:
    shelf = Shelf()
    file = ResultFile(data=b"zip", media_type="application/zip", name="a\n.zip")
    drawing = ResultImage(data=b"<svg/>", media_type="image/svg+xml")
    parts = (ResultText(text="a\x1b[31mb\0"), PNG, file, drawing, ResultLink(uri="https://a.test", name="more"))
    outcome = await keeper(shelf).keep(content(*parts))
    assert outcome.output.type == "content"
    assert outcome.parts == (
        TextPart(text="a[31mb"),
        ImagePart(data=f"attachment:{digest(b'png')}", media_type="image/png"),
        FilePart(data=f"attachment:{digest(b'zip')}", media_type="application/zip", filename="a.zip"),
        FilePart(data=f"attachment:{digest(b'<svg/>')}", media_type="image/svg+xml"),
        LinkPart(uri="https://a.test", name="more"),
    )
    assert shelf.files[1] == (b"zip", "application/zip", "a.zip")


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([PNG] * (IMAGES_MAX + 1), "more than 20 images"),
        ([ResultImage(data=b"x" * (IMAGE_MAX_BYTES + 1), media_type="image/png")], "image of more than 5 MiB"),
        ([ResultText(text="x" * (RESULT_MAX_BYTES // 2 + 1))] * 2, "more than 16 MiB"),
        ([ResultFile(data=b"x" * 1_001, media_type="a/b")], "more than 1000 bytes"),
        ([ResultFile(data=b"", media_type="a/b")], "empty file"),
        ([ResultFile(data=b"x", media_type="nonsense")], "not a valid media type"),
        ([ResultText(text="x")] * (PARTS_MAX + 1), "more than 200 parts"),
    ],
)
async def test_too_much_is_an_error_that_says_what(parts: list[ResultPart], says: str) -> None:
    with pytest.raises(ToolFailed, match=says):
        await keeper().keep(content(*parts))


async def test_a_result_of_more_than_16_mib_is_an_error() -> None:
    with pytest.raises(ToolFailed, match="16 MiB"):
        await keeper(output_max=10**9).keep(CallResult(type="text", value="x" * (RESULT_MAX_BYTES + 1)))


async def test_a_file_that_may_not_be_stored_is_an_error_for_the_model() -> None:
    async def refuse(data: bytes, media_type: str, name: str | None) -> str:
        raise AttachmentTooLarge("no room")

    with pytest.raises(ToolFailed, match="no room"):
        await keeper(store=refuse).keep(content(PNG))


@pytest.mark.parametrize("value", ["x" * 101, {"a": "x" * 100}])
async def test_a_long_result_is_spilled_and_the_model_told_where(value: object) -> None:
    shelf = Shelf("/workspace/.results/c1")
    outcome = await keeper(shelf).keep(CallResult(type="text" if isinstance(value, str) else "json", value=value))
    text = str(outcome.result)
    assert "/workspace/.results/c1" in text
    (body,) = shelf.spilled
    assert text.startswith(body.decode()[:100])
    assert len(body) > 100


async def test_long_texts_among_parts_share_the_room() -> None:
    outcome = await keeper().keep(content(ResultText(text="a" * 60), ResultText(text="b" * 60), PNG))
    first, second, _ = outcome.parts
    assert isinstance(first, TextPart)
    assert isinstance(second, TextPart)
    assert (first.text, second.text) == ("a" * 60, "b" * 40 + "\n[cut off: the result has 60 characters]")


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_result_that_does_not_fit_its_schema_is_an_error_that_quotes_it() -> None:
    checked = keeper(output_schema=SCHEMA)
    assert (await checked.keep(CallResult(type="json", value={"n": 1}))).result == {"n": 1}
    assert (await checked.keep(CallResult(type="error-json", value={"code": 7}))).output.type == "error-json"
    with pytest.raises(ToolFailed, match=r"n: .*integer.*It was: \{\"n\":\"one\"\}"):
        await checked.keep(CallResult(type="json", value={"n": "one"}))
    with pytest.raises(ToolFailed) as raised:
        await checked.keep(CallResult(type="text", value="x" * 10_000))
    assert len(str(raised.value)) < QUOTED_MAX + 500
