from pathlib import Path

import pytest
from tests.cli.desk import open_desk


async def test_an_image_is_made_named_shown_and_deleted() -> None:
    async with open_desk() as desk:
        done = await desk.avm("image", "create", "Tutor", "--system", "You explain.", "--container", "school")
        assert done.code == 0
        assert "You explain." in done.out
        assert "avm chat --session sess_" in done.err
        (listed,) = await desk.record("image", "list", "--container", "school")
        assert (listed["name"], listed["containerId"]) == ("Tutor", "school")
        for name in ("Tutor", listed["imageId"], listed["imageId"][:14], "last"):
            assert (await desk.record("image", "show", name))["imageId"] == listed["imageId"]
        assert [one["sessionId"] for one in await desk.record("session", "list", "--image", "Tutor")] == [listed["sessionId"]]
        assert await desk.ok("image", "delete", "Tutor", "--yes") == f"The image Tutor ({listed['imageId']}) is deleted.\n"
        assert (await desk.avm("image", "show", "Tutor")).code == 5


async def test_everything_that_an_image_may_be_told_reaches_it() -> None:
    async with open_desk() as desk:
        made = await desk.record(
            "image", "create", "All", "--description", "A line", "--model", "scripted/x", "--tool", "calculator",
            "--temperature", "0.5", "--max-tokens", "9",
        )  # fmt: skip
        assert (made["image"]["name"], made["image"]["description"]) == ("All", "A line")
        assert made["image"]["containerId"] == "default"


async def test_an_upgrade_shows_what_is_new() -> None:
    async with open_desk() as desk:
        made = await desk.record("image", "create", "Helper", "--system", "resource://prompts/assistant")
        assert made["image"]["systemPromptRef"] == "resource://prompts/assistant"
        assert "The image is up to date" in await desk.ok("image", "upgrade", "Helper", "--dry-run")
        assert not (await desk.record("image", "upgrade", "last"))["applied"]


async def test_a_name_that_two_images_have_is_not_guessed() -> None:
    async with open_desk() as desk:
        for _ in range(2):
            await desk.ok("image", "create", "Twin")
        done = await desk.avm("image", "delete", "Twin", "--yes")
        assert (done.code, done.out) == (2, "")
        assert done.err.count("img_") == 2
        assert len(await desk.record("image", "list")) == 2
        cut = await desk.avm("image", "list", "--limit", "1")
        assert (cut.code, "more than 1" in cut.err) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("create",), 2),
        (("create", "x", "--temperature", "3"), 2),
        (("create", "x", "--var", "novalue"), 2),
        (("create", "x", "--model", "nobody/x"), 5),
        (("create", "x", "--system", "resource://prompts/nothing"), 5),
        (("create", "x", "--container", "a/b"), 1),
        (("show", "nothing"), 5),
        (("upgrade", "nothing"), 5),
        (("delete", "nothing", "--yes"), 5),
        (("show", "last"), 5),
    ],
)
async def test_what_cannot_be_done_is_explained(arguments: tuple[str, ...], code: int) -> None:
    async with open_desk() as desk:
        done = await desk.avm("image", *arguments)
        assert (done.code, done.out) == (code, "")
        assert done.err.strip()


async def test_an_image_has_an_answer_of_a_schema_and_a_key_where_its_provider_takes_one(tmp_path: Path) -> None:
    schema = tmp_path / "tea.json"
    schema.write_text('{"type": "object"}')
    async with open_desk() as desk:
        made = await desk.record("image", "create", "Seller", "--model", "scripted/x", "--schema", str(schema))
        assert made["image"]["config"]["output"] == {"name": "tea", "schema": {"type": "object"}}
        refused = await desk.avm("image", "key", "Seller", given="sk-of-mine\n")
        assert (refused.code, "llm.providers.scripted.ownKeys" in refused.err) == (4, True)
        assert "sk-of-mine" not in refused.out + refused.err
        assert "The key is removed" in await desk.ok("image", "key", "Seller", "--remove")
        assert (await desk.avm("image", "key", "Seller", given="")).code == 2


async def test_an_image_is_built_with_a_key_that_the_server_does_not_have() -> None:
    async with open_desk() as desk:
        create = ("image", "create", "Seller", "--model", "anthropic/claude-x")
        assert "driver_not_found" in (await desk.avm(*create)).err
        done = await desk.avm(*create, "--own-key", given="sk-of-mine\n")
        assert (done.code, "sk-of-mine" in done.out + done.err) == (0, False)
        assert (await desk.record("image", "show", "Seller"))["config"]["ownKey"]
        assert (await desk.avm(*create, "--own-key", given="")).code == 2
