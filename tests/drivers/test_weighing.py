import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.drivers.base import AssistantEntry, ConversationEntry, Prompt, ToolResultsEntry, ToolSpec, UserEntry
from agentvm.drivers.model_catalog import DEFAULT_MODEL
from agentvm.drivers.weighing import ESCAPES_MAX, PAGE_TOKENS, SCANNED_BYTES_MAX, STREAMS_MAX, count_pages, most_input
from agentvm.model.message import FilePart, ImagePart, TextOutput, TextPart, ThinkingPart, ToolCall, ToolResult

WINDOW = 200_000
TOOL = ToolSpec(name="look", description="looks", input_schema={"type": "object"})


def weight(
    *said: ConversationEntry, driver: str = "anthropic", model: str = "claude-sonnet-5", tools: tuple[ToolSpec, ...] = ()
) -> int:
    prompt = Prompt(model=model, conversation=said, max_tokens=1, tools=tools)
    return most_input(prompt, driver=driver, window=WINDOW)


def pdf(*objects: bytes, encrypted: bool = False) -> str:
    end = b"trailer << /Encrypt 9 0 R >>" if encrypted else b"trailer << >>"
    return base64.b64encode(b"%PDF-1.7\n" + b"\n".join(objects) + b"\n" + end).decode()


def packed(content: bytes) -> bytes:
    body = zlib.compress(content)
    return b"5 0 obj << /Type /ObjStm /N 2 /Filter /FlateDecode >>\nstream\r\n" + body + b"\nendstream endobj"


PAGE = b"3 0 obj << /Type /Page /Parent 2 0 R >> endobj"
TREE = b"2 0 obj << /Type /Pages /Kids [3 0 R] /Count 1 >> endobj"


@given(st.text(max_size=300))
def test_text_has_at_most_as_many_tokens_as_bytes(text: str) -> None:
    assert weight(UserEntry(content=text)) >= len(text.encode("utf-8", "surrogatepass"))
    assert weight(UserEntry(content=(TextPart(text=text),))) >= len(text.encode("utf-8", "surrogatepass"))


def test_a_short_question_weighs_little() -> None:
    assert weight(UserEntry(content="What is the capital of France?")) < 150
    # With tools, a provider adds its own instructions for them; the default embedded model is told of none.
    assert 600 < weight(UserEntry(content="hi"), tools=(TOOL,)) < 900
    assert 600 < weight(UserEntry(content="hi"), tools=(TOOL,), driver="local", model="qwen3-4b") < 900
    assert weight(UserEntry(content="hi"), tools=(TOOL,), driver="local", model=DEFAULT_MODEL) < 150


def test_everything_that_is_said_weighs_something() -> None:
    call = ToolCall(id="c", name="look", input={"at": "x" * 1_000})
    thought = ThinkingPart(reasoning="r" * 1_000, signature="s" * 1_000)
    assert weight(AssistantEntry(text="t" * 1_000, thinking=(thought,), tool_calls=(call,))) > 4_000
    result = ToolResult(id="c", name="look", output=TextOutput(value="v" * 1_000))
    assert weight(ToolResultsEntry(results=(result,))) > 1_000


def test_a_document_by_url_weighs_a_whole_window() -> None:
    file = FilePart(data="https://example.org/big.pdf", media_type="application/pdf")
    assert weight(UserEntry(content=(file,))) >= WINDOW


def test_a_pdf_weighs_what_its_pages_can_have() -> None:
    file = FilePart(data=pdf(PAGE, PAGE, TREE), media_type="application/pdf")
    assert 2 * PAGE_TOKENS < weight(UserEntry(content=(file,))) < 3 * PAGE_TOKENS
    many = FilePart(data=pdf(*[PAGE] * 500), media_type="application/pdf")
    assert WINDOW <= weight(UserEntry(content=(many,))) < WINDOW + 1_000


@pytest.mark.parametrize(
    ("data", "pages"),
    [
        (pdf(PAGE, TREE), 1),
        (pdf(PAGE, PAGE, PAGE), 3),
        # One page that is used forty times.
        (pdf(PAGE, b"2 0 obj << /Type /Pages /Kids [3 0 R 3 0 R] /Count 40 >> endobj"), 40),
        (pdf(packed(b"<< /Type /Page >> << /Type/Page >>")), 2),
        (pdf(packed(b"<< /Type /Page >>"), packed(b"<< /Type /Page >>"), PAGE), 3),
        # What cannot be looked into.
        (pdf(b"5 0 obj << /Type /ObjStm /Filter /LZWDecode >>\nstream\nabc"), None),
        (pdf(packed(b" " * (SCANNED_BYTES_MAX + 1))), None),
        (pdf(PAGE, encrypted=True), None),
        (pdf(TREE.replace(b"/Count 1", b"")), None),
        (base64.b64encode(b"GIF89a /Type /Page").decode(), None),
        ("not base64", None),
        ("é", None),
        ("A" * (SCANNED_BYTES_MAX + 4), None),
    ],
)
def test_pages_are_counted_where_they_can_be(data: str, pages: int | None) -> None:
    assert count_pages(data) == pages


def test_a_file_that_is_no_text_and_no_pdf_weighs_a_whole_window() -> None:
    assert weight(UserEntry(content=(FilePart(data="AAAA", media_type="application/zip"),)), driver="openai") >= WINDOW
    text = FilePart(data=base64.b64encode(b"a" * 3_000).decode(), media_type="text/plain")
    assert 3_000 < weight(UserEntry(content=(text,))) < 5_000


@pytest.mark.parametrize(
    ("driver", "model", "least"),
    [
        ("anthropic", "claude-sonnet-5", 4_784),
        ("openai", "gpt-4o", 1_445),
        ("openai", "gpt-4o-mini-2024-07-18", 2_833 + 8 * 5_667),
        ("openai", "o3", 3_700),
        ("openai", "qwen/qwen3-vl", 16_384),
    ],
)
def test_a_picture_weighs_the_most_that_its_provider_counts_for_one(driver: str, model: str, least: int) -> None:
    said = UserEntry(content=(ImagePart(data="https://example.org/a.png", media_type="image/png"),))
    assert least <= weight(said, driver=driver, model=model) < 3 * least + 1_000


@pytest.mark.parametrize(
    "hidden",
    [
        b"3 0 obj << /Type /P#61ge >> endobj " * 40,
        b"2 0 obj << /Type /Pages /C#6funt 40 >> endobj",
        packed(PAGE * 40).replace(b"/ObjStm", b"/Obj#53tm"),
    ],
)
def test_pages_are_not_hidden_by_how_their_names_are_written(hidden: bytes) -> None:
    assert (count_pages(pdf(PAGE, hidden)) or 10**9) >= 40


def test_a_document_weighs_what_it_is_and_not_what_its_part_says() -> None:
    pages = pdf(*[PAGE] * 500)
    honest = weight(UserEntry(content=(FilePart(data=pages, media_type="application/pdf"),)))
    disguised = FilePart(data=f"data:application/pdf;base64,{pages}", media_type="text/plain")
    assert weight(UserEntry(content=(disguised,))) == honest


def test_a_document_with_many_compressed_objects_is_not_looked_into() -> None:
    assert count_pages(pdf(*[packed(PAGE)] * STREAMS_MAX)) == STREAMS_MAX
    assert count_pages(pdf(*[packed(PAGE)] * (STREAMS_MAX + 1))) is None
    assert count_pages(pdf(b"/ObjStm " * 100_000)) is None
    assert count_pages(pdf(b"/Type /P#61ge " * (ESCAPES_MAX + 1))) is None


def test_only_so_much_of_the_documents_of_one_prompt_is_looked_into() -> None:
    large = pdf(PAGE, b"%" + b"x" * (SCANNED_BYTES_MAX * 2 // 5))
    part = FilePart(data=large, media_type="application/pdf")
    assert weight(UserEntry(content=(part,))) < WINDOW
    assert weight(UserEntry(content=(part, part))) > WINDOW
