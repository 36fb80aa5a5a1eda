"""Folders of resources at a server: `avm resource push` and `pull`.

A folder is compared with what the server has by digest, so what is unchanged is not sent. What a folder refers to is pushed
before it. Nothing is sent before every folder is read, compared and found to be in order, with everything that it refers to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Literal

import click

from agentvm.cli.api import Api, RequestFailed, Unreachable
from agentvm.cli.table import Item
from agentvm.errors import AgentVMError
from agentvm.errors.resource import ResourceExists, ResourceNotFound
from agentvm.model.resource import ResourceId, ResourceUri, ResourceVersion, VersionId, parse_uri, select
from agentvm.model.semver import Bump, parse_version
from agentvm.resources.archive import read_archive
from agentvm.resources.folder import (
    MANIFEST,
    FolderItem,
    differing,
    find_folders,
    item_of,
    read_folder,
    set_version,
    write_folder,
)

Outcome = Literal["created", "revised", "described", "unchanged"]
_BATCH = 100
"""References that the server is asked about at a time."""
_ABOUT = ("description", "tags", "visibility")


@dataclass(frozen=True, slots=True)
class Folder:
    """A resource on this machine."""

    path: Path
    item: FolderItem
    digest: str

    @property
    def uri(self) -> str:
        return str(ResourceUri(type=self.item.type, name=self.item.name))


@dataclass(frozen=True, slots=True)
class There:
    """The same resource at the server."""

    versions: Mapping[str, str]
    """Digests by version."""
    about: Item
    latest: str | None


def read_all(root: Path) -> list[Folder]:
    """Every folder below, each after those it refers to."""
    folders: dict[str, Folder] = {}
    needs: dict[str, list[str]] = {}
    wrong: list[str] = []
    for path in find_folders(root):
        try:
            folder, uris = _read_one(path)
        except click.ClickException as error:
            wrong.append(error.message)
            continue
        if folder.uri in folders:
            wrong.append(f"{path} and {folders[folder.uri].path} are both {folder.uri}; one of them must go.")
        folders[folder.uri] = folder
        needs[folder.uri] = [str(ResourceUri(type=uri.type, name=uri.name)) for uri in uris if uri.owner is None]
    _refuse(wrong)
    if not folders:
        raise click.ClickException(f"There is no {MANIFEST} in {root} or below it.")
    graph = {uri: [one for one in others if one in folders] for uri, others in needs.items()}
    try:
        return [folders[uri] for uri in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise click.ClickException(f"These refer to each other in a circle: {' -> '.join(error.args[1])}") from None


def push_all(api: Api, folders: list[Folder], bump: Bump | None, *, dry_run: bool) -> Iterator[Item]:
    """What becomes of each, as it becomes so."""
    planned, wrong = [], []
    for folder in folders:
        try:
            planned.append((folder, *_Push(api, folder, bump, dry_run=True).run()))
        except click.ClickException as error:
            if isinstance(error, Unreachable):
                raise
            wrong.append(error.message)
    # Of what is wrong itself it is not known what it would be for the others.
    _refuse(wrong or list(_unmet(api, planned)))
    for folder, outcome, version in planned:
        pushed = _Push(api, folder, bump, dry_run=dry_run)
        if not dry_run:
            outcome, version = pushed.run()
        item: Item = {"uri": f"{folder.uri}@{version}", "outcome": outcome, "folder": str(folder.path), "digest": folder.digest}
        yield item | ({"warnings": pushed.warnings} if pushed.warnings else {})


def _read_one(path: Path) -> tuple[Folder, list[ResourceUri]]:
    try:
        item = read_folder(path)
    except AgentVMError as error:
        raise click.ClickException(str(error)) from None
    try:
        return Folder(path, item, item.digest()), [parse_uri(uri) for uri in item.references().values()]
    except AgentVMError as error:
        raise click.ClickException(f"{path}: {error}") from None


def _refuse(wrong: list[str]) -> None:
    if wrong:
        raise click.ClickException("\n".join(wrong))


def _unmet(api: Api, planned: Sequence[tuple[Folder, Outcome, str]]) -> Iterator[str]:
    """The references that neither what is pushed nor what the server has will answer."""
    made = {folder.uri: _as_version(version, folder.digest) for folder, _, version in planned}
    asked: list[tuple[Folder, str]] = []
    for folder, outcome, _ in planned:
        if outcome in ("created", "revised"):
            asked += [(folder, uri) for uri in folder.item.references().values() if not _is_met(parse_uri(uri), made)]
    for start in range(0, len(asked), _BATCH):
        some = asked[start : start + _BATCH]
        found = api.post("resources", "resolve", body={"uris": [uri for _, uri in some], "expand": "none"})
        for (folder, _), item in zip(some, found["items"], strict=True):
            if error := item.get("error"):
                yield f"{folder.path}: {error['message']}"


def _is_met(uri: ResourceUri, made: Mapping[str, ResourceVersion]) -> bool:
    found = made.get(str(ResourceUri(type=uri.type, name=uri.name)))
    return found is not None and select([found], {}, uri.selector) is not None


def _as_version(version: str, digest: str) -> ResourceVersion:
    return ResourceVersion(
        version_id=VersionId(""),
        resource_id=ResourceId(""),
        version=version,
        digest=digest,
        size=0,
        created_by="",
        created_at=0,
    )


def pull_one(api: Api, uri: ResourceUri, folder: Path | None, *, force: bool = False) -> tuple[Path, FolderItem]:
    """Writes a resource into a folder. One that holds another resource, or other files without `force`, is left alone."""
    named = str(ResourceUri(type=uri.type, owner=uri.owner, name=uri.name))
    data = api.get_bytes("resources", named, "export", version=uri.selector, deps="false")
    item = item_of(read_archive(data))
    if (item.type, item.name) != (uri.type, uri.name):
        # The name becomes that of a folder, so what a server says it is must be what was asked for.
        raise click.ClickException(f"The server sent another resource than {named}; nothing was written.")
    folder = Path(item.name) if folder is None else folder
    if (folder / MANIFEST).exists():
        there = read_folder(folder)
        if (there.type, there.name) != (item.type, item.name):
            raise click.ClickException(f"{folder} holds {there.type}/{there.name} already; choose another folder.")
    if not force and (changed := differing(folder, item)):
        raise click.ClickException(
            f"Nothing was written: these differ from {named}@{item.version} and would be overwritten: "
            f"{', '.join(str(folder / name) for name in changed)}. Keep what you need of them, then use --force."
        )
    write_folder(folder, item)
    return folder, item


@dataclass(frozen=True, slots=True)
class _Push:
    """One folder on its way to the server."""

    api: Api
    folder: Folder
    bump: Bump | None
    dry_run: bool
    warnings: list[str] = field(default_factory=list)
    """What the server does not act upon of it."""

    def run(self) -> tuple[Outcome, str]:
        try:
            return self._run()
        except RequestFailed as error:
            if error.code is None:
                raise
            raise RequestFailed(f"{self.folder.path}: {error.message}", error.code) from None

    def _run(self) -> tuple[Outcome, str]:
        there = self._find()
        if there is None:
            return "created", self._register()
        version = self.folder.item.version
        if version is None:
            version = there.latest
            if version is None or there.versions[version] != self.folder.digest:
                return "revised", self._revise({"bump": self.bump or "patch"}, there)
        elif version not in there.versions:
            return "revised", self._revise({"version": version}, there)
        if there.versions[version] == self.folder.digest:
            return self._describe(there), version
        if self.bump is None:
            raise click.ClickException(
                f"{self.folder.path}: {self.folder.uri}@{version} is published with other content, and a version never "
                "changes. Give it another version, or let --bump patch, minor or major do so."
            )
        made = self._revise({"bump": self.bump}, there)
        if not self.dry_run:
            set_version(self.folder.path, made)
        return "revised", made

    def _find(self) -> There | None:
        """None when there is none of one's own: what ships with the server, or is others', is found by the same name."""
        try:
            found = self.api.get("resources", self.folder.uri)
        except RequestFailed as error:
            if error.code != ResourceNotFound.code:
                raise
            return None
        if parse_uri(found["resource"]["uri"]).owner is not None:
            return None
        return self._there(found["resource"])

    def _there(self, about: Item) -> There:
        found = self.api.get("resources", self.folder.uri, "versions")
        return There({one["version"]: one["digest"] for one in found["items"]}, about, about.get("latest"))

    def _register(self) -> str:
        item = self.folder.item
        if self.dry_run:
            return item.version or "1.0.0"
        said = {name: getattr(item, name) for name in ("version", *_ABOUT, "schema", "dependencies")}
        body: Item = {"type": item.type, "name": item.name, "content": item.content}
        body |= {name: value for name, value in said.items() if value is not None}
        try:
            return self._noted(self.api.post("resources", body=body))
        except RequestFailed as error:
            if error.code != ResourceExists.code:
                raise
            # It is there, but every version of it is withdrawn.
            return self._revise({"bump": self.bump or "patch"} if item.version is None else {"version": item.version})

    def _revise(self, numbering: Item, there: There | None = None) -> str:
        item = self.folder.item
        if self.dry_run and there is not None:
            highest = max(map(parse_version, there.versions))
            return str(numbering.get("version") or highest.bumped(numbering["bump"]))
        body: Item = {"content": item.content, "schema": item.schema, "dependencies": item.dependencies or {}, **numbering}
        body |= {name: value for name in _ABOUT if (value := getattr(item, name)) is not None}
        return self._noted(self.api.put("resources", self.folder.uri, body=body))

    def _noted(self, answer: Item) -> str:
        """The version that was made; what the server warns of is kept."""
        self.warnings.extend(map(str, answer.get("warnings", ())))
        return str(answer["version"])

    def _describe(self, there: There) -> Outcome:
        """Brings what is no part of a version."""
        item = self.folder.item
        changed: Item = {}
        if item.description is not None and item.description != there.about.get("description", ""):
            changed["description"] = item.description
        if item.tags is not None and list(item.tags) != there.about.get("tags", []):
            changed["tags"] = item.tags
        if item.visibility is not None and item.visibility != there.about["visibility"]:
            changed["visibility"] = item.visibility
        if not changed:
            return "unchanged"
        if not self.dry_run:
            self.api.put("resources", self.folder.uri, body=changed)
        return "described"
