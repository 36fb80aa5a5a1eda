"""Knowledge files — the files of a folder as documents of a knowledge base."""

import base64
from pathlib import Path

import click

from agentvm.cli.table import plain
from agentvm.model.collection import DOCUMENT_MAX_BYTES

FILES_MAX = 10_000
DOCUMENT_NAME_MAX = 200
TEXTS = {"txt": "text/plain", "md": "text/markdown", "markdown": "text/markdown"}
ENDINGS = frozenset({*TEXTS, "csv", "tsv", "json", "html", "htm", "eml", "log", "pdf", "docx", "pptx", "xlsx"})


def find_documents(folder: Path) -> dict[str, Path]:
    """Returns the documents below a folder by their ids, and names the files that cannot be added. Hidden files are skipped."""
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    root = folder.parent if folder.is_file() else folder
    home = folder.resolve()
    documents: dict[str, Path] = {}
    for path in files:
        relative = path.relative_to(root)
        if any(part.startswith(".") for part in relative.parts):
            continue
        document = _id(relative)
        why = _left_out(path, document, documents)
        if not path.resolve().is_relative_to(home):
            # Whoever has made the folder could have somebody else publish a file of theirs.
            why = "it is a link out of the folder"
        if why:
            note(f"{plain(relative)} is left out: {why}")
        else:
            documents[document] = path
    return documents


def _left_out(path: Path, document: str, documents: dict[str, Path]) -> str | None:
    """Returns why a file is no document of its own; None for one that is."""
    if _ending(path) not in ENDINGS:
        return f"it is none of {', '.join(sorted(ENDINGS))}"
    if not (size := path.stat().st_size):
        return "it is empty"
    if size > DOCUMENT_MAX_BYTES:
        return f"it has {size:,} bytes; a document has at most {DOCUMENT_MAX_BYTES:,}"
    if document in documents:
        return f"its name is as that of {plain(documents[document].name)} once spaces and # are replaced; rename one of them"
    return f"a knowledge base has at most {FILES_MAX:,} documents" if len(documents) == FILES_MAX else None


def _ending(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def _id(relative: Path) -> str:
    return printable(relative.as_posix()).replace(" ", "_").replace("#", "_")[-DOCUMENT_NAME_MAX:]


def printable(name: str) -> str:
    """Returns a name with characters of which each can be printed."""
    return "".join(letter if letter.isprintable() else "_" for letter in name)


def content_of(path: Path) -> dict[str, object]:
    """Returns the text of a file, or its bytes."""
    data = path.read_bytes()
    if (ending := _ending(path)) in TEXTS:
        try:
            return {"text": data.decode("utf-8"), "mime": TEXTS[ending]}
        except UnicodeDecodeError:
            pass
    return {"file": {"data": base64.b64encode(data).decode()}}


def note(text: str) -> None:
    """Prints a line for people: the output is for programs, too."""
    click.echo(text, err=True)
