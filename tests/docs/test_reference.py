"""Reference — names, settings, codes, commands and events are documented: all of them, and nothing else."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import click
import pytest
from docs.generate import render
from docs.notes import EVENT_NOTES
from tests.docs.documents import DOCS, ROOT, first_column, read

import agentvm
from agentvm import errors
from agentvm.cli.main import avm
from agentvm.client import handles, image_verbs, verbs
from agentvm.config.catalogue import SETTINGS
from agentvm.config.load import VARIABLES
from agentvm.drivers.registry import DRIVERS
from agentvm.errors import BY_CODE
from agentvm.events import CATALOGUE
from agentvm.model.definition import Definition
from agentvm.model.image import ImageConfig
from agentvm.operations.table import ADDITIVE, COMMANDS, OPERATIONS

CONFIGURATION = read("docs/config.md")
API = read("docs/api.md")
MANAGERS = {
    "definitions": verbs.DefinitionManager,
    "containers": verbs.ContainerManager,
    "images": image_verbs.ImageManager,
    "sessions": verbs.SessionManager,
    "agents": verbs.AgentManager,
    "session": handles.SessionHandle,
    "agent": handles.AgentHandle,
}


def test_the_generated_files_are_current() -> None:
    for file, text in render().items():
        assert (DOCS / file).read_text(encoding="utf-8") == text, "run: python -m docs.generate"


def test_every_event_has_its_sentence() -> None:
    assert set(EVENT_NOTES) == set(CATALOGUE)


def test_agentx_has_seventeen_of_the_commands() -> None:
    assert len(set(COMMANDS) - ADDITIVE) == 17


def test_every_command_has_schemas_that_stand_alone() -> None:
    catalogue = json.loads(read("docs/commands.json"))
    assert catalogue["agentvm"] == agentvm.__version__
    assert set(catalogue["commands"]) == set(COMMANDS)
    assert {name for name, command in catalogue["commands"].items() if command["agentx"]} == set(COMMANDS) - ADDITIVE
    used = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(catalogue)))
    assert used == set(catalogue["$defs"])


def test_the_catalogue_gives_every_event_a_schema_that_stands_alone() -> None:
    catalogue = json.loads(read("docs/events.json"))
    assert catalogue["agentvm"] == agentvm.__version__
    assert set(catalogue["events"]) == set(CATALOGUE)
    for event in catalogue["events"].values():
        used = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(event["data"])))
        assert used <= set(event["data"].get("$defs", {}))


def test_the_codes_are_those_of_the_error_tree() -> None:
    for module in iter_modules(errors.__path__):
        # A code is known when its module is, whoever has imported it.
        import_module(f"agentvm.errors.{module.name}")
    text = read("docs/errors.md")
    codes = first_column(text, "code | class | when | what to do")
    assert sorted(codes) == sorted(BY_CODE)
    for code, kind in BY_CODE.items():
        depth = len(kind.__mro__) - kind.__mro__[::-1].index(Exception) - 2
        row = next(line for line in text.splitlines() if line.startswith(f"| `{code}` |"))
        assert row.startswith(f"| `{code}` | {'· ' * depth}`{kind.__name__}` |")


def test_commands_name_only_codes_and_events_that_exist() -> None:
    known = set(BY_CODE) | set(CATALOGUE) | set(COMMANDS)
    texts = [f"{operation.summary} {operation.description}" for operation in OPERATIONS]
    for note in (*EVENT_NOTES.values(), *texts):
        assert {word for word in re.findall(r"`(\w+_\w+)`", note) if word != "tool_use"} <= known


def test_every_setting_of_a_file_is_in_the_table_with_its_variable() -> None:
    header = "setting | default | must be | changes | tenants |"
    assert first_column(CONFIGURATION, header) == list(SETTINGS)
    rows = {line.split("`")[1]: line for line in CONFIGURATION.splitlines() if line.startswith("| `")}
    for key, setting in SETTINGS.items():
        assert setting.declaration.variable is None or f"`{setting.declaration.variable}`" in rows[key]


def test_every_environment_variable_is_documented_and_read() -> None:
    table = CONFIGURATION[CONFIGURATION.index("## Environment variables") : CONFIGURATION.index("## Flags")]
    rows = re.findall(r"^\| (`[A-Z].*?`) \|", table, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "agentvm").rglob("*.py")]
    found = {name for text in sources for name in re.findall(r'(?:environ(?:\.get\(|, )|envvar=)"(\w+)"', text)}
    assert documented == found | set(VARIABLES)
    readme = re.findall(r"^\| `([A-Z_]+)` \|", read("README.md"), re.MULTILINE)
    assert set(readme) <= documented


def leaves(command: click.Command, path: str = "avm") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with the words to type."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path, command
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        if not child.hidden:
            yield from leaves(child, f"{path} {name}")


def test_every_command_line_and_flag_is_documented() -> None:
    paragraphs = CONFIGURATION[CONFIGURATION.index("## Flags") : CONFIGURATION.index("## ServerConfig")].split("\n\n")
    shared = next(text for text in paragraphs if text.startswith("The other commands"))
    # A command of the table has the flags of its row, and those that all of them share.
    rows = [f"{line}\n{shared}" for text in paragraphs if text.startswith("| command |") for line in text.splitlines()]
    told = [*rows, *(text for text in paragraphs if not text.startswith("| command |") and text != shared)]
    for path, command in leaves(avm):
        about = next((text for text in told if re.search(rf"`{path}[` ]", text)), "")
        flags = {flag for option in command.params if isinstance(option, click.Option) for flag in option.opts}
        assert path == "avm version" or about, path
        assert [flag for flag in sorted(flags) if f"`{flag}`" not in about] == []


def test_the_drivers_and_their_default_models_are_documented() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| `([^`]+)` \|", CONFIGURATION, re.MULTILINE))
    for name, place in DRIVERS.items():
        module = import_module(place.partition(":")[0])
        assert rows[name] == getattr(module, "DEFAULT_MODEL", "scripted")


def test_every_public_name_has_a_heading() -> None:
    headings = re.findall(r"^### `(\w+)", API, re.MULTILINE)
    assert sorted(headings) == sorted(agentvm.__all__)


@pytest.mark.parametrize("noun", MANAGERS)
def test_every_verb_is_documented(noun: str) -> None:
    methods = {name for name, value in vars(MANAGERS[noun]).items() if callable(value) and not name.startswith("_")}
    assert set(re.findall(rf"^\| `{noun}\.(\w+)\(", API, re.MULTILINE)) == methods


@pytest.mark.parametrize("record", [Definition, ImageConfig])
def test_every_member_of_a_public_record_is_documented(record: type[Definition] | type[ImageConfig]) -> None:
    section = API[API.index(f"### `{record.__name__}`") :].split("\n### ")[0]
    assert [name for name in record.__struct_fields__ if f"`{name}`" not in section] == []
