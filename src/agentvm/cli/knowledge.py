"""avm knowledge — documents that agents look things up in: publish a folder, search it, open a citation."""

import hashlib
import re
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import click

from agentvm.cli import program
from agentvm.cli.api import Api, RequestFailed, confirm, tenant_command, yes_option
from agentvm.cli.knowledge_files import ENDINGS, FILES_MAX, content_of, find_documents, note, printable
from agentvm.cli.options import keep_name
from agentvm.cli.table import Columns, Item, Show, lines, moment, plain
from agentvm.errors import InvalidInput, NotFound
from agentvm.errors.bounds import InputTooLarge
from agentvm.errors.resource import ResourceNotFound
from agentvm.knowledge.chunk import OVERLAP_CHARACTERS, SIZE_CHARACTERS

EXAMPLES = """\b
Examples:
  avm knowledge add ./company-docs                    every document below a folder, named as the folder is
  avm knowledge add company-docs ./docs
  avm knowledge add company-docs ./docs --chunk 600
  avm knowledge search company-docs "How long can I return things?"
  avm knowledge open "resource://knowledge/company-docs@1.0.0#returns.md:0-120"
  avm knowledge documents company-docs                of a collection, with their progress
  avm knowledge delete company-docs old/prices.xlsx   from every revision
  avm knowledge forget company-docs                   all revisions but the newest
"""

NAME_MAX = 64
NOTED_MAX = 10
"""Documents that are named one by one."""
SEARCH_NOTED_MAX = 3
"""Documents that are named with each search because it cannot find them."""
INLINE_MAX_BYTES = 2 * 1024 * 1024
"""Documents of more bytes together go into a collection: a version holds 4 MiB, and files grow by a third in JSON."""

_REFUSED = frozenset({InvalidInput.code, InputTooLarge.code, "request_entity_too_large"})
"""Reasons that are of one document."""

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
COLLECTION_DETAILS: Columns = {"Collection": "collectionId", "Revision": "revision", "Documents": "documents", "Bytes": "bytes"}
DETAILS: Columns = {"Document": "document", "Title": "title", "From": "start", "To": "end"}


@click.group(epilog=EXAMPLES)
def knowledge() -> None:
    """Publish and search documents for agents."""


@knowledge.command("add", epilog=EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="[NAME] FOLDER")
@click.option("--chunk", type=click.IntRange(50, 100_000), help="Characters of a passage (default: 800).")
@click.option("--overlap", type=click.IntRange(0, 10_000), help="Characters two passages share (default: 100).")
@click.option("--inject", type=click.IntRange(0, 20), help="Passages added to the prompt of each question.")
@click.option("--mode", type=click.Choice(["words", "vectors", "both"]), help="What a search compares (default: words).")
@click.option("--collection", "collected", is_flag=True, help="Use a collection, also for few documents.")
@tenant_command
def add(
    api: Api,
    show: Show,
    /,
    names: tuple[str, ...],
    chunk: int | None,
    overlap: int | None,
    inject: int | None,
    mode: str | None,
    *,
    collected: bool,
) -> None:
    """Publish the documents of FOLDER as the knowledge base NAME.

    FOLDER may be one file. Without NAME it is that of the folder. A knowledge base that is already there gets its next
    version if anything has changed, with the options that it has unless others are given. More than 2 MiB go into a collection
    of the same name; files that it has already are not sent again. Files that cannot be taken are named, the others published.
    """
    name, folder = _named(names)
    files = find_documents(folder)
    if not files:
        raise click.ClickException(
            f"{plain(folder)} has no documents that can be taken; these can be read: {', '.join(sorted(ENDINGS))}"
        )
    large = sum(path.stat().st_size for path in files.values()) > INLINE_MAX_BYTES
    if collected or large or _has_collection(api, name):
        content: dict[str, object] = {"collection": _collect(api, name, files)}
        if folder.is_dir():
            _note_others(api, name, files)
    else:
        content = {"documents": [{"id": key, "title": printable(path.stem), **content_of(path)} for key, path in files.items()]}
    newest = _newest(api, name)
    content |= {} if newest is None else _options_of(newest)
    _set_options(content, chunk, overlap, inject, mode)
    reply = _publish(api, name, content, newest)
    shown: Columns = {"Knowledge": "uri", "Documents": lambda item: str(len(files)), "Digest": "digest"}
    if "collection" in content:
        shown = {**shown, "Collection": lambda item: str(content["collection"])}
    show.record(reply, shown)
    if newest is not None and reply["digest"] == newest["digest"]:
        note("Nothing has changed: this is the version that was there")
    elif "collection" in content:
        note(f"They are being read; their state: {program()} knowledge documents {plain(name)}")
    else:
        _read_now(api, reply["uri"])


@knowledge.command("collections")
@tenant_command
def list_collections(api: Api, show: Show) -> None:
    """List the collections of documents."""
    show.items(api.items("collection.list"), COLLECTION_COLUMNS, none="No collections yet.")


@knowledge.command("documents")
@click.argument("name")
@tenant_command
def list_documents(api: Api, show: Show, name: str) -> None:
    """List the documents of a knowledge base or of a collection.

    Those of a collection are shown with their indexing status.
    """
    show.items(iter(_documents(api, name)), DOCUMENT_COLUMNS, none="No documents yet.")


@knowledge.command("delete", epilog=EXAMPLES)
@click.argument("collection")
@click.argument("document", required=False)
@yes_option
@tenant_command
def delete(api: Api, show: Show, collection: str, document: str | None, yes: bool) -> None:
    """Delete a document of a collection, or the collection."""
    named = f"the collection {collection}" if document is None else f"{document} from every revision of {collection}"
    confirm(f"Delete {plain(named)}?", yes=yes)
    if document is None:
        api.call("collection.delete", collection)
    else:
        api.call("collection.delete_document", collection, document)
    show.done(f"Deleted {plain(named)}.", {"deleted": named})


keep_name(knowledge, "remove", delete)


@knowledge.command("forget", epilog=EXAMPLES)
@click.argument("collection")
@click.option("--before", type=click.IntRange(1), help="Revision that is kept with all later ones (default: the newest).")
@yes_option
@tenant_command
def forget(api: Api, show: Show, collection: str, before: int | None, yes: bool) -> None:
    """Delete earlier revisions of a collection.

    The documents that only they contain are deleted, too. Knowledge bases that refer to one of them can no longer be searched.
    """
    before = before or api.call("collection.get", collection)["revision"]
    confirm(f"Forget the revisions of {plain(collection)} before {before}?", yes=yes)
    show.record(api.call("collection.forget", collection, before=before), COLLECTION_DETAILS)


def _documents(api: Api, name: str) -> list[Item]:
    """Returns the documents of a collection; if there is none of that name, those of the knowledge base."""
    try:
        return list(api.items("collection.documents", name))
    except RequestFailed as error:
        if error.code != NotFound.code:
            raise
        missing = error
    try:
        manifest = api.call("resource.resolve_uri", uri=_uri(name))["rendered"]
    except RequestFailed as error:
        raise missing if error.code == ResourceNotFound.code else error from None
    collection, _, revision = str(manifest.get("collection", "")).partition("@")
    if collection:
        return list(api.items("collection.documents", collection, revision=int(revision)))
    return [{**document, "document": document["id"]} for document in manifest["documents"]]


def _uri(name: str) -> str:
    return name if name.startswith("resource://") else f"resource://knowledge/{name}"


@knowledge.command("search", epilog=EXAMPLES)
@click.argument("name")
@click.argument("question")
@click.option("-k", "count", type=click.IntRange(1, 20), help="Maximum number of passages.")
@tenant_command
def search(api: Api, show: Show, name: str, question: str, count: int | None) -> None:
    """Search the documents of a knowledge base."""
    hits = api.call_model("resource.query", _uri(name), q=question, k=count)
    show.items(iter(hits["passages"]), COLUMNS, none="Nothing found.")
    _note_problems(hits, name)


@knowledge.command("open", epilog=EXAMPLES)
@click.argument("cite", metavar="CITATION")
@tenant_command
def open_citation(api: Api, show: Show, cite: str) -> None:
    """Print the text that a citation refers to."""
    passage = api.call("resource.passage", cite=cite)
    show.record(passage, DETAILS)
    if not show.as_json:
        click.echo(f"\n{lines(str(passage['text']))}")


def _named(names: tuple[str, ...]) -> tuple[str, Path]:
    """Returns the name of a knowledge base and the folder of its documents."""
    if len(names) > 2:
        raise click.UsageError("Give one name and one folder.")
    folder = Path(names[-1])
    if not folder.exists():
        hint = " Give a folder after the name." if len(names) == 1 else ""
        raise click.UsageError(f"{plain(folder)} is not there.{hint}")
    return names[0] if len(names) == 2 else _name_of(folder), folder


def _name_of(folder: Path) -> str:
    """Returns the name of a knowledge base after a folder or a file."""
    path = folder.resolve()
    name = re.sub("[^a-z0-9]+", "-", (path.stem if path.is_file() else path.name).lower()).strip("-")
    if not name:
        raise click.UsageError(f"No knowledge base can be named as {plain(folder)} is: give a name before it.")
    return name[:NAME_MAX].rstrip("-")


def _has_collection(api: Api, name: str) -> bool:
    try:
        api.call("collection.get", name)
    except RequestFailed as error:
        if error.code != NotFound.code:
            raise
        return False
    return True


def _newest(api: Api, name: str) -> Item | None:
    """Returns the newest version of a knowledge base, if there is one."""
    try:
        version: Item = api.call("resource.resolve_uri", uri=_uri(name), expand="content")
    except RequestFailed as error:
        if error.code != ResourceNotFound.code:
            raise
        return None
    return version


def _options_of(version: Item) -> dict[str, Any]:
    """Returns how a version of a knowledge base is cut, searched and used."""
    content = version["content"]
    return {key: content[key] for key in ("chunking", "retrieval", "instructions") if content.get(key) is not None}


def _publish(api: Api, name: str, content: dict[str, object], newest: Item | None) -> Item:
    """Publishes a version, unless the newest one has the same content; returns it."""
    if newest is None:
        return dict(api.call("resource.register", type="knowledge", name=name, content=content))
    update = partial(api.call, "resource.update", _uri(name), content=content, bump="minor")
    if update(dry_run=True)["digest"] == newest["digest"]:
        return {"uri": newest["resolved"], "version": newest["resolved"].partition("@")[2], "digest": newest["digest"]}
    return dict(update())


def _set_options(content: dict[str, Any], chunk: int | None, overlap: int | None, inject: int | None, mode: str | None) -> None:
    """Changes how a knowledge base is cut and searched; without an option as it is."""
    if chunk is not None or overlap is not None:
        chunking = content.get("chunking") or {"size": SIZE_CHARACTERS}
        size = chunking["size"] if chunk is None else chunk
        shared = chunking.get("overlap", OVERLAP_CHARACTERS) if overlap is None else overlap
        content["chunking"] = {"size": size, "overlap": min(shared, size - 1)}
    retrieval = {key: value for key, value in {"inject": inject, "mode": mode}.items() if value is not None}
    if retrieval:
        content["retrieval"] = {**(content.get("retrieval") or {}), **retrieval}


def _collect(api: Api, name: str, files: dict[str, Path]) -> str:
    """Brings a collection up to date, and returns its reference. Files that it has with the same bytes are not sent."""
    if not _has_collection(api, name):
        api.call("collection.create", name=name)
    there = {document["document"]: document.get("digest") for document in api.items("collection.documents", name)}
    sent, refused = 0, list[str]()
    for document, path in files.items():
        with path.open("rb") as file:
            if there.get(document) == f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}":
                continue
            file.seek(0)
            try:
                api.upload(file, "collection.put_document", name, document, title=printable(path.stem))
            except RequestFailed as error:
                if error.code not in _REFUSED:
                    raise
                refused.append(document)
                note(f"{plain(document)} is left out: {error.message}")
                continue
        sent += 1
        note(f"{plain(document)} ({sent:,} sent)")
    for document in refused:
        del files[document]
    if not files:
        raise click.ClickException("No document was taken; the knowledge base stays as it is.")
    note(f"{sent:,} of {len(files):,} documents were sent; the others are there already")
    return f"{name}@{api.call('collection.get', name)['revision']}"


def _note_others(api: Api, name: str, files: Collection[str]) -> None:
    """Names documents of a collection that are not in the folder: agents continue to find them."""
    others = [
        plain(document["document"]) for document in api.items("collection.documents", name) if document["document"] not in files
    ]
    if others:
        more = f" and {len(others) - NOTED_MAX:,} more" if len(others) > NOTED_MAX else ""
        note(f"Not in the folder, and still in the collection: {', '.join(others[:NOTED_MAX])}{more}")
        note(f"To delete one from every revision: {program()} knowledge delete {plain(name)} DOCUMENT")


def _read_now(api: Api, uri: str) -> None:
    """Searches once, which reads the documents, to name those that cannot be read. It is published in any case."""
    try:
        _note_problems(api.call_model("resource.query", uri, q=uri, k=1), uri, at_most=FILES_MAX)
    except RequestFailed as error:
        note(f"It is published, and could not be searched yet: {error.message}")


def _note_problems(hits: Item, name: str, at_most: int = SEARCH_NOTED_MAX) -> None:
    """Names documents that a search could not read."""
    problems = hits.get("problems") or ()
    for problem in problems[:at_most]:
        note(f"Not searched: {plain(problem['document'])}: {plain(problem['problem'])}")
    if len(problems) > at_most:
        note(f"Not searched: {len(problems) - at_most:,} documents more; see: {program()} knowledge documents {plain(name)}")


def _beginning(item: Item) -> str:
    return " ".join(str(item["text"]).split())[:80]
