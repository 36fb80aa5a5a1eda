"""Word rules — rules about the words of a module: small functions that yield offences; see `tests/test_house_rules.py`."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from tests.support.source_files import Module

Rule = Callable[[Module], Iterator[str]]

# A docstring's first sentence has a noun or a verb for its beginning: a reader who opens the file here knows no "it" yet.
PRONOUNS = set(
    "anybody anyone anything everybody everyone everything it its nobody nothing of somebody someone something such that "
    "their them there these they this those what whatever which who whoever whom whose".split()
)
# A reader of a docstring wants to know the thing: "returns the options", not "what was chosen"; "a client", not "whoever asks".
INDEFINITE = re.compile(
    r"\b(what|whatever|whoever|whom|somebody|someone|something|anybody|anyone|nobody|everybody|everyone)\b", re.IGNORECASE
)
# A person who reads an error knows "in the meantime", "message" and "continues".
PRIVATE_VERBS = re.compile(r"\b(meanwhile|elsewhere|said|told|goes on|go on|taken back)\b", re.IGNORECASE)
# Participles say how a value came to be there, not what it is: a reader needs the session, not that it was found.
VAGUE_LOCALS = set(
    "asked beside each elsewhere found given heard kept known made one said taken those told wanted what who".split()
)
# The same words as names of functions.
VAGUE_FUNCTIONS = (VAGUE_LOCALS | set("hear look say tell".split())) - {"taken"}
# A constant is named with the usual noun: timeout, interval, retry, retention, grace.
VAGUE_CONSTANTS = set("AGAIN ELSEWHERE GOODBYE HERE LOOK PATIENCE SAID SOON TIDY TOLD UNDERWAY".split())
# What a number counts or is, as the last word of a constant's name; MAX_FILES says it with its plural.
UNITS = set(
    "BITS BYTES CHARACTERS CODE COLUMNS DAYS FACTOR FORMAT HOURS LEVEL LINES MAX MESSAGES MIN MINUTES MODE MS NANO NS PAGES "
    "PORT RATIO SECONDS SHARE STATUS TOKENS VERSION".split()
)


def begins_with_a_noun(module: Module) -> Iterator[str]:
    for line, text in docstrings(module):
        if (first := re.match(r"\w+", text.strip())) and first.group().lower() in PRONOUNS:
            yield f"{line}: a docstring begins with {first.group()!r}"


def names_things(module: Module) -> Iterator[str]:
    for line, text in docstrings(module):
        # A word in backquotes is a value or a name.
        if word := INDEFINITE.search(re.sub(r"`[^`]*`", "", text)):
            yield f"{line}: a docstring says {word.group()!r}; name the thing or the person"


def errors_name_things(module: Module) -> Iterator[str]:
    for raised in module.nodes:
        if isinstance(raised, ast.Raise) and isinstance(raised.exc, ast.Call):
            for argument in raised.exc.args:
                for node in ast.walk(argument):
                    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
                    if word := INDEFINITE.search(text) or PRIVATE_VERBS.search(text):
                        yield f"{raised.lineno}: an error says {word.group()!r}; name the thing or the person"


def docstrings(module: Module) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring, those of attributes and constants included."""
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for line in node.body:
                if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str):
                    yield line.lineno, line.value.value


def numbers_have_units(module: Module) -> Iterator[str]:
    for line in module.tree.body:
        if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None and is_number(line.value):
            target = line.targets[0] if isinstance(line, ast.Assign) else line.target
            if isinstance(target, ast.Name) and target.id.isupper() and not has_unit(target.id):
                yield f"{line.lineno}: {target.id} does not say what it counts"


def constants_are_nouns(module: Module) -> Iterator[str]:
    for line in module.tree.body:
        if isinstance(line, ast.Assign | ast.AnnAssign):
            for target in line.targets if isinstance(line, ast.Assign) else [line.target]:
                for node in ast.walk(target):
                    if (
                        isinstance(node, ast.Name)
                        and node.id.isupper()
                        and (vague := VAGUE_CONSTANTS & set(node.id.split("_")))
                    ):
                        yield f"{line.lineno}: {node.id} has a private word, {vague.pop()}; use the technical noun"


def functions_are_verbs(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in VAGUE_FUNCTIONS:
            yield f"{node.lineno}: {node.name!r} does not say what it does; use a verb and a noun"


def is_number(value: ast.expr) -> bool:
    leaves = [node for node in ast.walk(value) if not isinstance(node, ast.operator | ast.unaryop | ast.BinOp | ast.UnaryOp)]
    return all(isinstance(node, ast.Constant) and type(node.value) in (int, float) for node in leaves)


def has_unit(name: str) -> bool:
    first, *_, last = name.lstrip("_").split("_") * 2
    return last in UNITS or (first in {"MAX", "MIN"} and last.endswith("S"))


def locals_are_nouns(module: Module) -> Iterator[str]:
    for function in module.nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in VAGUE_LOCALS:
                        yield f"{node.lineno}: {name!r} does not say what it is; name the thing"


def defined_twice(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Public class names with the modules that define them, where there is more than one."""
    places: dict[str, list[str]] = {}
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module.name)
    return {name: where for name, where in places.items() if len(where) > 1}


WORD_RULES: tuple[Rule, ...] = (
    begins_with_a_noun,
    names_things,
    errors_name_things,
    numbers_have_units,
    constants_are_nouns,
    locals_are_nouns,
    functions_are_verbs,
)
