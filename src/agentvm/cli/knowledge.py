"""avm knowledge — documents that agents look things up in: publish a folder, search it, open a citation."""

import base64
from pathlib import Path

import click

from agentvm.cli.api import Api, RequestFailed, tenant_command
from agentvm.cli.table import Columns, Item, Show, plain
from agentvm.errors.resource import ResourceNotFound

EXAMPLES = """\b
Examples:
  avm knowledge add company-docs ./docs               every document below a folder
  avm knowledge add company-docs ./docs --chunk 600
  avm knowledge search company-docs "How long can I return things?"
  avm knowledge open "resource://knowledge/company-docs@1.0.0#returns.md:0-120"
"""

FILES_MAX = 10_000
TEXTS = {"txt": "text/plain", "md": "text/markdown", "markdown": "text/markdown"}
ENDINGS = frozenset({*TEXTS, "csv", "tsv", "json", "html", "htm", "eml", "log", "pdf", "docx", "pptx", "xlsx"})

COLUMNS: Columns = {"CITATION": "cite", "TITLE": "title", "HEADING": "heading", "TEXT": lambda item: _beginning(item)}
DETAILS: Columns = {"Document": "document", "Title": "title", "From": "start", "To": "end", "Text": "text"}


@click.group(epilog=EXAMPLES)
def knowledge() -> None:
    """Publish and search documents for agents."""


@knowledge.command("add", epilog=EXAMPLES)
@click.argument("name")
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--chunk", type=click.IntRange(50, 100_000), help="Characters of a passage (default: 800).")
@click.option(
    "--overlap", type=click.IntRange(0, 10_000), default=100, show_default=True, help="Characters two passages share."
)
@click.option("--inject", type=click.IntRange(0, 20), help="Passages that models are told with each question.")
@tenant_command
def add(api: Api, show: Show, name: str, folder: Path, chunk: int | None, overlap: int, inject: int | None) -> None:
    """Publish the documents of FOLDER as the knowledge base NAME.

    FOLDER may be one file. A knowledge base that is already there gets its next version.
    """
    documents, skipped = _read(folder)
    if not documents:
        raise click.ClickException(f"{plain(folder)} has no documents; these can be read: {', '.join(sorted(ENDINGS))}")
    content: dict[str, object] = {"documents": documents}
    if chunk is not None:
        content["chunking"] = {"size": chunk, "overlap": min(overlap, chunk - 1)}
    if inject is not None:
        content["retrieval"] = {"inject": inject}
    try:
        made = api.call("resource.update", f"resource://knowledge/{name}", content=content, bump="minor")
    except RequestFailed as error:
        if error.code != ResourceNotFound.code:
            raise
        made = api.call("resource.register", type="knowledge", name=name, content=content)
    for path in skipped:
        _note(f"{plain(path)} is left out: it is none of {', '.join(sorted(ENDINGS))}")
    show.record(made, {"Knowledge": "uri", "Documents": lambda item: str(len(documents)), "Digest": "digest"})


@knowledge.command("search", epilog=EXAMPLES)
@click.argument("name")
@click.argument("question")
@click.option("-k", "count", type=click.IntRange(1, 20), help="How many passages.")
@tenant_command
def search(api: Api, show: Show, name: str, question: str, count: int | None) -> None:
    """Search the documents of a knowledge base."""
    uri = name if name.startswith("resource://") else f"resource://knowledge/{name}"
    found = api.call_model("resource.query", uri, q=question, k=count)
    for problem in found.get("problems") or ():
        _note(f"{plain(problem['document'])}: {plain(problem['problem'])}")
    show.items(iter(found["passages"]), COLUMNS, none="Nothing found.")


@knowledge.command("open", epilog=EXAMPLES)
@click.argument("cite", metavar="CITATION")
@tenant_command
def open_citation(api: Api, show: Show, cite: str) -> None:
    """Show exactly the characters that a citation names."""
    show.record(api.call("resource.passage", cite=cite), DETAILS)


def _read(folder: Path) -> tuple[list[dict[str, object]], list[Path]]:
    """Returns the documents below a folder, and the files that are none. Hidden ones are left alone."""
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    documents: list[dict[str, object]] = []
    skipped: list[Path] = []
    for path in files[:FILES_MAX]:
        relative = path.relative_to(folder.parent if folder.is_file() else folder)
        ending = path.suffix.lower().removeprefix(".")
        if any(part.startswith(".") for part in relative.parts):
            continue
        if ending not in ENDINGS:
            skipped.append(relative)
            continue
        documents.append({"id": _id(relative), "title": path.stem, **_content(path, ending)})
    return documents, skipped


def _id(relative: Path) -> str:
    return relative.as_posix().replace(" ", "_").replace("#", "_")[-200:]


def _content(path: Path, ending: str) -> dict[str, object]:
    data = path.read_bytes()
    if ending in TEXTS:
        try:
            return {"text": data.decode("utf-8"), "mime": TEXTS[ending]}
        except UnicodeDecodeError:
            pass
    return {"file": {"data": base64.b64encode(data).decode()}}


def _note(text: str) -> None:
    click.echo(text, err=True)


def _beginning(item: Item) -> str:
    return " ".join(str(item["text"]).split())[:80]
