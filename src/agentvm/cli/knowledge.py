"""avm knowledge — documents that agents look things up in: publish a folder, search it, open a citation."""

import base64
import hashlib
from pathlib import Path

import click

from agentvm.cli.api import Api, RequestFailed, confirm, tenant_command, yes_option
from agentvm.cli.table import Columns, Item, Show, moment, plain
from agentvm.errors import NotFound
from agentvm.errors.resource import ResourceNotFound

EXAMPLES = """\b
Examples:
  avm knowledge add company-docs ./docs               every document below a folder
  avm knowledge add company-docs ./docs --chunk 600
  avm knowledge search company-docs "How long can I return things?"
  avm knowledge open "resource://knowledge/company-docs@1.0.0#returns.md:0-120"
  avm knowledge documents company-docs                of a collection, with their progress
  avm knowledge remove company-docs old/prices.xlsx   from every revision
"""

FILES_MAX = 10_000
INLINE_MAX_BYTES = 2 * 1024 * 1024
"""Documents of more bytes together go into a collection: a version holds 4 MiB, and files grow by a third in JSON."""
TEXTS = {"txt": "text/plain", "md": "text/markdown", "markdown": "text/markdown"}
ENDINGS = frozenset({*TEXTS, "csv", "tsv", "json", "html", "htm", "eml", "log", "pdf", "docx", "pptx", "xlsx"})

COLUMNS: Columns = {"CITATION": "cite", "TITLE": "title", "HEADING": "heading", "TEXT": lambda item: _beginning(item)}
DOCUMENT_COLUMNS: Columns = {
    "DOCUMENT": "document",
    "BYTES": "size",
    "STATE": "state",
    "PASSAGES": "passages",
    "PROBLEM": "problem",
}
COLLECTION_COLUMNS: Columns = {
    "COLLECTION": "collectionId",
    "REVISION": "revision",
    "DOCUMENTS": "documents",
    "BYTES": "bytes",
    "CHANGED (UTC)": moment("updatedAt"),
}
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
@click.option("--collection", "collected", is_flag=True, help="Keep the documents in a collection, also if they are few.")
@tenant_command
def add(
    api: Api, show: Show, name: str, folder: Path, chunk: int | None, overlap: int, inject: int | None, *, collected: bool
) -> None:
    """Publish the documents of FOLDER as the knowledge base NAME.

    FOLDER may be one file. A knowledge base that is already there gets its next version. More than 2 MiB go into a collection
    of the same name; files that it has already are not sent again.
    """
    files, skipped = _find(folder)
    for path in skipped:
        _note(f"{plain(path)} is left out: it is none of {', '.join(sorted(ENDINGS))}")
    if not files:
        raise click.ClickException(f"{plain(folder)} has no documents; these can be read: {', '.join(sorted(ENDINGS))}")
    large = sum(path.stat().st_size for path in files.values()) > INLINE_MAX_BYTES
    if collected or large or _has_collection(api, name):
        content: dict[str, object] = {"collection": _collect(api, name, files)}
    else:
        content = {"documents": [{"id": key, "title": path.stem, **_content(path)} for key, path in files.items()]}
    if chunk is not None:
        content["chunking"] = {"size": chunk, "overlap": min(overlap, chunk - 1)}
    if inject is not None:
        content["retrieval"] = {"inject": inject}
    try:
        reply = api.call("resource.update", f"resource://knowledge/{name}", content=content, bump="minor")
    except RequestFailed as error:
        if error.code != ResourceNotFound.code:
            raise
        reply = api.call("resource.register", type="knowledge", name=name, content=content)
    shown: Columns = {"Knowledge": "uri", "Documents": lambda item: str(len(files)), "Digest": "digest"}
    if "collection" in content:
        shown = {**shown, "Collection": lambda item: str(content["collection"])}
    show.record(reply, shown)


@knowledge.command("collections")
@tenant_command
def list_collections(api: Api, show: Show) -> None:
    """List the collections of documents."""
    show.items(api.items("collection.list"), COLLECTION_COLUMNS, none="No collections yet.")


@knowledge.command("documents")
@click.argument("collection")
@tenant_command
def list_documents(api: Api, show: Show, collection: str) -> None:
    """List the documents of a collection and their indexing status."""
    show.items(api.items("collection.documents", collection), DOCUMENT_COLUMNS, none="No documents yet.")


@knowledge.command("remove", epilog=EXAMPLES)
@click.argument("collection")
@click.argument("document", required=False)
@yes_option
@tenant_command
def remove(api: Api, show: Show, collection: str, document: str | None, yes: bool) -> None:
    """Delete a document of a collection, or the collection."""
    named = f"the collection {collection}" if document is None else f"{document} from every revision of {collection}"
    confirm(f"Delete {plain(named)}?", yes=yes)
    if document is None:
        api.call("collection.delete", collection)
    else:
        api.call("collection.delete_document", collection, document)
    show.done(f"Deleted {plain(named)}.", {"deleted": named})


@knowledge.command("search", epilog=EXAMPLES)
@click.argument("name")
@click.argument("question")
@click.option("-k", "count", type=click.IntRange(1, 20), help="How many passages.")
@tenant_command
def search(api: Api, show: Show, name: str, question: str, count: int | None) -> None:
    """Search the documents of a knowledge base."""
    uri = name if name.startswith("resource://") else f"resource://knowledge/{name}"
    hits = api.call_model("resource.query", uri, q=question, k=count)
    for problem in hits.get("problems") or ():
        _note(f"{plain(problem['document'])}: {plain(problem['problem'])}")
    show.items(iter(hits["passages"]), COLUMNS, none="Nothing found.")


@knowledge.command("open", epilog=EXAMPLES)
@click.argument("cite", metavar="CITATION")
@tenant_command
def open_citation(api: Api, show: Show, cite: str) -> None:
    """Show exactly the characters that a citation names."""
    show.record(api.call("resource.passage", cite=cite), DETAILS)


def _has_collection(api: Api, name: str) -> bool:
    try:
        api.call("collection.get", name)
    except RequestFailed as error:
        if error.code != NotFound.code:
            raise
        return False
    return True


def _collect(api: Api, name: str, files: dict[str, Path]) -> str:
    """Brings a collection up to date, and returns its reference. Files that it has with the same bytes are not sent."""
    if not _has_collection(api, name):
        api.call("collection.create", name=name)
    there = {one["document"]: one.get("digest") for one in api.items("collection.documents", name)}
    sent = 0
    for document, path in files.items():
        with path.open("rb") as file:
            if there.get(document) == f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}":
                continue
            file.seek(0)
            api.upload(file, "collection.put_document", name, document, title=path.stem)
        sent += 1
        _note(f"{plain(document)} ({sent:,} sent)")
    _note(f"{sent:,} of {len(files):,} documents were sent; the others are there already")
    return f"{name}@{api.call('collection.get', name)['revision']}"


def _find(folder: Path) -> tuple[dict[str, Path], list[Path]]:
    """Returns the documents below a folder by their ids, and the files that are none. Hidden ones are left alone."""
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    documents: dict[str, Path] = {}
    skipped: list[Path] = []
    for path in files[:FILES_MAX]:
        relative = path.relative_to(folder.parent if folder.is_file() else folder)
        if any(part.startswith(".") for part in relative.parts):
            continue
        if _ending(path) in ENDINGS:
            documents[_id(relative)] = path
        else:
            skipped.append(relative)
    return documents, skipped


def _ending(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def _id(relative: Path) -> str:
    return relative.as_posix().replace(" ", "_").replace("#", "_")[-200:]


def _content(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    if (ending := _ending(path)) in TEXTS:
        try:
            return {"text": data.decode("utf-8"), "mime": TEXTS[ending]}
        except UnicodeDecodeError:
            pass
    return {"file": {"data": base64.b64encode(data).decode()}}


def _note(text: str) -> None:
    click.echo(text, err=True)


def _beginning(item: Item) -> str:
    return " ".join(str(item["text"]).split())[:80]
