import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.cli.fake_server import answering, refusing

from agentvm.cli import checks
from agentvm.config import MEMORY, BillingSettings, LlmSettings, ProviderSettings, ServerConfig, SystemSettings
from agentvm.model.secret import Secret
from agentvm.model.tier_settings import DockerSettings, RemoteSettings
from agentvm.model.tool_settings import ToolSettings
from agentvm.storage.engines.sqlite.datadir import lock_data_dir

KEY = Secret("sk-hidden")


class Health(BaseHTTPRequestHandler):
    body = b'{"status": "ok", "version": "9.9"}'

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Stranger(Health):
    body = b"hello"


@pytest.fixture
def serve_as(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a web server that answers as the parameter says."""
    with HTTPServer(("127.0.0.1", 0), request.param) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_this_python_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_python().status == "ok"
    monkeypatch.setattr(checks, "OLDEST_PYTHON", (99, 0))
    assert checks.check_python().status == "fail"


def test_a_data_directory_is_not_created_by_looking(tmp_path: Path) -> None:
    assert checks.check_data_dir(tmp_path / "a" / "b").status == "ok"
    assert list(tmp_path.iterdir()) == []
    assert checks.check_data_dir(None).status == "ok"


def test_a_data_directory_that_cannot_be_is_seen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert checks.check_data_dir(tmp_path / "file").status == "fail"
    assert checks.check_data_dir(tmp_path / "file" / "below").status == "fail"


def test_a_place_where_nothing_can_be_made_is_seen_also_by_root() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("/proc: not on this system")
    finding = checks.check_data_dir(Path("/proc/agentvm/data"))
    assert (finding.status, finding.remedy) == ("fail", "Choose another directory with --data-dir.")


def test_a_data_directory_in_use_is_seen(tmp_path: Path) -> None:
    assert checks.check_data_dir(tmp_path).status == "ok"
    with lock_data_dir(tmp_path):
        assert checks.check_data_dir(tmp_path).status == "warn"


@pytest.mark.parametrize(
    ("config", "status"),
    [
        (ServerConfig(), "ok"),
        (ServerConfig(llm=LlmSettings(provider="anthropic")), "fail"),
        (ServerConfig(llm=LlmSettings(provider="anthropic", api_key=KEY)), "ok"),
        (ServerConfig(llm=LlmSettings(provider="anthropic", providers={"anthropic": ProviderSettings(api_key=KEY)})), "ok"),
        (ServerConfig(llm=LlmSettings(provider="openai", base_url="http://127.0.0.1:9/v1")), "ok"),
        (ServerConfig(llm=LlmSettings(provider="openai")), "fail"),
        (ServerConfig(llm=LlmSettings(base_url="notaurl")), "fail"),
        (ServerConfig(llm=LlmSettings(provider="anthropic", api_key=Secret("sk-\nhidden"))), "fail"),
    ],
)
def test_what_a_server_would_refuse_is_seen_and_a_key_is_not_shown(config: ServerConfig, status: str) -> None:
    finding = checks.check_model(config, config.default_model)
    assert finding.status == status
    assert (finding.remedy is None) == (status == "ok")
    assert "sk-" not in repr(finding)


def test_the_model_and_its_address_are_named() -> None:
    text = "default: local/smollm2-135m (embedded, no API key needed)"
    assert checks.check_model(ServerConfig(), "local").text == text
    config = ServerConfig(llm=LlmSettings(model="openai/q", base_url="http://me:sk-1@127.0.0.1:9/v1?key=sk-2"))
    text = "default: openai/q (without an API key at http://127.0.0.1:9/v1)"
    assert checks.check_model(config, "openai").text == text


def test_a_package_that_is_missing_matters_to_the_driver_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PACKAGES", {"local": "no_such_package", "openai": "json"})
    assert [finding.status for finding in checks.check_packages("openai")] == ["ok", "ok"]
    assert [finding.status for finding in checks.check_packages("local")] == ["fail", "ok"]


def test_weights_are_looked_for_and_into(tmp_path: Path) -> None:
    config = ServerConfig(llm=LlmSettings(model_dir=str(tmp_path)))
    assert checks.check_weights(config, "local", "").status == "fail"
    assert checks.check_weights(config, "anthropic", "claude").status == "ok"
    (tmp_path / "smollm2-135m.gguf").write_bytes(b"GGUF, but not the one")
    assert checks.check_weights(config, "local", "").status == "fail"
    assert checks.check_weights(config, "local", "mine").status == "fail"
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    assert checks.check_weights(config, "local", "mine").status == "ok"


def test_whole_weights_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smollm2-135m.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(checks, "is_complete", lambda path, model: True)
    assert checks.check_weights(ServerConfig(llm=LlmSettings(model_dir=str(tmp_path))), "local", "smollm2-135m").status == "ok"


def test_what_may_not_be_read_is_a_failure_and_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "smollm2-135m.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(checks, "is_complete", refuse)
    assert checks.check_weights(ServerConfig(llm=LlmSettings(model_dir=str(tmp_path))), "local", "").status == "fail"
    monkeypatch.setattr(Path, "exists", refuse)
    assert checks.check_data_dir(tmp_path).status == "fail"


def test_a_server_that_is_well_is_told_without_a_warning(tmp_path: Path) -> None:
    told = {"version": "9.9", "status": "ok", "checks": [{"name": "disk", "status": "warn", "message": "almost full"}]}
    box = {"engines": ["python"], "walls": ["mount"]}
    tiers = [{**box, "tier": "isolate", "missing": "bashkit"}, {**box, "tier": "process"}]
    answers = {"/v1/auth/whoami": {"auth": "on"}, "/v1/status": told, "/v1/sandboxes/tiers": {"tiers": tiers}}
    with answering(lambda asked: (200, answers[asked.path])) as (url, asked):
        findings = checks.examine_running(url, tmp_path, KEY)
        assert findings is not None
        found = [(finding.name, finding.status) for finding in findings]
    assert found[:3] == [("server", "ok"), ("auth", "ok"), ("disk", "warn")]
    assert found[3:] == [("tier isolate", "ok"), ("tier process", "ok")]
    assert asked[0].key == "Bearer sk-hidden"


def test_tiers_of_a_server_are_told_with_what_they_need(tmp_path: Path) -> None:
    box = {"engines": ["python"], "walls": ["landlock"]}
    tiers = [{**box, "tier": "process"}, {"tier": "container", "missing": "no container engine at /x.sock"}]
    answers = {"/v1/auth/whoami": {"auth": "on"}, "/v1/status": {}, "/v1/sandboxes/tiers": {"tiers": tiers}}
    with answering(lambda asked: (200, answers[asked.path])) as (url, _):
        findings = checks.examine_running(url, tmp_path, KEY)
    assert findings is not None
    process, container = findings[-2:]
    assert (process.name, process.status, "forbids namespaces" in process.text) == ("tier process", "warn", True)
    assert (container.status, container.text) == ("warn", "no container engine at /x.sock")
    assert process.remedy
    assert container.remedy


def test_a_server_that_does_not_tell_its_tiers_is_well_all_the_same(tmp_path: Path) -> None:
    answers = {"/v1/auth/whoami": {"auth": "on"}, "/v1/status": {}}
    unknown = {"error": {"code": "not_found", "message": "Not Found"}}
    with answering(lambda asked: (200, answers[asked.path]) if asked.path in answers else (404, unknown)) as (url, _):
        findings = checks.examine_running(url, tmp_path, KEY)
    assert findings is not None
    assert (findings[-1].name, findings[-1].status) == ("sandbox", "ok")


@pytest.mark.parametrize(("status", "code"), [(401, "unauthenticated"), (403, "permission_denied")])
def test_who_may_not_see_how_a_server_is_hears_that_it_runs(status: int, code: str, tmp_path: Path) -> None:
    with answering(refusing(status, code, "No")) as (url, _):
        findings = checks.examine_running(url, tmp_path, None)
        assert findings is not None
        (finding,) = findings
    assert (finding.name, finding.status) == ("server", "ok")


def test_a_server_that_holds_its_data_and_does_not_answer_is_a_failure(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:1"
    assert checks.examine_running(nowhere, tmp_path, None) is None
    with lock_data_dir(tmp_path):
        findings = checks.examine_running(nowhere, tmp_path, None)
        assert findings is not None
        assert [finding.status for finding in findings] == ["fail"]


def test_a_free_port_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert checks.check_port("127.0.0.1", port).text.endswith("is free")
    assert checks.check_port("127.0.0.1", 0).status == "ok"


@pytest.mark.parametrize("serve_as", [Health], indirect=True)
def test_a_running_agentvm_is_recognised(serve_as: int) -> None:
    finding = checks.check_port("127.0.0.1", serve_as)
    assert (finding.status, finding.text) == ("ok", f"AgentVM 9.9 is running on 127.0.0.1:{serve_as}")


@pytest.mark.parametrize("serve_as", [Stranger], indirect=True)
def test_a_stranger_on_the_port_is_a_failure(serve_as: int) -> None:
    finding = checks.check_port("127.0.0.1", serve_as)
    assert (finding.status, finding.remedy) == ("fail", "Choose another port: --port 8081")


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_a_host_that_is_not_here_is_the_hosts_fault(host: str) -> None:
    (finding,) = checks.check_address(host, 8080)
    assert (finding.name, finding.status, finding.remedy) == ("host", "fail", "For local access only: --host 127.0.0.1")


def test_it_says_who_reaches_the_server() -> None:
    said = [next(checks.check_address(host, 0)).text for host in ("0.0.0.0", "127.0.0.1")]
    assert said == ["0.0.0.0 is reachable from other machines", "127.0.0.1 is local only"]


@pytest.mark.parametrize(
    ("config", "status", "text"),
    [
        (ServerConfig(), "ok", "off: every program"),
        (ServerConfig(system=SystemSettings(host="0.0.0.0")), "ok", "on: clients need an API key"),
        (ServerConfig(system=SystemSettings(auth="on")), "ok", "on: clients need an API key"),
        (
            ServerConfig(system=SystemSettings(auth="on", admin_key=Secret("mysecret"))),
            "fail",
            "AVM_ADMIN_KEY is not a valid key",
        ),
        (
            ServerConfig(system=SystemSettings(auth="on", server_key=Secret("zz"))),
            "fail",
            "AVM_SERVER_KEY is not a valid server key",
        ),
    ],
)
def test_it_says_whether_peers_need_a_key(config: ServerConfig, status: str, text: str) -> None:
    found = next(checks.check_auth(config))
    assert (found.status, found.text.startswith(text)) == (status, True)


def test_a_default_model_without_a_price_is_warned_of_where_it_would_be_refused() -> None:
    unpriced = ServerConfig(
        system=SystemSettings(auth="on"), llm=LlmSettings(provider="openai", model="qwen3", base_url="http://127.0.0.1:1/v1")
    )
    assert [finding.name for finding in checks.check_auth(unpriced)] == ["auth", "price"]
    for fine in (
        replace(unpriced, billing=BillingSettings(allow_unpriced="on")),
        replace(unpriced, system=SystemSettings(auth="off")),
        replace(unpriced, llm=replace(unpriced.llm, model="gpt-4o")),
    ):
        assert [finding.name for finding in checks.check_auth(fine)] == ["auth"]


def test_a_log_level_that_is_none_is_a_failure() -> None:
    assert checks.check_log_level("info").status == "ok"
    assert checks.check_log_level("loud").status == "fail"


def test_nobody_answers_where_nobody_is() -> None:
    assert checks.ask_health("no.such.host.invalid", 80) is None


def test_a_model_that_says_too_little_is_a_failure_and_the_rest_is_still_examined(tmp_path: Path) -> None:
    config = ServerConfig(llm=LlmSettings(model="mystery"), system=SystemSettings(data_dir=MEMORY, port=0))
    findings = {finding.name: finding.status for finding in checks.examine(config)}
    # Of sandboxes, which depend on the machine, below.
    for name in ("sandbox", "landlock", "seccomp", "cgroup", "engines", "tier isolate"):
        findings.pop(name, None)
    assert findings == {
        "python": "ok",
        "sqlite": "ok",
        "data": "ok",
        "model": "fail",
        "host": "ok",
        "port": "ok",
        "auth": "ok",
        "log": "ok",
    }


def test_the_walls_of_this_machine_are_told() -> None:
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY))
    findings = {finding.name: finding for finding in checks.check_sandboxes(config)}
    assert {"sandbox", "tier isolate"} <= findings.keys()
    assert all(finding.remedy for finding in findings.values() if finding.status != "ok")
    assert {finding.status for finding in findings.values()} <= {"ok", "warn"}


def test_a_tier_that_was_asked_for_and_is_not_there_is_a_warning_with_the_remedy() -> None:
    docker, remote = DockerSettings(socket="/no/engine.sock"), RemoteSettings(url="http://127.0.0.1:9")
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), tools=ToolSettings(docker=docker, remote=remote))
    findings = {finding.name: finding for finding in checks.check_sandboxes(config)}
    assert "/no/engine.sock" in findings["tier container"].text
    assert "tools.remote" in findings["tier remote"].text
    for name in ("tier container", "tier remote"):
        assert (findings[name].status, bool(findings[name].remedy)) == ("warn", True)
