"""A resource as files: what is written is read again, and nothing outside of the folder is."""

import json
import os
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resources.fixtures import open_world
from tests.support.examples import examples

from agentvm.errors import InvalidInput
from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.resources import folder as folder_module
from agentvm.resources.folder import FolderItem, find_folders, read_folder, set_version, write_folder
from agentvm.resources.registry import NewVersion


def put(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body if isinstance(body, bytes) else body.encode())
    return folder


def prompt(**members: object) -> str:
    return json.dumps({"type": "prompts", "name": "sales", **members})


def data(body: bytes) -> dict[str, str]:
    return {"data": b64encode(body).decode()}


def test_a_prompt_is_a_file_and_a_few_words_about_it(tmp_path: Path) -> None:
    put(tmp_path, {"resource.json": prompt(tags=["销售"]), "prompt.md": "Sell.\nMore.\n"})
    item = read_folder(tmp_path)
    assert (item.type, item.name, item.tags, item.content) == ("prompts", "sales", ("销售",), {"text": "Sell.\nMore.\n"})
    assert (item.version, item.description, item.visibility, item.schema, item.dependencies) == (None,) * 5


def test_the_type_may_be_singular(tmp_path: Path) -> None:
    put(tmp_path, {"resource.json": '{"type": "Prompt", "name": "sales"}', "prompt.md": ""})
    assert read_folder(tmp_path).type == "prompts"


def test_any_text_and_any_binary_part_may_be_a_file(tmp_path: Path) -> None:
    documents = [{"id": "a", "text": {"$file": "a.md"}}, {"id": "b", "file": {"$file": "b.txt"}}]
    raw = {"type": "knowledge", "name": "docs", "content": {"documents": documents}}
    item = read_folder(put(tmp_path, {"resource.json": json.dumps(raw), "a.md": "A\n", "b.txt": "B\n"}))
    assert item.content == {"documents": [{"id": "a", "text": "A\n"}, {"id": "b", "file": data(b"B\n")}]}
    files = {"x": {"$file": "x"}, "y": {"$file": "y"}, "z": {"$file": "x", "binary": True}, "w": "w"}
    raw = {"type": "sandboxes", "name": "box", "content": {"runtime": "python", "files": files}}
    item = read_folder(put(tmp_path, {"resource.json": json.dumps(raw), "x": "text", "y": b"\xff\0"}))
    assert item.content["files"] == {"x": "text", "y": data(b"\xff\0"), "z": data(b"text"), "w": "w"}
    schema = {
        "type": "object",
        "properties": {"q": {"description": {"$file": "q.md"}, "default": {"$literal": {"$file": "no"}}}},
    }
    raw = {"type": "tools", "name": "t", "content": {"inputSchema": schema}}
    item = read_folder(put(tmp_path, {"resource.json": json.dumps(raw), "q.md": "What?"}))
    assert item.content["inputSchema"]["properties"]["q"] == {"description": "What?", "default": {"$file": "no"}}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "There is no file"),
        ({"resource.json": "{"}, "is not valid JSON"),
        ({"resource.json": "[" * 100_000}, "is not valid JSON"),
        ({"resource.json": "[]"}, "it must be an object, not an array"),
        ({"resource.json": '{"type": "virus", "name": "x"}'}, "is not a type of resource"),
        ({"resource.json": prompt(colour="red"), "prompt.md": ""}, "there is no field colour"),
        ({"resource.json": prompt()}, "prompt.md"),
        ({"resource.json": '{"type": "agents", "name": "x"}'}, "has no content"),
        ({"resource.json": prompt(content={"text": {"$file": 5}})}, "the name of a file"),
        ({"resource.json": prompt(content={"text": {"$file": "a", "x": 1}}), "a": ""}, "the name of a file"),
        ({"resource.json": prompt(), "prompt.md": b"\xff"}, "is not text in UTF-8"),
    ],
)
def test_what_is_wrong_is_named(files: dict[str, str | bytes], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_folder(put(tmp_path, files))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/passwd", "a/../../secret", "a/../prompt.md", ".", "", "..\\secret", "link", "linked/secret", "x\0y"],
)
def test_no_file_is_read_that_is_not_in_the_folder(name: str, tmp_path: Path) -> None:
    put(tmp_path, {"secret": "secret", "elsewhere/secret": "secret"})
    home = put(tmp_path / "home", {"resource.json": prompt(content={"text": {"$file": name}}), "prompt.md": "", "a/b": ""})
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ResourceInvalid) as refused:
        read_folder(home)
    assert "secret" not in str(refused.value).replace(repr(name), "")
    assert "in its folder" in str(refused.value)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    put(tmp_path, {"resource.json": prompt()})
    os.mkfifo(tmp_path / "prompt.md")
    with pytest.raises(ResourceInvalid, match="There is no file"):
        read_folder(tmp_path)


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    put(tmp_path, {"resource.json": prompt()})
    with (tmp_path / "prompt.md").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ResourceTooLarge):
        read_folder(tmp_path)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    put(tmp_path, {"mine": "mine"})
    (home / "prompt.md").symlink_to(tmp_path / "mine")
    with pytest.raises(ResourceInvalid, match="leads out of"):
        write_folder(home, FolderItem(type="prompts", name="x", content={"text": "theirs\n"}))
    assert (tmp_path / "mine").read_text() == "mine"


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_texts_of_several_lines_get_files_with_good_names(tmp_path: Path) -> None:
    lines = "One.\nTwo.\n"
    schema = {"type": "object", "description": lines}
    items = {
        "prompts": {"text": "One line."},
        "agents": {"systemPrompt": lines, "description": "One line."},
        "tools": {"description": lines, "inputSchema": schema, "runtime": "python", "entry": lines},
        "sandboxes": {"runtime": "python", "files": {"src/app.py": lines, "logo.png": data(b"\x89PNG"), "note": data(b"text")}},
        "knowledge": {
            "documents": [
                {"id": "Über uns/1", "text": lines},
                {"id": "über uns/1", "text": lines},
                {"id": "guide.md", "text": lines},
                {"id": "logo", "file": data(b"\x89"), "mime": "image/png"},
                {"id": "../../etc/passwd", "file": data(b"x")},
            ]
        },
    }
    wanted = {
        "prompts": ["prompt.md", "resource.json"],
        "agents": ["resource.json", "system-prompt.md"],
        "tools": ["description.md", "inputSchema-description.txt", "resource.json", "tool.py"],
        "sandboxes": ["files/logo.png", "files/note", "files/src/app.py", "resource.json"],
        "knowledge": [
            "documents/etc-passwd.bin", "documents/guide.md", "documents/logo.png", "documents/Über-uns-1.md",
            "documents/über-uns-1-2.md", "resource.json",
        ],
    }  # fmt: skip
    for kind, content in items.items():
        folder = tmp_path / kind
        item = FolderItem(type=kind, name="x", version="1.2.3", content=content)  # type: ignore[arg-type]
        write_folder(folder, item)
        assert names(folder) == sorted(wanted[kind]), kind
        assert read_folder(folder) == item
    assert json.loads((tmp_path / "prompts/resource.json").read_text()) == {"type": "prompts", "name": "x", "version": "1.2.3"}


def test_names_that_are_in_each_other_s_way_are_told_apart(tmp_path: Path) -> None:
    files = {"a": data(b"1"), "a/b": data(b"2"), "A": data(b"3"), "?": data(b"4"), "!": data(b"5"), "//": data(b"6")}
    item = FolderItem(type="sandboxes", name="x", content={"runtime": "python", "files": files})
    write_folder(tmp_path, item)
    assert read_folder(tmp_path) == item
    assert len({name.lower() for name in names(tmp_path)}) == 7


def test_it_is_written_for_people_and_for_git(tmp_path: Path) -> None:
    write_folder(
        tmp_path, FolderItem(type="prompts", name="x", description="问候", content={"text": "a\r\nb", "format": "plain"})
    )
    assert (tmp_path / "prompt.md").read_bytes() == b"a\r\nb"
    assert (tmp_path / "resource.json").read_text(encoding="utf-8") == (
        '{\n  "type": "prompts",\n  "name": "x",\n  "description": "问候",\n  "content": {\n    "text": {\n'
        '      "$file": "prompt.md"\n    },\n    "format": "plain"\n  }\n}\n'
    )


texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.just("two\nlines\n")
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | st.sampled_from(["$file", "$literal", "data", "blob"]), inner, max_size=3)
    ),
    max_leaves=8,
)
parts = st.binary(max_size=8).map(data)


def optional(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


contents: dict[str, st.SearchStrategy[Any]] = {
    "prompts": st.fixed_dictionaries({"text": texts}, optional={"variables": st.dictionaries(texts, anything, max_size=2)}),
    "agents": optional(
        systemPrompt=texts,
        tools=st.lists(texts, max_size=2),
        defaults=st.dictionaries(texts, anything, max_size=2),
    ),
    "tools": st.fixed_dictionaries(
        {"description": texts, "inputSchema": st.dictionaries(texts, anything, max_size=3), "entry": texts},
        optional={"runtime": st.sampled_from(["python", "http"])},
    ),
    "sandboxes": optional(
        env=st.dictionaries(texts, texts, max_size=2),
        files=st.dictionaries(texts | st.just("$file"), texts | parts, max_size=4),
    ),
    "knowledge": st.fixed_dictionaries({"documents": st.lists(
        st.fixed_dictionaries({"id": texts}, optional={"text": texts, "metadata": st.dictionaries(texts, anything, max_size=2)})
        | st.fixed_dictionaries({"id": texts, "file": parts}, optional={"mime": st.just("image/png")}), max_size=4)}),
}  # fmt: skip
items = st.sampled_from(sorted(contents)).flatmap(
    lambda kind: st.builds(
        FolderItem,
        type=st.just(kind),
        name=st.just("x"),
        version=st.none() | st.just("1.0.0"),
        description=st.none() | texts,
        tags=st.none() | st.lists(texts, max_size=2).map(tuple),
        schema=st.none() | st.dictionaries(texts, anything, max_size=2),
        dependencies=st.none() | st.dictionaries(texts, texts, max_size=2),
        content=contents[kind],
    )
)


@given(items)
@settings(max_examples=examples(40, 2000), deadline=None)
def test_whatever_is_written_is_read_again(item: FolderItem) -> None:
    with TemporaryDirectory() as folder:
        write_folder(Path(folder), item)
        assert read_folder(Path(folder)) == item


def test_folders_are_found_wherever_they_are_but_not_where_they_are_hidden(tmp_path: Path) -> None:
    for place in ("b", "a/deep/er", "a", ".git/x", "a/.hidden/x"):
        put(tmp_path / place, {"resource.json": "{}"})
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = [path.relative_to(tmp_path).as_posix() for path in find_folders(tmp_path)]
    assert found == ["a", "a/deep/er", "b"]


def test_too_many_are_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "FOLDERS_MAX", 2)
    for name in "abc":
        put(tmp_path / name, {"resource.json": "{}"})
    with pytest.raises(ResourceTooLarge, match="more than 2 resources"):
        find_folders(tmp_path)


def test_another_version_is_all_that_is_written(tmp_path: Path) -> None:
    put(tmp_path, {"resource.json": prompt(version="1.0.0", content={"text": {"$file": "prompt.md"}}), "prompt.md": "x"})
    set_version(tmp_path, "1.0.1")
    raw = json.loads((tmp_path / "resource.json").read_text())
    assert list(raw) == ["type", "name", "version", "content"]
    assert (raw["version"], raw["content"]) == ("1.0.1", {"text": {"$file": "prompt.md"}})


async def test_its_digest_is_what_a_server_says(tmp_path: Path) -> None:
    async with open_world() as world:
        await world.prompt("tone")
        documents = [{"id": "a", "file": data(b"\0")}, {"id": "b", "text": "B"}]
        for kind, content in (
            ("prompts", {"text": "{{> resource://prompts/tone}}", "variables": {"type": "object"}}),
            ("knowledge", {"documents": documents, "instructions": "resource://prompts/tone"}),
        ):
            item = FolderItem(
                type=kind,  # type: ignore[arg-type]
                name="x",
                schema={"type": "object"},
                dependencies={"also": "resource://prompts/tone@^1"},
                content=content,
            )
            write_folder(tmp_path / kind, item)
            item = read_folder(tmp_path / kind)
            draft = NewVersion(
                type=item.type, name=item.name, content=item.content, schema=item.schema, dependencies=item.dependencies
            )
            made = await world.centre.registry.register(world.acme, draft)
            assert item.digest() == made.version.digest
            assert item.references().keys() == made.version.dependencies.keys()
