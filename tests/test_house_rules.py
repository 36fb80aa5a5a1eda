"""House rules — what no tool checks for us, as small functions over one module or file.

Each rule yields the offences it finds; `PLANTED` proves for each one that it can fail.
"""

import ast
import gc
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.source_files import ROOT, SRC, Module, forget_trees, project_texts, source_modules
from tests.support.word_rules import (
    WORD_RULES,
    Rule,
    begins_with_a_noun,
    constants_are_nouns,
    defined_twice,
    errors_name_things,
    functions_are_verbs,
    locals_are_nouns,
    names_things,
    numbers_have_units,
)

MODULE_LINES = 400
FUNCTION_LINES = 50

# Where a failure of any kind becomes an answer, an event or an exit code.
BOUNDARIES = {
    "channels/running.py", "cli/main.py", "knowledge/indexer.py", "operations/dispatch.py", "runtime/agent.py",
    "runtime/tool_task.py", "runtime/journal.py", "server/http/api.py", "tools/mcp/connection.py",
}  # fmt: skip
# The six managers are words of the AgentX design; otherwise these words say nothing about what a class is.
EMPTY_WORDS = {"Manager", "Service", "Helper", "Handler", "Impl"}
MANAGERS = {"DefinitionManager", "ImageManager", "ContainerManager", "SessionManager", "AgentManager", "ServerManager"}
# What operations, blueprint and runtime may know of drivers and storage: the interfaces, the choice among drivers, the store.
PORTS = (
    "drivers/abilities", "drivers/account_health", "drivers/base", "drivers/conversation", "drivers/health",
    "drivers/models", "drivers/output_schema", "drivers/sending", "drivers/weighing", "storage/attachments",
    "storage/base", "storage/carry",
    "storage/erasing", "storage/resources", "storage/retention", "storage/sessions", "storage/settings", "storage/sql",
)  # fmt: skip
# Packages and modules at the top of src/agentvm whose words still have to be put in order. Remove yours when it is done.
PENDING: set[str] = set()
# Class names that two modules define. A name here is one that still has to be made unique, or has a reason.
DEFINED_TWICE: set[str] = set()
# How TypeScript begins that a program writes: nobody reads it from top to bottom.
GENERATED = "// Written by docs/typescript.py"
# The only module that executes foreign text; it runs behind the walls of a jail, never in the server's process.
EXECUTES = "tiers/roles.py"
# The only module that may leave a task behind: a tool that never heeds its cancellation, for which a group would wait.
ABANDONS = "runtime/tool_task.py"
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}

# src/agentvm/a/b.py is tested by tests/a/test_b.py, and a/__init__.py by tests/a/test_a.py.
# A module or package named here is tested by another file instead.
# Names end in "/" for a package. Give the reason; an entry that is not needed fails.
TESTED_BY: dict[str, str] = {
    "__init__.py": "test_exports.py",  # The public names.
    # The whole way of a file, from one tenant to another.
    "blueprint/image_file.py": "operations/test_image_file.py",
    "sessions/image_files.py": "operations/test_image_file.py",
    "client/image_verbs.py": "client/test_verbs.py",  # As all managers of the client.
    # The conformance suite, on every engine.
    "storage/sql/accounts/__init__.py": "storage/test_conformance.py",
    "storage/sql/definitions.py": "storage/test_conformance.py",
    "storage/sql/collection_indexes.py": "storage/test_conformance.py",
    "storage/sql/collections.py": "storage/test_conformance.py",
    "storage/sql/memories.py": "storage/test_conformance.py",
    "storage/sql/store_items.py": "storage/test_conformance.py",
    "storage/sql/resources/__init__.py": "storage/test_conformance.py",
}

# Written so that this file does not mention them itself.
MACHINE = re.compile(
    r"(?<![\w.~/-])/(?:op[t]|wor[k]|roo[t]|hom[e]|User[s])/"
    r"|\b(?:pyp[i]\.org|pythonhosted[.]org|npmj[s]\.(?:org|com)|yarnpk[g]\.com)"
    r"|\.\./share[d]\b"
)


def short_module(module: Module) -> Iterator[str]:
    if (lines := module.text.count("\n")) > MODULE_LINES:
        yield f"{lines} lines, more than {MODULE_LINES}"


def written_typescript(modules: Iterable[Module]) -> list[Module]:
    """The modules that people write."""
    return [module for module in modules if module.name.endswith((".ts", ".tsx")) and not module.text.startswith(GENERATED)]


def short_functions(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{node.lineno}: {node.name} has {lines} lines, more than {FUNCTION_LINES}"


def narrow_excepts(module: Module) -> Iterator[str]:
    if module.name in BOUNDARIES:
        return
    for node in module.nodes:
        if isinstance(node, ast.ExceptHandler):
            caught = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {"everything"}
            if broad := caught & {"everything", "Exception", "BaseException"}:
                yield f"{node.lineno}: catches {broad.pop()} outside the boundaries"


def tasks_have_parents(module: Module) -> Iterator[str]:
    for node in module.nodes:
        match node:
            case ast.Attribute(attr=name) | ast.alias(name=name) if (
                name in {"create_task", "ensure_future"} and module.name != ABANDONS
            ):
                yield f"{node.lineno}: {name} starts a task without a parent"


def no_unsafe_code(module: Module) -> Iterator[str]:
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Name(id="eval" | "exec" | "compile" as name)) if module.name != EXECUTES:
                yield f"{node.lineno}: {name}"
            case ast.alias(name=name) | ast.ImportFrom(module=str(name)) if name.split(".")[0] in UNSAFE_MODULES:
                yield f"{node.lineno}: imports {name}"


def telling_names(module: Module) -> Iterator[str]:
    if Path(module.name).name in {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}:
        yield "a module is named after what is in it"
    for node in module.nodes:
        if isinstance(node, ast.ClassDef) and node.name not in MANAGERS:
            words = re.findall(r"[A-Z]+[a-z0-9]*", node.name)
            if empty := EMPTY_WORDS.intersection(words):
                yield f"{node.lineno}: {node.name} is named after {empty.pop()}"


def has_docstring(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield "no module docstring"


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of each import; of `from a import b`, `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def knows_only_ports(module: Module) -> Iterator[str]:
    """The import contract sees indirect imports of the providers it lists; this sees every module, without a list."""
    if not module.name.startswith(("operations/", "blueprint/", "runtime/", *PORTS)):
        return
    for line, name in imported(module.tree):
        path = name.removeprefix("agentvm.").replace(".", "/")
        if path.startswith(("drivers/", "storage/")) and not f"{path}/".startswith(tuple(f"{port}/" for port in PORTS)):
            yield f"{line}: imports {name}, which stands behind the port"


def names_no_machine(module: Module) -> Iterator[str]:
    for number, line in enumerate(module.text.splitlines(), 1):
        if found := MACHINE.search(line):
            yield f"{number}: mentions {found.group()}"


SRC_RULES: tuple[Rule, ...] = (
    short_module,
    short_functions,
    narrow_excepts,
    tasks_have_parents,
    no_unsafe_code,
    telling_names,
    has_docstring,
    knows_only_ports,
)


def only_declares(tree: ast.Module) -> bool:
    """Whether no function in a module does anything: names, records and interfaces hold nothing to test."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for f in functions for node in f.body)


def untested(modules: list[Module], tests: set[str], tested_by: dict[str, str]) -> Iterator[str]:
    """Yields each module that does something and has no mirror in tests, and each exception that is stale."""
    needed = set()
    for module in modules:
        path = Path(module.name)
        noun = path.parent.name if path.stem == "__init__" else path.stem
        mirror = (path.parent / f"test_{noun}.py").as_posix()
        if mirror in tests or only_declares(module.tree):
            continue
        owners = [name for name in (module.name, *(f"{parent}/" for parent in path.parents)) if name in tested_by]
        needed.update(owners)
        if not owners:
            yield f"{module.name}: no tests/{mirror}"
    for name, test in tested_by.items():
        if name not in needed or test not in tests:
            yield f"{name}: exception for {test} is stale"


def keep(rule: Rule, modules: list[Module]) -> None:
    assert modules, "nothing to examine"
    none(f"{module.name}: {offence}" for module in modules for offence in rule(module))


def none(offences: Iterable[str]) -> None:
    if found := list(offences):
        pytest.fail("\n".join(found), pytrace=False)


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Eight hundred thousand nodes are no garbage while the rules need them, and nobody's afterwards."""
    gc.disable()
    yield
    forget_trees()
    gc.enable()


@pytest.mark.parametrize("rule", SRC_RULES)
def test_the_source_keeps_the_rule(rule: Rule) -> None:
    keep(rule, source_modules())


@pytest.mark.parametrize("rule", WORD_RULES)
def test_the_words_of_the_source_keep_the_rule(rule: Rule) -> None:
    keep(rule, [module for module in source_modules() if module.name.split("/")[0] not in PENDING])


def test_no_class_name_is_defined_twice() -> None:
    none(f"{name}: {', '.join(where)}" for name, where in defined_twice(source_modules()).items() if name not in DEFINED_TWICE)


def test_a_class_name_defined_twice_is_seen() -> None:
    modules = [Module("model/ids.py", "class Id: ...\n"), Module("model/turn.py", "class Id: ...\nclass Turn: ...\n")]
    assert defined_twice(modules) == {"Id": ["model/ids.py", "model/turn.py"]}


def test_tests_benchmarks_and_examples_are_short_too() -> None:
    modules = [module for module in project_texts("tests/", "bench/", "examples/") if module.name.endswith(".py")]
    keep(short_module, modules)


@pytest.mark.parametrize("folder", ["edge/src/", "clients/typescript/src/", "console/src/"])
def test_typescript_is_short_too(folder: str) -> None:
    keep(short_module, written_typescript(project_texts(folder)))


def test_only_typescript_that_a_program_writes_may_be_long() -> None:
    lines = "let x = 1;\n" * 401
    modules = [
        Module("edge/src/a.ts", lines),
        Module("console/src/b.tsx", lines),
        Module("edge/src/c.ts", f"{GENERATED}{lines}"),
    ]
    assert [module.name for module in written_typescript(modules) if list(short_module(module))] == [
        "edge/src/a.ts",
        "console/src/b.tsx",
    ]


def test_no_file_names_a_machine_or_a_registry() -> None:
    keep(names_no_machine, project_texts())


def test_every_module_has_its_test() -> None:
    tests = {path.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    none(untested(source_modules(), tests, TESTED_BY))


def test_no_import_contract_has_exceptions() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert [contract["id"] for contract in contracts if "ignore_imports" in contract] == []
    assert next(contract for contract in contracts if contract["id"] == "layers")["exhaustive"]


PLANTED: tuple[tuple[Rule, str, str], ...] = (
    (short_module, "x = 1\n" * 401, "x = 1\n" * 400),
    (short_functions, "def f():\n" + "  x = 1\n" * 50, "def f():\n" + "  x = 1\n" * 49),
    (short_functions, "class A:\n async def f():\n" + "  x = 1\n" * 50, "x = 1\n" * 60),
    (narrow_excepts, "try: ...\nexcept: ...\n", "try: ...\nexcept ValueError: ...\n"),
    (narrow_excepts, "try: ...\nexcept Exception: ...\n", "try: ...\nexcept (ValueError, OSError): ...\n"),
    (narrow_excepts, "try: ...\nexcept (ValueError, BaseException): ...\n", "x = Exception\n"),
    (tasks_have_parents, "import asyncio\nasyncio.create_task(f())\n", "import anyio\nanyio.create_task_group()\n"),
    (tasks_have_parents, "from asyncio import ensure_future\n", "from asyncio import Future\n"),
    (no_unsafe_code, "eval('1')\n", "ast.literal_eval('1')\n"),
    (no_unsafe_code, "exec('x = 1')\n", "connection.execute('select 1')\n"),
    (no_unsafe_code, "import pickle\n", "import msgspec\n"),
    (no_unsafe_code, "from pickle import loads\n", "from json import loads\n"),
    (telling_names, "class SessionHelper: ...\n", "class SessionManager: ...\n"),
    (telling_names, "class ToolManager: ...\n", "class Implicit: ...\n"),
    (knows_only_ports, "from agentvm.drivers.openai import x\n", "from agentvm.drivers.models import x\n"),
    (knows_only_ports, "from agentvm.drivers import openai\n", "from agentvm.storage import base\n"),
    (knows_only_ports, "import agentvm.storage.engines.lane\n", "import agentvm.storage.base\n"),
    (has_docstring, "x = 1\n", '"""Noun — what it is for."""\n'),
    (begins_with_a_noun, '"""What is stored."""\n', '"""Rows of the store."""\n'),
    (begins_with_a_noun, 'def f():\n  """It is kept."""\n', 'def f():\n  """Keeps a row."""\n'),
    (begins_with_a_noun, 'class A:\n  x: int\n  """Of the JSON."""\n', 'x = """What is no docstring."""\n'),
    (names_things, 'def f():\n  """Returns what was said."""\n', 'def f():\n  """Returns the text of `what`."""\n'),
    (names_things, 'class A:\n  """A call of somebody."""\n', 'x = f("what is no docstring")\n'),
    (errors_name_things, 'raise Conflict(f"{name} was changed meanwhile")\n', 'raise Conflict(f"{name} was changed")\n'),
    (errors_name_things, 'raise NotFound("whoever asks" + name)\n', 'log("what was said")\n'),
    (numbers_have_units, "SOON = 15.0\n", "REPLY_TIMEOUT_SECONDS = 15.0\n"),
    (numbers_have_units, "_ROOM: Final = 8 * 1024\n", "_ROOM_BYTES: Final = 8 * 1024\n"),
    (numbers_have_units, "MAX_NAME = 200\n", "MAX_NAMES = 200\nNAME_MAX = 200\n"),
    (constants_are_nouns, "PATIENCE_SECONDS = 15.0\n", "STOP_TIMEOUT_SECONDS = 15.0\n"),
    (constants_are_nouns, "POLL_MS, _LOOK_MS = 1, 2\n", "def f():\n  LOOK = 1\n"),
    (functions_are_verbs, "def _said(message): ...\n", "def _message_text(message): ...\n"),
    (functions_are_verbs, "class A:\n  async def hear(self): ...\n", "class A:\n  async def receive(self): ...\n"),
    (locals_are_nouns, "def f(one):\n  return one\n", "def f(session):\n  return session\n"),
    (locals_are_nouns, "def f():\n  found = get()\n", "def f():\n  session = get()\n"),
    (locals_are_nouns, "async def f():\n  return [said for said in log]\n", "found = get()\nx = row.found\n"),
    (locals_are_nouns, "def f(said):\n  return said\n", "def f(message):\n  return message\n"),
    (names_no_machine, "path = '/op" + "t/tools'\n", "path = 'adopt/tools'\n"),
    (names_no_machine, "see ../" + "shared/notes.md\n", "see ../docs/notes.md\n"),
    (names_no_machine, "https://files.python" + "hosted.org/x\n", "https://docs.python.org/3/\n"),
)


@pytest.mark.parametrize(("rule", "bad", "good"), PLANTED)
def test_the_rule_sees_a_planted_offence(rule: Rule, bad: str, good: str) -> None:
    assert list(rule(Module("runtime/planted.py", bad)))
    assert not list(rule(Module("runtime/planted.py", good)))


def test_the_boundaries_may_catch_everything_and_exist() -> None:
    assert not list(narrow_excepts(Module("cli/main.py", "try: ...\nexcept Exception: ...\n")))
    assert [name for name in sorted(BOUNDARIES) if not (SRC / name).exists()] == []


def test_a_module_named_utils_is_seen() -> None:
    assert list(telling_names(Module("model/utils.py", "")))


def test_every_rule_has_a_planted_offence() -> None:
    assert {*SRC_RULES, *WORD_RULES, names_no_machine} == {rule for rule, _, _ in PLANTED}


def test_a_module_without_a_test_and_a_stale_exception_are_seen() -> None:
    code, port = "def f():\n  return 1\n", 'class A:\n  def f(self):\n    """Fs."""\n    ...\n'
    modules = [Module("model/ids.py", code), Module("model/turn.py", code), Module("model/base.py", port)]
    assert list(untested(modules, {"model/test_ids.py", "model/test_turn.py"}, {})) == []
    assert list(untested(modules, {"model/test_ids.py"}, {})) == ["model/turn.py: no tests/model/test_turn.py"]
    assert list(untested(modules, {"model/test_ids.py"}, {"model/": "model/test_ids.py"})) == []
    assert list(untested([Module("model/__init__.py", code)], {"model/test_model.py"}, {})) == []
    assert len(list(untested(modules, {"model/test_ids.py"}, {"model/turn.py": "model/test_gone.py"}))) == 1
    assert len(list(untested(modules[:1], {"model/test_ids.py"}, {"model/ids.py": "model/test_ids.py"}))) == 1
