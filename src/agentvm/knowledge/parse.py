"""Parsing — the text of a file, read in a jail: documents are untrusted."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import anyio.to_thread
import msgspec

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.model.tier import Job, JobLimits, JobOwner
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.sandbox_jobs import SandboxSpec, need_of, text_of

PARSE_SECONDS = 60
MEMORY_BYTES = 1024**3
FOLDER = "packages"
DISK_BYTES = 16 * 1024 * 1024
TITLE_MAX = 1_000
"""Characters of a title: each passage has it."""
OUTPUT_BYTES = 40 * 1024 * 1024
"""Bytes of the text of a document: more than the most characters of one take in Chinese."""

KINDS = {
    "text/plain": "text",
    "text/markdown": "text",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "application/json": "json",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "message/rfc822": "eml",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/pdf": "pdf",
}
"""Media types that can be read, each with its reader."""
PACKAGES = {"pdf": ("pypdfium2", "pypdfium2_cfg", "pypdfium2_raw")}
"""Packages of the extra `documents` that a reader needs: their files are put into the jail, which sees no others."""
ENDINGS = {
    "txt": "text/plain",
    "text": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "markdown": "text/markdown",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "html": "text/html",
    "htm": "text/html",
    "eml": "message/rfc822",
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Media types by the ending of a name."""


class ParsedPage(NamedTuple):
    number: int | None
    text: str


class ParsedDocument(NamedTuple):
    pages: tuple[ParsedPage, ...]
    title: str | None = None


class _Answer(msgspec.Struct):
    pages: tuple[tuple[int | None, str], ...] = ()
    title: Annotated[str, msgspec.Meta(max_length=TITLE_MAX)] | None = None
    problem: str | None = None


_decode = msgspec.json.Decoder(_Answer).decode


def kind_of(name: str, mime: str | None) -> str:
    """Returns the parser for a document; `ToolFailed` for an unsupported format."""
    guessed = ENDINGS.get(name.rpartition(".")[2].lower())
    mime = guessed if mime in (None, "application/octet-stream") else mime
    if mime is None or mime not in KINDS:
        raise ToolFailed(f"{mime or 'a file without a known ending'} cannot be read; these can: {', '.join(sorted(ENDINGS))}")
    return KINDS[mime]


@cache
def packages_of(kind: str) -> Mapping[str, bytes]:
    """Returns the files of the packages that a reader needs; `ToolFailed` if they are not installed."""
    files: dict[str, bytes] = {}
    for name in PACKAGES.get(kind, ()):
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise ToolFailed(f"reading {kind} needs the extra documents: pip install 'agentvm[documents]'")
        folder = Path(spec.origin).parent
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files[f"{FOLDER}/{name}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    return files


async def parse(jobs: MeteredJobs, owner: JobOwner, key: str, name: str, mime: str | None, data: bytes) -> ParsedDocument:
    """Returns the text of a file; `ToolFailed` says why there is none."""
    kind = kind_of(name, mime)
    packages = await anyio.to_thread.run_sync(packages_of, kind)
    job = Job(
        engine="python",
        code=(resources.files("agentvm.knowledge") / "parser_program.py").read_text("utf-8"),
        input={"kind": kind},
        inputs={"document": data},
        files=packages,
        limits=JobLimits(
            wall_ms=PARSE_SECONDS * 1000,
            cpu_seconds=PARSE_SECONDS,
            memory_bytes=MEMORY_BYTES,
            output_bytes=OUTPUT_BYTES,
            disk_bytes=len(data) + sum(map(len, packages.values())) + DISK_BYTES,
        ),
        key=key,
    )
    try:
        _, result = await jobs.run(owner, need_of(job, SandboxSpec()), job)
    except AgentVMError as error:
        raise ToolFailed(f"it could not be read: {error}") from None
    if result.timed_out:
        raise ToolFailed(f"reading it took more than {PARSE_SECONDS} seconds")
    if result.oom:
        raise ToolFailed(f"reading it needs more than {MEMORY_BYTES // 2**20} MiB of memory")
    if result.truncated:
        raise ToolFailed(f"its text has more than {OUTPUT_BYTES // 2**20} MiB")
    if result.signal not in (None, "SIGKILL"):
        raise ToolFailed(f"its reader crashed ({result.signal}): it is damaged or malicious")
    if not result.succeeded:
        last = text_of(result.stderr).strip().rpartition("\n")[2]
        raise ToolFailed(f"reading it failed: {last[:200] or 'no reason given'}")
    try:
        answer = await anyio.to_thread.run_sync(_decode, result.stdout)
    except msgspec.MsgspecError:
        raise ToolFailed("reading it gave no text") from None
    if answer.problem is not None:
        raise ToolFailed(answer.problem)
    return ParsedDocument(tuple(ParsedPage(number, text) for number, text in answer.pages), answer.title)
