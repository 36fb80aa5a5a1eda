from typing import Any

import pytest
from tests.resources.archives import bundle, entry
from tests.resources.fixtures import open_world
from tests.resources.library import Library

from agentvm.errors.resource import ResourceInvalid, ResourceNotFound, ResourceTooLarge
from agentvm.model.resource import parse_uri
from agentvm.resources.bundle import export_bundle, import_bundle
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS

TEXT = "---\nname: pdf\ndescription: Reads PDF.\nallowed-tools: read_file\n---\n# Steps\n"
FILES: dict[str, Any] = {"scripts/read.py": "print(1)\n", "logo.png": {"data": "AAEC/w=="}}


def skill(name: str = "pdf", **files: Any) -> dict[str, Any]:
    text = TEXT.replace("name: pdf", f"name: {name}")
    return {"text": text, **({"files": files} if files else {})}


def test_a_skill_is_rendered_as_its_front_matter_and_the_list_of_its_files() -> None:
    library = Library()
    node = library.put("skills", "pdf", {"text": TEXT, "files": FILES})
    assert library.render(node) == {
        "name": "pdf",
        "description": "Reads PDF.",
        "allowedTools": ("read_file",),
        "files": [{"path": "logo.png", "size": 4}, {"path": "scripts/read.py", "size": 9}],
    }
    assert library.render(node, "scripts/read.py") == "print(1)\n"
    assert library.render(node, "SKILL.md") == TEXT
    with pytest.raises(ResourceInvalid, match="not text"):
        library.render(node, "logo.png")
    with pytest.raises(ResourceNotFound, match=r"scripts/read\.py"):
        library.render(node, "scripts/gone.py")


@pytest.mark.parametrize(
    "path",
    [
        *("../a", "a/../b", "/etc/passwd", "a//b", "a/", "./a", "", "a\\b", "a\0b", "a\nb", "C\\x", ".git/config", "a/.env"),
        *("__pycache__/a.pyc", "skill.md", "SKILL.MD", "resource.json", "x" * 201, " a", "/".join("a" * 33)),
    ],
)
def test_hostile_paths_are_refused(path: str) -> None:
    with pytest.raises(ResourceInvalid, match="files: "):
        accept(KINDS["skills"], skill(**{path: "x"}))


def test_files_that_a_disk_cannot_hold_together_are_refused() -> None:
    with pytest.raises(ResourceInvalid, match="case of letters"):
        accept(KINDS["skills"], skill(**{"a.txt": "x", "A.txt": "y"}))
    with pytest.raises(ResourceInvalid, match="a file and the folder"):
        accept(KINDS["skills"], skill(**{"a": "x", "a/b": "y"}))


def test_the_number_and_the_size_of_files_are_bounded() -> None:
    with pytest.raises(ResourceInvalid, match="may have 200"):
        accept(KINDS["skills"], skill(**{f"f{number}": "" for number in range(201)}))
    with pytest.raises(ResourceTooLarge, match="may have 4194304"):
        accept(KINDS["skills"], skill(**{f"f{number}": "x" * 1_000_000 for number in range(5)}))
    with pytest.raises(ResourceInvalid, match="text"):
        accept(KINDS["skills"], {"text": TEXT + "x" * 256 * 1024})


async def test_a_skill_has_the_name_of_its_resource_wherever_it_comes_from() -> None:
    async with open_world() as world:
        with pytest.raises(ResourceInvalid, match="'pdf', but the resource is named 'other'"):
            await world.add("skills", "other", skill())
        made = await world.add("skills", "pdf", {"text": TEXT, "files": FILES}, visibility="public", description="PDF")
        archive = await export_bundle(world.centre, world.acme.tenant_id, parse_uri("resource://skills/pdf"))
        (entry,) = await import_bundle(world.centre, world.bolt, archive)
        assert (entry.uri, entry.digest) == ("resource://skills/pdf@1.0.0", made.version.digest)
        assert (await world.resolve("resource://skills/acme/pdf", by=world.bolt)).digest == made.version.digest


async def test_a_skill_without_another_description_has_that_of_its_front_matter() -> None:
    async with open_world() as world:
        assert (await world.add("skills", "pdf", skill())).resource.description == "Reads PDF."
        other = await world.add("skills", "other", skill("other"), description="As its publisher says")
        assert other.resource.description == "As its publisher says"


async def test_an_agent_takes_its_skill_with_every_file_along() -> None:
    async with open_world() as world:
        made = await world.add("skills", "pdf", {"text": TEXT, "files": FILES})
        await world.add("agents", "reader", {"skills": ["resource://skills/pdf"]})
        archive = await export_bundle(world.centre, world.acme.tenant_id, parse_uri("resource://agents/reader"))
        await import_bundle(world.centre, world.bolt, archive)
        copy = await world.resolve("resource://skills/pdf", by=world.bolt)
        assert copy.digest == made.version.digest
        again = await export_bundle(world.centre, world.bolt.tenant_id, parse_uri("resource://agents/reader"))
        assert again == archive


@pytest.mark.parametrize("path", ["../../etc/cron.d/x", "/etc/passwd", "a/../../b", ".git/hooks/pre-commit", "SKILL.MD"])
async def test_an_archive_with_a_hostile_path_in_a_skill_is_refused_whole(path: str) -> None:
    async with open_world() as world:
        hostile = bundle(entry("sales"), entry("pdf", skill(**{path: "x"}), kind="skills"))
        with pytest.raises(ResourceInvalid, match="files: "):
            await import_bundle(world.centre, world.bolt, hostile)
        with pytest.raises(ResourceNotFound):
            await world.resolve("resource://prompts/sales", by=world.bolt)
