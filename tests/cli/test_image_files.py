"""Images as files, between two servers."""

from pathlib import Path

from tests.cli.desk import open_desk


async def test_an_image_is_saved_loaded_and_tagged(tmp_path: Path) -> None:
    file = tmp_path / "seller.avmimage"
    async with open_desk() as desk, open_desk() as other:
        made = await desk.record("image", "create", "Seller", "--system", "resource://prompts/assistant", "--container", "shop")
        assert "is saved to" in await desk.ok("image", "save", "Seller", "-o", str(file))
        loaded = await other.record("image", "load", str(file), "--name", "Copy", "--digest", made["image"]["digest"])
        assert (loaded["image"]["name"], loaded["image"]["digest"]) == ("Copy", made["image"]["digest"])
        assert "Copy" in await other.ok("image", "load", str(file), "--name", "Copy 2")
        assert "image:stable means" in await other.ok("image", "tag", "Copy", "stable")
        assert (await other.record("image", "show", "image:stable"))["tags"] == ["stable"]
        assert (await other.avm("image", "show", "image:none")).code == 5
        assert "is removed" in await other.ok("image", "tag", "Copy", "stable", "--remove")
        file.write_bytes(file.read_bytes()[:-9])
        assert (await other.avm("image", "load", str(file))).code == 1
        assert (await desk.avm("image", "save", "Seller", "-o", str(tmp_path / "none" / "x"))).code == 1


async def test_an_image_is_pushed_to_another_server_and_pulled_back() -> None:
    async with open_desk() as desk, open_desk() as other:
        await desk.ok("image", "create", "Seller", "--system", "Sell.")
        key = {"AVM_OTHER_KEY": other.operator}
        pushed = await desk.avm("image", "push", "Seller", "--to", other.server.url, "--name", "Pushed", variables=key)
        assert (pushed.code, "Pushed" in pushed.out) == (0, True)
        assert "image:stable" in await other.ok("image", "tag", "Pushed", "stable")
        pulled = await desk.avm("image", "pull", "image:stable", "--from", other.server.url, "--name", "Pulled", variables=key)
        assert (pulled.code, "Pulled" in pulled.out) == (0, True)
        assert sorted(one["name"] for one in await desk.record("image", "list")) == ["Pulled", "Seller"]
        assert (await desk.avm("image", "push", "Seller", "--to", "nobody")).code == 2
        assert (await desk.avm("image", "push", "Seller", "--to", other.server.url)).code == 4
