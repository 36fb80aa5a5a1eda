"""What comes with the server, as everybody finds it."""

from pathlib import Path

import msgspec
import pytest
from tests.resources.fixtures import World, open_world
from tests.resources.test_intake import dump

from agentvm.errors import AccessDenied
from agentvm.model.ids import TenantId
from agentvm.model.resource import SYSTEM_TENANT, canonical, digest_of
from agentvm.model.tool_settings import ToolSearchSettings
from agentvm.resources import shipped
from agentvm.resources.folder import FolderItem, write_folder
from agentvm.resources.intake import publish_bundle
from agentvm.resources.shipped import AUTHOR, HOME, bundle_of, load, publish_shipped
from agentvm.runtime.builtin_tools import builtin_tools
from agentvm.storage.resources import Search
from agentvm.tools.base import CallableTool
from agentvm.tools.builtin.ask_user import AskUser
from agentvm.tools.builtin.files import FILE_TOOLS
from agentvm.tools.builtin.load_skill import LoadSkill
from agentvm.tools.builtin.memory import MEMORY_TOOLS
from agentvm.tools.builtin.run_code import CODE_TOOLS
from agentvm.tools.builtin.search_knowledge import SearchKnowledge
from agentvm.tools.builtin.wake_me import WakeMe
from agentvm.tools.builtin.web_fetch import WebFetch
from agentvm.tools.builtin.web_search import WebSearch
from agentvm.tools.safe_http import SafeHttp

AGENTS = ("assistant", "translator", "summariser", "coding-helper")

# A released version never changes. Who changes one gives it the next number, in its resource.json, and puts its digest here;
# so does who changes a description or a tag. An agent whose prompt has a new version gets one too, or it keeps the old prompt.
RELEASED = {
    "agents/assistant-zh@1.0.0": "95938c1976fe6b89",
    "agents/assistant@1.0.0": "643e72187f087c57",
    "agents/coding-helper-zh@1.1.0": "e622fe2b8347fd53",
    "agents/coding-helper@1.1.0": "d3ae621b8f5c5182",
    "agents/summariser-zh@1.0.0": "19ecbd8c936e97db",
    "agents/summariser@1.0.0": "f55fc1b45a221697",
    "agents/translator-zh@1.0.0": "c254ca2bd18bd73e",
    "agents/translator@1.0.0": "999d563967bc7f94",
    "prompts/assistant-zh@1.0.0": "1b77c3b0e2795be2",
    "prompts/assistant@1.0.0": "4dbf8d058dd289ec",
    "prompts/coding-helper-zh@1.1.0": "8b3afd6fe695e868",
    "prompts/coding-helper@1.1.0": "a86ef6f26b354114",
    "prompts/plain-speech-zh@1.0.0": "502648a7df9a37d9",
    "prompts/plain-speech@1.0.0": "92e87df885f66792",
    "prompts/summariser-zh@1.0.0": "12d76336fca578a4",
    "prompts/summariser@1.0.0": "cd415db0fcb1d55f",
    "prompts/translator-zh@1.0.0": "3fdbb45074b30a1b",
    "prompts/translator@1.0.0": "bc500dcfc5775075",
    "sandboxes/default@1.0.0": "b4f7a90deda841cb",
    "tools/ask_user@1.0.0": "8a9860076d05d626",
    "tools/calculator@1.0.0": "557ec86f37742774",
    "tools/current_time@1.0.0": "505b2279f32ca30b",
    "tools/edit_file@1.0.0": "3b2876c9562d6d5a",
    "tools/find_files@1.0.0": "923e6602fea0ccd2",
    "tools/forget@1.0.0": "bf04e960367672df",
    "tools/list_files@1.0.0": "222a8d60d4ea2b12",
    "tools/load_skill@1.0.0": "7773ff6d44161f62",
    "tools/read_file@1.0.0": "405323b92f0e8e89",
    "tools/remember@1.0.0": "bc32551958164063",
    "tools/run_python@1.1.1": "92f1eedf4c42c927",
    "tools/run_shell@1.1.1": "f7b1f9cb2b452551",
    "tools/search_files@1.0.0": "856cc5cb82804a15",
    "tools/search_knowledge@1.0.0": "b6e424ae1215ff45",
    "tools/wake_me@1.0.0": "8d5daa3f315c231d",
    "tools/web_fetch@1.0.0": "0fba6a5ecd89544a",
    "tools/web_search@1.0.0": "e19f385bbf22e20a",
    "tools/write_file@1.0.0": "e6415d85bf0f2a52",
}


def fingerprint(item: FolderItem) -> str:
    about = {"description": item.description, "tags": item.tags, "visibility": item.visibility}
    return digest_of(canonical({"digest": item.digest(), **about}))[7:23]


def test_no_released_version_was_changed() -> None:
    assert {f"{item.type}/{item.name}@{item.version}": fingerprint(item) for item in load()} == RELEASED


def test_everything_is_public_described_and_tagged_in_both_languages() -> None:
    for item in load():
        assert item.visibility == "public", item.name
        for texts in ([item.description or ""], item.tags or ()):
            assert any("\u4e00" <= letter <= "\u9fff" for text in texts for letter in text), item.name
            assert any("a" <= letter <= "z" for text in texts for letter in text), item.name
        assert item.references() is not None


def test_each_agent_has_its_prompt_in_both_languages() -> None:
    named = {(item.type, item.name): item for item in load()}
    for name in AGENTS:
        for one in (name, f"{name}-zh"):
            assert named["agents", one].content["systemPrompt"] == f"resource://prompts/{one}"
            assert ("prompts", one) in named


def test_the_tools_are_those_that_are_built_in_but_for_other_names_of_the_same() -> None:
    contents = {item.content["entry"]: item.content for item in load() if item.type == "tools"}
    engine = ToolSearchSettings(engine="searxng", url="https://search.example")
    others: list[CallableTool] = [
        AskUser(),
        WakeMe(lambda: 0),
        WebFetch(SafeHttp()),
        WebSearch(engine, SafeHttp()),
        *FILE_TOOLS,
        *MEMORY_TOOLS,
        SearchKnowledge(),
        LoadSkill(),
    ]
    specs = {tool.spec.name: tool.spec for tool in builtin_tools(lambda: 0)} | {tool.spec.name: tool.spec for tool in others}
    specs |= {spec.name: spec for spec, _ in CODE_TOOLS}
    assert specs.keys() - contents.keys() == {"read", "write", "edit", "sh"}
    for name, content in contents.items():
        assert content["description"] == specs[name].description
        assert content["inputSchema"] == specs[name].input_schema
        assert content["runtime"] == "builtin"


async def test_a_helper_for_programmers_writes_files_and_runs_code() -> None:
    async with open_world() as world:
        await publish_shipped(world.centre)
        for name in ("coding-helper", "coding-helper-zh"):
            rendered = (await world.resolve(f"resource://agents/{name}")).rendered
            assert isinstance(rendered, dict)
            tools = {tool["name"] for tool in rendered["tools"]}
            assert tools >= {"read_file", "write_file", "edit_file", "run_python", "run_shell"}
            assert not tools & {"web_fetch", "web_search"}


async def test_everybody_finds_and_uses_them() -> None:
    async with open_world() as world:
        await publish_shipped(world.centre)
        for name in AGENTS:
            for one in (name, f"{name}-zh"):
                found = await world.resolve(f"resource://agents/{one}")
                assert isinstance(found.rendered, dict)
                assert "{{" not in found.rendered["systemPrompt"]
                assert found.manifest.owner == "system"
        rendered = (await world.resolve("resource://prompts/translator", args={"targetLanguage": "Latin"})).rendered
        assert "into Latin." in str(rendered)
        assert str((await world.resolve("resource://prompts/system/assistant")).rendered).startswith("You are the assistant,")


@pytest.mark.parametrize(
    ("text", "name"), [("translation", "translator"), ("翻译", "translator"), ("摘要", "summariser"), ("编程", "coding-helper")]
)
async def test_a_search_finds_them_in_both_languages(text: str, name: str) -> None:
    async with open_world() as world:
        await publish_shipped(world.centre)
        found = await world.view().search(Search(text=text, type="agents"))
        assert name in [hit.resource.name for hit in found.items]


async def test_one_s_own_goes_before_what_ships() -> None:
    async with open_world() as world:
        await publish_shipped(world.centre)
        await world.prompt("assistant", "Mine.")
        assert (await world.resolve("resource://prompts/assistant")).rendered == "Mine."
        agent = (await world.resolve("resource://agents/assistant")).rendered
        assert isinstance(agent, dict)
        assert agent["systemPrompt"].startswith("You are the assistant")


async def test_a_second_start_reads_once_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    async with open_world(path) as world:
        await publish_shipped(world.centre)
    before = dump(path)
    async with open_world(path) as world:
        reads: list[TenantId] = []
        real = world.centre.store.resources

        def counted(tenant_id: TenantId) -> object:
            reads.append(tenant_id)
            return real(tenant_id)

        monkeypatch.setattr(world.centre.store, "resources", counted)
        await publish_shipped(world.centre)
        assert reads == [SYSTEM_TENANT]
    assert dump(path) == before


async def test_an_empty_store_is_given_what_it_would_have_taken_in(tmp_path: Path) -> None:
    async with open_world(tmp_path / "given.db") as world:
        await publish_shipped(world.centre)
    async with open_world(tmp_path / "taken.db") as world:
        await publish_bundle(world.centre, AUTHOR, bundle_of(load()))
    assert dump(tmp_path / "given.db") == dump(tmp_path / "taken.db")


async def test_a_newer_server_adds_its_versions_and_an_older_one_finds_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world(tmp_path / "store.db") as world:
        await publish_shipped(world.centre)
        await world.add("agents", "mine", {"systemPrompt": "resource://prompts/plain-speech"})
        await ship_newer(world, tmp_path / "newer", monkeypatch)
        found = await world.resolve("resource://prompts/plain-speech")
        assert (found.rendered, found.manifest.version, found.manifest.description) == ("Speak.", "1.1.0", "New 新")
        assert (await world.resolve("resource://prompts/plain-speech@1.0.0")).rendered != "Speak."
        mine = (await world.resolve("resource://agents/mine")).rendered
        assert isinstance(mine, dict)
        assert mine["systemPrompt"] != "Speak."
        monkeypatch.undo()
        before = dump(tmp_path / "store.db")
        await publish_shipped(world.centre)
        assert dump(tmp_path / "store.db") == before


async def ship_newer(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = next(item for item in load() if item.name == "plain-speech")
    newer = {"version": "1.1.0", "content": {"text": "Speak."}, "description": "New 新"}
    write_folder(folder / "prompt", msgspec.structs.replace(item, **newer))
    monkeypatch.setattr(shipped, "HOME", folder)
    await publish_shipped(world.centre)


async def test_what_ships_cannot_be_changed_by_others() -> None:
    async with open_world() as world:
        await publish_shipped(world.centre)
        found = await world.view().find("prompts", "assistant")
        assert found is not None
        with pytest.raises(AccessDenied, match="ships with the server"):
            await world.centre.registry.delete(world.acme, found.resource_id, force=True)


def test_they_refer_only_to_each_other() -> None:
    assert len(bundle_of(load()).entries) == len(list(HOME.rglob("resource.json")))
