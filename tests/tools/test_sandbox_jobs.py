import sys

import pytest

from agentvm.errors import InvalidInput
from agentvm.errors.tool import TierUnavailable, WorkspaceFull
from agentvm.model.tier import Job, JobLimits
from agentvm.resources.sandbox import SandboxLimits
from agentvm.resources.tool import ToolNeeds
from agentvm.tools.sandbox_jobs import (
    DISK_MAX_BYTES,
    WALL_MAX_MS,
    JobFile,
    SandboxSpec,
    bytes_of,
    check_files,
    engine_of,
    limits_needed,
    limits_of,
    need_of,
    seconds_of,
    shown,
    text_of,
)


def test_a_request_only_narrows_its_sandbox_and_the_server_bounds_both() -> None:
    sandbox = SandboxLimits(timeout_ms=10_000, memory_bytes=2**40)
    limits = limits_of(sandbox, SandboxLimits(timeout_ms=50_000, processes=3))
    assert (limits.wall_ms, limits.processes) == (10_000, 3)
    assert limits.memory_bytes == 4 * 1024**3
    assert limits.cpu_seconds == JobLimits().cpu_seconds
    wide = limits_of(SandboxLimits(timeout_ms=10**9, file_bytes=2**50))
    assert (wide.wall_ms, wide.disk_bytes) == (WALL_MAX_MS, DISK_MAX_BYTES)
    assert seconds_of(limits_of(SandboxLimits(timeout_ms=1))) == 1


def test_a_rendered_sandbox_becomes_a_spec() -> None:
    rendered = {
        "runtime": "python",
        "isolator": "process",
        "limits": {"timeoutMs": 5},
        "network": {"mode": "allowlist", "allow": ["api.example.org"]},
        "env": {"A": "b"},
        "packages": ["numpy"],
        "persistent": True,
    }
    spec = SandboxSpec.of(rendered, {"a": b"1"})
    assert (spec.hosts, spec.limits.timeout_ms, spec.env, spec.files) == (("api.example.org",), 5, {"A": "b"}, {"a": b"1"})
    need = need_of(Job(engine="python", network=spec.hosts), spec)
    assert (need.packages, need.net, need.tier, need.persistent) == (("numpy",), ("api.example.org",), "process", True)
    closed = SandboxSpec.of({"runtime": "python", "network": {"mode": "none", "allow": ["x.org"]}}, {})
    assert closed.hosts == ()


def test_an_isolator_means_the_least_tier_and_an_unknown_one_is_refused() -> None:
    assert need_of(Job(engine="python"), SandboxSpec(isolator="docker")).tier == "container"
    assert need_of(Job(engine="python"), SandboxSpec()).tier is None
    with pytest.raises(TierUnavailable, match="srt"):
        need_of(Job(engine="python"), SandboxSpec(isolator="srt"))


def test_a_command_needs_its_program() -> None:
    assert need_of(Job(engine="command", argv=("git", "log")), SandboxSpec()).engine == "binary:git"
    assert need_of(Job(engine="command", argv=("./tool",)), SandboxSpec()).engine == "command"


def test_the_engine_is_that_of_the_request_or_of_the_sandbox() -> None:
    assert engine_of(None, SandboxSpec(runtime="node")) == "javascript"
    here = f"python:{sys.version_info.major}.{sys.version_info.minor}"
    assert engine_of("shell", SandboxSpec(runtime=here)) == "shell"
    assert engine_of(None, SandboxSpec(runtime="python:2.7")) == "python"
    for spec in (SandboxSpec(), SandboxSpec(runtime="ghcr.io/acme/image")):
        with pytest.raises(InvalidInput):
            engine_of(None, spec)


def test_a_runtime_that_is_not_this_machines_needs_its_image() -> None:
    job = Job(engine="python", code="1")
    for here in ("python", "python:3", f"python:{sys.version_info.major}.{sys.version_info.minor}", "node", "shell"):
        assert need_of(job, SandboxSpec(runtime=here)).engine == "python"
    for other in ("python:2.7", "python:3.1", "node:22", "ghcr.io/acme/image"):
        assert need_of(job, SandboxSpec(runtime=other)).engine == f"image:{other}"


def test_files_are_text_where_they_are_and_bytes_elsewhere() -> None:
    files = {"a": b"text \xc3\xbc", "b": b"\xff\xfe", "c": b"nul\0"}
    view = shown(files)
    assert view == {"a": "text ü", "b": JobFile(data=b"\xff\xfe"), "c": JobFile(data=b"nul\0")}
    assert bytes_of(view) == files
    assert text_of(b"a\0\xff") == "a\ufffd\ufffd"


def test_files_that_cannot_fit_are_refused_before_anything_starts() -> None:
    check_files({"a": b"x" * 10}, JobLimits(disk_bytes=10))
    with pytest.raises(WorkspaceFull):
        check_files({"a": b"x" * 11}, JobLimits(disk_bytes=10))
    with pytest.raises(WorkspaceFull):
        check_files({"a": b"", "b": b""}, JobLimits(files=1))


@pytest.mark.parametrize(
    "path", ["", "/etc/x", "../x", "a/../../b", "a//b", "./a", "a\0b", "x" * 256, "x" * 2000, "/".join("d" * 40)]
)
def test_a_path_that_leaves_the_workspace_is_refused_before_anything_starts(path: str) -> None:
    with pytest.raises(InvalidInput, match="not a path"):
        check_files({path: b""}, JobLimits())
    check_files({"a/$(id)\n/b": b""}, JobLimits())


def test_a_file_that_is_the_folder_of_another_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidInput, match="'a/b' cannot be a file and the folder of 'a/b/c'"):
        check_files({"a/b/c": b"", "a/b": b""}, JobLimits())
    check_files({"a/b/c": b"", "a/bc": b""}, JobLimits())


def test_the_needs_of_a_tool_and_its_sandbox_hold_together() -> None:
    needs = ToolNeeds(engine="python-subset", packages=("b",), walls=("mount",), memory_bytes=2**30, processes=2)
    spec = SandboxSpec(packages=("a",), isolator="docker", persistent=True)
    job = Job(engine="python-subset", limits=limits_of(spec.limits, limits_needed(needs)))
    need = need_of(job, spec, needs)
    assert (need.engine, need.packages, need.walls) == ("python-subset", ("a", "b"), frozenset({"mount"}))
    assert (need.memory_bytes, need.processes, need.tier, need.persistent) == (2**30, 2, "container", True)


def test_a_sandbox_with_less_than_the_tool_needs_is_refused() -> None:
    needs, sandbox = ToolNeeds(memory_bytes=2**30), SandboxLimits(memory_bytes=2**20)
    job = Job(engine="python", limits=limits_of(sandbox, limits_needed(needs)))
    with pytest.raises(TierUnavailable, match="needs memory_bytes of 1073741824"):
        need_of(job, SandboxSpec(), needs)
