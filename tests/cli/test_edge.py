"""avm edge — the commands that build and deploy the Worker."""

import hmac
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentvm.cli import edge_build
from agentvm.cli.edge import edge
from agentvm.errors import NotAvailable


def test_a_build_without_the_sources_says_where_they_are(tmp_path: Path) -> None:
    result = CliRunner().invoke(edge, ["build", "--source", str(tmp_path)])
    assert isinstance(result.exception, NotAvailable)
    assert "the folder edge/ of a checkout" in str(result.exception)


def test_a_deployment_builds_first_and_passes_options_on_to_wrangler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(edge_build, "run_node", lambda *arguments, **_: ran.append(arguments))
    result = CliRunner().invoke(edge, ["deploy", "-o", str(tmp_path), "--", "--dry-run"])
    assert result.exception is None, result.output
    assert [Path(arguments[0]).name for arguments in ran] == ["npm-cli.js", "esbuild", "wrangler.js"]
    assert ran[-1][1:] == ("deploy", "--config", str(tmp_path / "wrangler.jsonc"), "--dry-run")
    # The tools lie beside the bundle: wrangler would upload modules of theirs.
    assert '"find_additional_modules": false' in (tmp_path / "wrangler.jsonc").read_text()


def test_wrangler_is_the_one_of_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(edge_build, "run_node", lambda *arguments, **_: ran.append(arguments))
    result = CliRunner().invoke(edge, ["wrangler", "-o", str(tmp_path), "--", "kv", "key", "list", "--local"])
    assert result.exception is None, result.output
    assert Path(ran[-1][0]) == tmp_path / ".tools" / "node_modules" / "wrangler" / "bin" / "wrangler.js"
    assert ran[-1][1:] == ("kv", "--config", str(tmp_path / "wrangler.jsonc"), "key", "list", "--local")


def test_a_key_is_shown_once_and_the_worker_gets_its_digest() -> None:
    result = CliRunner().invoke(edge, ["key", "acme", "-c", "user-1", "--ledger"], env={"KEY_PEPPER": "salt"})
    shown = dict(line.split(maxsplit=1) for line in result.output.splitlines())
    assert shown["entry"] == "key:" + hmac.digest(b"salt", shown["key"].encode(), "sha256").hex()
    assert json.loads(shown["value"]) == {"tenant": "acme", "containers": ["user-1"], "ledger": True}
    assert CliRunner().invoke(edge, ["key", "acme"], env={"KEY_PEPPER": ""}).exit_code == 2


def test_a_second_build_keeps_the_configuration_of_the_operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(edge_build, "run_node", lambda *arguments, **_: None)
    (tmp_path / "wrangler.jsonc").write_text("{}")
    assert CliRunner().invoke(edge, ["build", "-o", str(tmp_path)]).exception is None
    assert (tmp_path / "wrangler.jsonc").read_text() == "{}"
