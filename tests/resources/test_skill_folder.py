from pathlib import Path

import pytest

from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.resources.folder import FolderItem, find_folders, read_folder, write_folder

TEXT = "---\nname: pdf\ndescription: Reads PDF.\n---\nDo it.\n"


def make(root: Path, name: str = "pdf", text: str = TEXT) -> Path:
    home = root / name
    (home / "scripts").mkdir(parents=True)
    (home / "SKILL.md").write_text(text)
    (home / "scripts/read.py").write_text("print(1)\n")
    return home


def test_a_folder_with_a_skill_is_read_with_all_of_its_files_but_hidden_ones(tmp_path: Path) -> None:
    home = make(tmp_path)
    (home / "logo.png").write_bytes(b"\x00\xff")
    (home / "inner").symlink_to(home / "scripts/read.py")
    for name in (".git/config", "scripts/__pycache__/a.pyc", ".env"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("x")
    item = read_folder(home)
    assert (item.type, item.name, item.version, item.description) == ("skills", "pdf", None, "Reads PDF.")
    assert item.content == {
        "text": TEXT,
        "files": {"inner": "print(1)\n", "logo.png": {"data": "AP8="}, "scripts/read.py": "print(1)\n"},
    }
    write_folder(tmp_path / "copy/pdf", item)
    assert read_folder(tmp_path / "copy/pdf") == item
    assert item.digest() == read_folder(tmp_path / "copy/pdf").digest()


def test_folders_below_a_skill_are_parts_of_it(tmp_path: Path) -> None:
    home = make(tmp_path / "a")
    (home / "assets").mkdir()
    (home / "assets/resource.json").write_text("{}")
    assert find_folders(tmp_path) == [home]
    assert read_folder(home).content["files"]["assets/resource.json"] == "{}"


def test_a_skill_with_more_than_its_author_wrote_has_a_resource_json_too(tmp_path: Path) -> None:
    content = {"text": TEXT, "files": {"a.py": "one\ntwo\n", "b.txt": "short"}}
    item = FolderItem(type="skills", name="pdf", version="1.0.0", schema={"type": "object"}, content=content)
    write_folder(tmp_path / "pdf", item)
    assert (tmp_path / "pdf/SKILL.md").read_text() == TEXT
    assert read_folder(tmp_path / "pdf") == item


def test_a_folder_with_another_name_than_its_skill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResourceInvalid, match="must have its name, not 'word'"):
        read_folder(make(tmp_path, "word"))


def test_links_that_lead_out_of_a_skill_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    for number, target in enumerate(("secret", "other")):
        (tmp_path / "other").mkdir(exist_ok=True)
        home = make(tmp_path / str(number))
        (home / "link").symlink_to(tmp_path / target)
        with pytest.raises(ResourceInvalid, match=r"leads out|link to a folder"):
            read_folder(home)
    home = make(tmp_path / "loop")
    (home / "self").symlink_to(home)
    with pytest.raises(ResourceInvalid, match="link to a folder"):
        read_folder(home)


def test_too_many_files_and_too_many_bytes_are_refused_before_they_are_sent(tmp_path: Path) -> None:
    home = make(tmp_path / "many")
    for number in range(201):
        (home / f"f{number}").touch()
    with pytest.raises(ResourceTooLarge, match="more than 200 files"):
        read_folder(home)
    home = make(tmp_path / "large")
    for number in range(3):
        (home / f"f{number}").write_bytes(b"x" * 1_500_000)
    with pytest.raises(ResourceTooLarge, match="maximum of a skill"):
        read_folder(home)


def test_a_skill_from_elsewhere_is_written_only_into_its_folder(tmp_path: Path) -> None:
    for path in ("../out", "/etc/out", "a/../../out"):
        item = FolderItem(type="skills", name="pdf", content={"text": TEXT, "files": {path: "x"}})
        with pytest.raises(ResourceInvalid, match="leads out"):
            write_folder(tmp_path / "pdf", item)
    assert not (tmp_path / "out").exists()


def test_a_skill_that_is_not_text_is_refused(tmp_path: Path) -> None:
    home = make(tmp_path)
    (home / "SKILL.md").write_bytes(b"\xff")
    with pytest.raises(ResourceInvalid, match="not text"):
        read_folder(home)
    (home / "SKILL.md").write_text("no front matter")
    with pytest.raises(ResourceInvalid, match="must begin with ---"):
        read_folder(home)
