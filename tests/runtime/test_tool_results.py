"""What a tool gives, and what of it a message holds."""

import hashlib
import json
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors import ToolFailed
from agentvm.errors.attachment import AttachmentTooLarge
from agentvm.model.long_json import folded, read_json, unfolded
from agentvm.model.message import FilePart, ImagePart, LinkPart, TextPart
from agentvm.runtime.tool_input import DEPTH_MAX
from agentvm.runtime.tool_results import PARTS_MAX, QUOTED_MAX, ResultKeeper, encode_result, plain_json
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
    plain_text,
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
    settings = {
        "name": "t",
        "owner": "acme",
        "output_max": 100,
        "file_max_bytes": 1_000,
        "store": shelf.store,
        "spill": shelf.spill,
        **more,
    }
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


async def test_terminal_escapes_and_nul_are_taken_out_of_json_as_well() -> None:
    value = {"a\x1b[31m": ["red\x1b[0m\x00", {"b": "\x9bK\ttab\n"}], "n": 1, "ok": None}
    outcome = await keeper().keep(CallResult(type="json", value=value))
    assert outcome.result == {"a[31m": ["red[0m", {"b": "K\ttab\n"}], "n": 1, "ok": None}
    long = await keeper(shelf := Shelf("/workspace/x")).keep(CallResult(type="json", value=["\x1b" + "x" * 200]))
    assert "\\u001b" not in str(long.result)
    assert b"\\u001b" not in shelf.spilled[0]


async def test_json_without_control_characters_is_passed_on_as_it_is() -> None:
    value = {"text": "back\\u001bslash \\b \\f", "path": "C:\\u0000"}
    assert (await keeper().keep(CallResult(type="json", value=value))).result == value


JSON = st.recursive(
    st.text() | st.integers(-9, 9) | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(JSON)
def test_nothing_but_control_characters_is_taken_out_of_json(value: object) -> None:
    def clean(value: object) -> object:
        match value:
            case str():
                return plain_text(value)
            case dict():
                return {plain_text(name): clean(item) for name, item in value.items()}
            case list():
                return [clean(item) for item in value]
            case _:
                return value

    assert isinstance(value, str) or unfolded(plain_json(value, encode_result("t", value))[0]) == clean(value)


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 600, 900])
async def test_json_that_is_nested_too_deeply_is_an_error_and_nobodys_failure(depth: int) -> None:
    value: object = "\x1b"
    for _ in range(depth):
        value = [value]
    with pytest.raises(ToolFailed, match="nested"):
        await keeper(output_max=10_000).keep(CallResult(type="json", value=value))


async def test_very_long_json_stays_text_and_is_as_deep_as_other_json_may_be() -> None:
    long = ["x\x1b" * 2_000_000, [1]]
    outcome = await keeper(output_max=10**8).keep(CallResult(type="json", value=folded(long)))
    assert isinstance(outcome.result, msgspec.Raw)
    assert unfolded(outcome.result) == ["x" * 2_000_000, [1]]
    deep: object = "x" * 2_000_000
    for _ in range(DEPTH_MAX + 1):
        deep = [deep]
    with pytest.raises(ToolFailed, match="nested"):
        await keeper(output_max=10**8).keep(CallResult(type="json", value=folded(deep)))
    # Told as a text it may be as deep as it likes.
    assert "cut off" in str((await keeper().keep(CallResult(type="json", value=folded(deep)))).result)


async def test_json_of_some_length_is_told_as_short_as_it_can_be_written() -> None:
    spaced = json.dumps({"text": "中" * 12_000, "list": [1, 2]}, indent=4).encode()
    outcome = await keeper(output_max=20_000).keep(CallResult(type="json", value=read_json(spaced)))
    assert outcome.result == {"text": "中" * 12_000, "list": [1, 2]}


async def test_others_go_on_while_a_large_result_is_gone_through() -> None:
    value = ["\x01"] + [[number] for number in range(400_000)]
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        outcome = await keeper().keep(CallResult(type="json", value=value))
        tasks.cancel_scope.cancel()
    assert str(outcome.result).startswith('["",[0],[1]')
    assert ticks > 2


async def test_the_name_of_an_address_has_no_control_characters() -> None:
    outcome = await keeper().keep(content(ResultLink(uri="https://a.example/\x1b", name="a\x1b[2J")))
    assert outcome.parts == (LinkPart(uri="https://a.example/", name="a[2J"),)


async def test_parts_have_to_fit_the_schema_of_the_result_as_well() -> None:
    checked = keeper(output_schema={"type": "object", "required": ["n"]})
    whole = CallResult(type="content", value={"n": 1}, parts=(ResultText(text="n is 1"), PNG))
    assert len((await checked.keep(whole)).parts) == 2
    for value in (None, {"m": 1}):
        with pytest.raises(ToolFailed, match="does not fit its outputSchema"):
            await checked.keep(CallResult(type="content", value=value, parts=(PNG,)))
