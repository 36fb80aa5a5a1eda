"""The tour of docs/tenants.md, walked as a newcomer would: its shell in one shell, its server beside it."""

from pathlib import Path

from tests.docs.documents import blocks, read
from tests.docs.tour import walk

from agentvm.model.principal import MEMBER, PERMISSIONS
from agentvm.tenants.exports import ALIASES

PAGE = read("docs/tenants.md")


async def test_the_tour_works_as_it_is_written(tmp_path: Path) -> None:
    (client,) = blocks(PAGE, "python")
    out, err = await walk(PAGE, tmp_path, {"client.py": client})
    assert "Daily token limit: " in err
    assert "Every difference is explained." in out


def test_the_columns_of_an_export_are_documented() -> None:
    rows = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith("| `")}
    for plain, names in ALIASES.items():
        assert [name for name in names if f"`{name}`" not in rows[plain]] == []


def test_the_permissions_are_documented() -> None:
    section = PAGE[PAGE.index("## Permissions and roles") :]
    assert [name for name in MEMBER if f"`{name}`" not in section] == []
    assert [word for word in section.split("`")[1::2] if ":" in word and word not in PERMISSIONS] == []
