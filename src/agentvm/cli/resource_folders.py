"""Resource folders — `avm resource push` and `pull`.

Folders and published versions are compared by digest, so unchanged ones are not sent. A folder is pushed after the folders it
refers to. Nothing is sent until every folder and all of its references have been validated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Literal

import click
import msgspec

from agentvm.cli.api import Api, RequestFailed, Unreachable
from agentvm.cli.table import Item
from agentvm.errors import AgentVMError
from agentvm.errors.resource import ResourceExists, ResourceNotFound
from agentvm.model.resource import ResourceId, ResourceUri, ResourceVersion, VersionId, parse_uri, select
from agentvm.model.semver import Bump, parse_version
from agentvm.operations.http_face import NULL
from agentvm.resources.archive import read_archive
from agentvm.resources.folder import (
    MANIFEST,
    FolderItem,
    differing,
    find_folders,
    is_skill,
    item_of,
    read_folder,
    set_version,
    write_folder,
)
from agentvm.resources.skill import SKILL_FILE
from agentvm.resources.tool_set import names_source

Outcome = Literal["created", "revised", "described", "unchanged"]
_REFERENCES_MAX = 100
"""References per resolve request."""
_METADATA = ("description", "tags", "visibility")


@dataclass(frozen=True, slots=True)
class Folder:
    """A resource in a local folder."""

    path: Path
    item: FolderItem
    digest: str

    @property
    def uri(self) -> str:
        return str(ResourceUri(type=self.item.type, name=self.item.name))


@dataclass(frozen=True, slots=True)
class RemoteResource:
    """A resource on the server."""

    versions: Mapping[str, str]
    """Digests by version."""
    metadata: Item
    latest: str | None


def read_all(root: Path) -> list[Folder]:
    """All folders below `root`, each after the folders it refers to."""
    folders: dict[str, Folder] = {}
    needs: dict[str, list[str]] = {}
    problems: list[str] = []
    for path in find_folders(root):
        try:
            folder, uris = _read_one(path)
        except click.ClickException as error:
            problems.append(error.message)
            continue
        if folder.uri in folders:
            problems.append(f"{path} and {folders[folder.uri].path} are both {folder.uri}; remove one of them.")
        folders[folder.uri] = folder
        needs[folder.uri] = [str(ResourceUri(type=uri.type, name=uri.name)) for uri in uris if uri.owner is None]
    _refuse(problems)
    if not folders:
        raise click.ClickException(f"No {MANIFEST} or {SKILL_FILE} found in {root} or below.")
    graph = {uri: [other for other in others if other in folders] for uri, others in needs.items()}
    try:
        return [folders[uri] for uri in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise click.ClickException(f"Circular references: {' -> '.join(error.args[1])}") from None


def push_all(api: Api, folders: list[Folder], bump: Bump | None, *, dry_run: bool) -> Iterator[Item]:
    """Pushes the folders in order and yields the outcome of each."""
    planned, problems = [], []
    for folder in folders:
        try:
            planned.append((folder, *_Push(api, folder, bump, dry_run=True).run()))
        except click.ClickException as error:
            if isinstance(error, Unreachable):
                raise
            problems.append(error.message)
    # References to an invalid folder cannot be checked.
    _refuse(problems or list(_unmet(api, planned)))
    for folder, outcome, version in planned:
        push = _Push(api, folder, bump, dry_run=dry_run)
        if not dry_run:
            outcome, version = push.run()
        item: Item = {"uri": f"{folder.uri}@{version}", "outcome": outcome, "folder": str(folder.path), "digest": folder.digest}
        yield item | ({"warnings": push.warnings} if push.warnings else {})


def _read_one(path: Path) -> tuple[Folder, list[ResourceUri]]:
    try:
        item = read_folder(path)
    except AgentVMError as error:
        raise click.ClickException(str(error)) from None
    try:
        return Folder(path, item, item.digest()), [parse_uri(uri) for uri in item.references().values()]
    except AgentVMError as error:
        raise click.ClickException(f"{path}: {error}") from None


def _refuse(problems: list[str]) -> None:
    if problems:
        raise click.ClickException("\n".join(problems))


def _unmet(api: Api, planned: Sequence[tuple[Folder, Outcome, str]]) -> Iterator[str]:
    """Error messages for references that neither the pushed folders nor the server resolve."""
    versions = {folder.uri: _as_version(version, folder.digest) for folder, _, version in planned}
    unresolved: list[tuple[Folder, str]] = []
    for folder, outcome, _ in planned:
        if outcome in ("created", "revised"):
            unresolved += [(folder, uri) for uri in folder.item.references().values() if not _is_met(parse_uri(uri), versions)]
    for start in range(0, len(unresolved), _REFERENCES_MAX):
        batch = unresolved[start : start + _REFERENCES_MAX]
        response = api.call("resource.resolve_many", uris=[uri for _, uri in batch], expand="none")
        for (folder, _), item in zip(batch, response["items"], strict=True):
            if error := item.get("error"):
                yield f"{folder.path}: {error['message']}"


def _is_met(uri: ResourceUri, versions: Mapping[str, ResourceVersion]) -> bool:
    version = versions.get(str(ResourceUri(type=uri.type, name=uri.name)))
    return version is not None and select([version], {}, uri.selector) is not None


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
    """Writes a resource into a folder. A folder with another resource, or with changed files without `force`, is refused."""
    named = str(ResourceUri(type=uri.type, owner=uri.owner, name=uri.name))
    data = api.call_bytes("resource.export", named, version=uri.selector, deps=False, documents=False)
    item = item_of(read_archive(data))
    if (item.type, item.name) != (uri.type, uri.name):
        # The name becomes a path, so it must be the requested one.
        raise click.ClickException(f"The server sent another resource than {named}; nothing was written.")
    folder = Path(item.name) if folder is None else folder
    if (folder / MANIFEST).exists() or is_skill(folder):
        local = read_folder(folder)
        if (local.type, local.name) != (item.type, item.name):
            raise click.ClickException(f"{folder} already contains {local.type}/{local.name}; choose another folder.")
    if not force and (changed := differing(folder, item)):
        raise click.ClickException(
            f"Nothing was written. These files differ from {named}@{item.version}: "
            f"{', '.join(str(folder / name) for name in changed)}. To overwrite them, use --force."
        )
    write_folder(folder, item)
    return folder, item


@dataclass(frozen=True, slots=True)
class _Push:
    """The push of one folder."""

    api: Api
    folder: Folder
    bump: Bump | None
    dry_run: bool
    warnings: list[str] = field(default_factory=list)
    """Warnings of the server about the resource."""

    def run(self) -> tuple[Outcome, str]:
        try:
            return self._run()
        except RequestFailed as error:
            if error.code is None:
                raise
            raise RequestFailed(f"{self.folder.path}: {error.message}", error.code) from None

    def _run(self) -> tuple[Outcome, str]:
        remote = self._find()
        if remote is None:
            return "created", self._register()
        version = self.folder.item.version
        if version is None:
            version = remote.latest
            if version is None or not self._is_published(remote, version):
                return "revised", self._revise({"bump": self.bump or "patch"}, remote)
        elif version not in remote.versions:
            return "revised", self._revise({"version": version}, remote)
        if self._is_published(remote, version):
            return self._describe(remote), version
        if self.bump is None:
            raise click.ClickException(
                f"{self.folder.path}: {self.folder.uri}@{version} is published with other content. Change the version, "
                "or use --bump patch, minor or major."
            )
        version = self._revise({"bump": self.bump}, remote)
        if not self.dry_run:
            set_version(self.folder.path, version)
        return "revised", version

    def _is_published(self, remote: RemoteResource, version: str) -> bool:
        """Whether a version has the content of the folder. A server adds the tools of a set to it."""
        item = self.folder.item
        if remote.versions[version] == self.folder.digest or not names_source(item.content):
            return remote.versions[version] == self.folder.digest
        content = self.api.call("resource.get", self.folder.uri, version=version)["content"]
        content.pop("frozen", None)
        return msgspec.structs.replace(item, content=content).digest() == self.folder.digest

    def _find(self) -> RemoteResource | None:
        """The tenant's own resource of this name, or None. Resources of the system and of other tenants do not count."""
        try:
            resource = self.api.call("resource.get", self.folder.uri)["resource"]
        except RequestFailed as error:
            if error.code != ResourceNotFound.code:
                raise
            return None
        if parse_uri(resource["uri"]).owner is not None:
            return None
        versions = self.api.call("resource.versions", self.folder.uri)["items"]
        return RemoteResource({item["version"]: item["digest"] for item in versions}, resource, resource.get("latest"))

    def _register(self) -> str:
        item = self.folder.item
        if self.dry_run:
            return item.version or "1.0.0"
        names = ("type", "name", "content", "version", *_METADATA, "schema", "dependencies")
        try:
            return self._version_of(self.api.call("resource.register", **{name: getattr(item, name) for name in names}))
        except RequestFailed as error:
            if error.code != ResourceExists.code:
                raise
            # The resource exists, but all of its versions are yanked.
            return self._revise({"bump": self.bump or "patch"} if item.version is None else {"version": item.version})

    def _revise(self, numbering: Item, remote: RemoteResource | None = None) -> str:
        item = self.folder.item
        if self.dry_run and remote is not None:
            highest = max(map(parse_version, remote.versions))
            return str(numbering.get("version") or highest.bumped(numbering["bump"]))
        fields = {"content": item.content, "schema": item.schema or NULL, "dependencies": item.dependencies or {}, **numbering}
        fields |= {name: getattr(item, name) for name in _METADATA}
        return self._version_of(self.api.call("resource.update", self.folder.uri, **fields))

    def _version_of(self, response: Item) -> str:
        """The new version; warnings of the response are collected."""
        self.warnings.extend(map(str, response.get("warnings", ())))
        return str(response["version"])

    def _describe(self, remote: RemoteResource) -> Outcome:
        """Updates the metadata, which is not part of a version."""
        item = self.folder.item
        changed: Item = {}
        if item.description is not None and item.description != remote.metadata.get("description", ""):
            changed["description"] = item.description
        if item.tags is not None and list(item.tags) != remote.metadata.get("tags", []):
            changed["tags"] = item.tags
        if item.visibility is not None and item.visibility != remote.metadata["visibility"]:
            changed["visibility"] = item.visibility
        if not changed:
            return "unchanged"
        if not self.dry_run:
            self.api.call("resource.update", self.folder.uri, **changed)
        return "described"
