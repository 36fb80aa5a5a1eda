from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resources.library import Library

from agentvm.errors.resource import ResourceInvalid, ResourceNotFound, ResourceTooLarge
from agentvm.model.resource import digest_of
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS
from agentvm.resources.sandbox import merge

SANDBOXES = KINDS["sandboxes"]
BASE: dict[str, object] = {
    "runtime": "python",
    "isolator": "process",
    "limits": {"timeoutMs": 1000, "memoryBytes": 5},
    "network": {"mode": "allowlist", "allow": ["api.example.org"]},
    "env": {"A": "1", "B": "2"},
    "files": {"a.txt": "base", "b.txt": "base"},
    "packages": ["numpy", "pandas"],
    "persistent": True,
}


def test_a_sandbox_is_rendered_as_it_is() -> None:
    library = Library()
    node = library.put("sandboxes", "box", BASE)
    assert library.render(node) == BASE
    with pytest.raises(ResourceNotFound):
        library.render(node, "part")


def test_one_that_extends_another_says_only_what_differs() -> None:
    library = Library()
    library.put("sandboxes", "base", BASE)
    library.put("sandboxes", "middle", {"extends": "resource://sandboxes/base", "isolator": "docker"})
    child = {
        "extends": "resource://sandboxes/middle@^1",
        "limits": {"memoryBytes": 9, "processes": 2},
        "network": {"allow": ["db.example.org:5432"]},
        "env": {"B": "3"},
        "files": {"b.txt": "child", "c.bin": {"data": "aGk="}},
        "packages": ["pandas", "scipy"],
        "persistent": False,
    }
    assert library.render(library.put("sandboxes", "child", child)) == {
        "runtime": "python",
        "isolator": "docker",
        "limits": {"timeoutMs": 1000, "memoryBytes": 9, "processes": 2},
        "network": {"mode": "allowlist", "allow": ["db.example.org:5432"]},
        "env": {"A": "1", "B": "3"},
        "files": {"a.txt": "base", "b.txt": "child", "c.bin": {"blob": digest_of(b"hi"), "size": 2}},
        "packages": ["numpy", "pandas", "scipy"],
        "persistent": False,
    }


def test_who_closes_the_network_closes_all_of_it() -> None:
    library = Library()
    library.put("sandboxes", "base", BASE)
    spec = library.render(library.put("sandboxes", "c", {"extends": "resource://sandboxes/base", "network": {"mode": "none"}}))
    assert isinstance(spec, dict)
    assert spec["network"] == {"mode": "none"}


words = st.sampled_from(["a", "b", "c", "d"])
specs = st.fixed_dictionaries(
    {},
    optional={
        "runtime": words,
        "isolator": words,
        "limits": st.dictionaries(st.sampled_from(["timeoutMs", "processes"]), st.integers(1, 9)),
        "network": st.fixed_dictionaries(
            {}, optional={"mode": st.sampled_from(["none", "allowlist"]), "allow": st.lists(words)}
        ),
        "env": st.dictionaries(words, words),
        "files": st.dictionaries(words, words),
        "packages": st.lists(words, unique=True),
        "persistent": st.booleans(),
    },
)


def modelled(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The same, written out member by member."""
    result: dict[str, Any] = {}
    for member in ("runtime", "isolator", "persistent"):
        for spec in (base, over):
            if member in spec:
                result[member] = spec[member]
    for member in ("limits", "network", "env", "files"):
        for spec in (base, over):
            for name, value in spec.get(member, {}).items():
                result.setdefault(member, {})[name] = value
            if member in spec:
                result.setdefault(member, {})
    for spec in (base, over):
        if "packages" in spec:
            result.setdefault("packages", [])
            result["packages"] += [one for one in spec["packages"] if one not in result["packages"]]
    if result.get("network", {}).get("mode") == "none":
        result["network"].pop("allow", None)
    return result


@given(specs, specs)
def test_merging_is_what_a_plain_model_says(base: dict[str, Any], over: dict[str, Any]) -> None:
    assert merge(base, over) == modelled(base, over)


@given(specs)
def test_merging_with_nothing_changes_nothing(spec: dict[str, Any]) -> None:
    plain = merge({}, spec)
    assert merge(plain, {}) == plain
    assert merge(plain, spec) == plain


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "a\0b", "a\nb", "a\\b", "x" * 2_000, "a/" * 40 + "a"]
)
def test_a_path_that_leads_out_or_is_none_is_refused(path: str) -> None:
    with pytest.raises(ResourceInvalid, match="is not a valid path"):
        accept(SANDBOXES, {"runtime": "python", "files": {path: ""}})


def test_a_file_cannot_be_a_folder_too() -> None:
    with pytest.raises(ResourceInvalid, match="'a' cannot be a file and the folder of 'a/b'"):
        accept(SANDBOXES, {"runtime": "python", "files": {"a/b": "", "a": ""}})
    library = Library()
    library.put("sandboxes", "base", {"runtime": "python", "files": {"a": ""}})
    node = library.put("sandboxes", "child", {"extends": "resource://sandboxes/base", "files": {"a/b": ""}})
    with pytest.raises(ResourceInvalid, match="cannot be a file"):
        library.render(node)


@pytest.mark.parametrize(
    "entry", ["example.org", "example.org:443", "*.example.org", "10.0.0.1:80", "localhost", "[::1]:80", "[::1]", "EXAMPLE.org"]
)
def test_hosts_with_and_without_a_port_may_be_allowed(entry: str) -> None:
    accept(SANDBOXES, {"runtime": "python", "network": {"mode": "allowlist", "allow": [entry]}})


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "https://example.org",
        "example.org/path",
        "example.org:",
        "example.org:0",
        "example.org:70000",
        "a b",
        "*",
        "a..b",
        "-a",
        "::1",
        "user@example.org",
    ],
)
def test_anything_else_cannot_be_allowed(entry: str) -> None:
    with pytest.raises(ResourceInvalid, match=r"network\.allow\.0: .* must be a host or host:port"):
        accept(SANDBOXES, {"runtime": "python", "network": {"mode": "allowlist", "allow": [entry]}})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({}, "runtime is missing"),
        ({"extends": "base"}, "extends must be a URI"),
        ({"extends": "resource://prompts/x"}, "extends cannot refer to prompts"),
        ({"runtime": "python", "env": {"1A": ""}}, "env: '1A' is not the name of a variable"),
        ({"runtime": "python", "env": {"A=B": ""}}, "is not the name of a variable"),
        ({"runtime": "python", "env": {"A": "\0"}}, "env.A"),
        ({"runtime": "python", "env": {"A": 1}}, "env.* must be a string"),
        ({"runtime": "python", "limits": {"cpuSeconds": 0}}, "limits.cpuSeconds"),
        ({"runtime": "python", "limits": {"memoryBytes": -1}}, "limits.memoryBytes"),
        ({"runtime": "python", "network": {"mode": "none", "allow": ["a"]}}, "network.mode is none"),
        ({"runtime": "python", "network": {"allow": ["a"]}}, "network.mode is none"),
        ({"runtime": "python", "network": {"mode": "open"}}, "network.mode must be one of"),
        ({"runtime": "python", "packages": ["a", "a"]}, "packages lists an entry twice"),
        ({"runtime": "python", "packages": ["a\n"]}, "is not the name of a package"),
        ({"runtime": "rm -rf"}, "runtime"),
        ({"runtime": "python", "env": {f"A{i}": "" for i in range(2_000)}}, "env has 2000 variables"),
        ({"runtime": "python", "files": {f"a{i}": "" for i in range(2_000)}}, "files has 2000 files"),
    ],
)
def test_a_sandbox_that_cannot_be_is_refused_by_the_name_of_the_member(content: dict[str, object], why: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(SANDBOXES, content)
    assert why in str(caught.value)


def test_what_many_say_together_may_be_too_much() -> None:
    library = Library()
    big = {f"f{i}": "x" * 1_000_000 for i in range(4)}
    library.put("sandboxes", "base", {"runtime": "python", "files": big})
    node = library.put("sandboxes", "child", {"extends": "resource://sandboxes/base", "files": {"g": "x" * 1_000_000}})
    with pytest.raises(ResourceTooLarge):
        library.render(node)


def test_it_is_found_by_what_runs_in_it() -> None:
    assert SANDBOXES.text(accept(SANDBOXES, BASE)) == "python\nprocess\nnumpy\npandas"
