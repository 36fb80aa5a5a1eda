"""`avm config` at a real server, and without one."""

import json
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from tests.cli.desk import Done, avm, open_desk
from tests.cli.program import environment, run_avm, running

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, LlmSettings, SystemSettings
from agentvm.config.catalogue import SETTINGS

NOWHERE = "http://127.0.0.1:9"


async def test_settings_are_shown_explained_changed_and_taken_back() -> None:
    async with open_desk() as desk:
        shown = await desk.ok("config", "show", "defaults")
        assert shown.splitlines() == [
            "KEY                 VALUE  SOURCE",
            "defaults.timeout    30000  default",
            "defaults.maxTokens  4096   default",
        ]
        done = await desk.ok("config", "set", "limits.steps", "9", "--note", "fewer")
        assert done.splitlines()[1:] == ["limits.steps        9", "This is revision 1."]
        assert await desk.ok("config", "get", "limits.steps") == "9\n"
        assert await desk.record("config", "get", "limits.steps") == 9
        explained = await desk.ok("config", "explain", "limits.steps")
        assert "DESCRIPTION  Model" in explained
        assert "override change 1 by" in explained
        assert explained.splitlines()[-2:] == ["    25  default", explained.splitlines()[-1]]
        assert explained.splitlines()[-1].startswith("  * 9  override change 1")
        assert (await desk.record("config", "explain", "limits.steps"))["default"] == 25
        dry = await desk.ok("config", "set", "system.port", "9", "--dry-run")
        assert dry.splitlines()[-2:] == [
            "Dry run: nothing was changed.",
            "Effective at the next start: system.port",
        ]
        assert "This is revision 2." in await desk.ok("config", "unset", "limits")
        assert await desk.ok("config", "set", "limits.steps", "25", "--revision", "2")
        assert "No changes." in await desk.ok("config", "set", "limits.steps", "25")
        stale = await desk.avm("config", "set", "limits.steps", "3", "--revision", "2")
        assert (stale.code, "precondition_failed" in stale.err) == (1, True)


async def test_lists_prices_and_amounts_are_written_as_they_look() -> None:
    async with open_desk() as desk:
        await desk.ok("config", "set", "system.allowOrigins", "https://a.example, *")
        assert await desk.record("config", "get", "system.allowOrigins") == ["https://a.example", "*"]
        await desk.ok("config", "set", "billing.prices.openai/gpt-5.4-mini", '{"input": "0.4", "output": 1.6}')
        price = await desk.record("config", "get", "billing.prices.openai/gpt-5.4-mini")
        assert price == {"input": "0.4", "output": "1.6"}
        await desk.ok("config", "set", "limits.turnCost", "0.5")
        assert await desk.ok("config", "get", "limits.turnCost") == "0.5\n"


async def test_the_history_is_listed_compared_and_gone_back_in() -> None:
    async with open_desk() as desk:
        assert (await desk.avm("config", "history")).err == "No changes found.\n"
        await desk.ok("config", "set", "limits.steps", "9")
        await desk.ok("config", "set", "limits.steps", "8", "--note", "again")
        listed = await desk.record("config", "history", "--limit", "1")
        assert [(one["revision"], one["note"]) for one in listed] == [(2, "again")]
        assert "limits.steps=9" in await desk.ok("config", "history")
        assert (await desk.ok("config", "diff", "1")).splitlines()[1] == "limits.steps  9     8"
        assert (await desk.record("config", "diff", "0", "1"))["changed"] == [{"key": "limits.steps", "to": 9}]
        assert "This is revision 3." in await desk.ok("config", "rollback", "1")
        assert await desk.ok("config", "get", "limits.steps") == "9\n"
        await desk.ok("config", "rollback", "0")
        assert "limits.steps unset" in await desk.ok("config", "history")


async def test_a_secret_comes_from_stdin_and_is_never_an_argument() -> None:
    async with open_desk() as desk:
        refused = await desk.avm("config", "set", "llm.apiKey", "sk-planted")
        assert (refused.code, "sk-planted" in refused.err) == (2, False)
        masked = await desk.avm("config", "set", "llm.apiKey", given="***\n")
        assert (masked.code, "instead of a secret" in masked.err) == (1, True)
        done = await desk.avm("config", "set", "llm.apiKey", given="sk-planted\n")
        assert (done.code, "sk-planted" in done.out + done.err, "***" in done.out) == (0, False, True)
        assert await desk.ok("config", "get", "llm.apiKey") == "***\n"
        key = desk.server.config.llm.api_key
        assert key is not None
        assert key.reveal() == "sk-planted"


async def test_a_provider_with_a_key_is_added_by_one_change() -> None:
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0), llm=LlmSettings(provider="scripted")
    )
    async with start_server(config) as server:

        async def set_them(*words: str, given: str = "") -> Done:
            return await anyio.to_thread.run_sync(lambda: avm("config", "set", *words, url=server.url, given=given))

        alone = await set_them("llm.providers.gw.driver", "openai")
        assert (alone.code, "set llm.providers.gw.apiKey as well" in alone.err) == (1, True), alone.err
        alone = await set_them("llm.providers.gw.apiKey", given="sk-1")
        assert (alone.code, "set llm.providers.gw.driver as well" in alone.err) == (1, True), alone.err
        done = await set_them("llm.providers.gw.driver=openai", "llm.providers.gw.apiKey=-", given="sk-1\n")
        assert (done.code, "sk-1" in done.out) == (0, False), done.err
        assert server.config.providers["gw"].driver == "openai"
        assert (await set_them("llm.fallback", '["gw", "local"]')).code == 0
        assert (await set_them("llm.fallback", "[]")).code == 0


async def test_what_counts_is_marked_also_when_it_is_not_the_strongest() -> None:
    async with open_desk() as desk:
        await desk.ok("tenant", "create", "acme")
        await desk.ok("config", "set", "limits.steps", "5", "--tenant", "acme")
        await desk.ok("config", "set", "limits.steps", "3")
        explained = await desk.ok("config", "explain", "limits.steps", "--tenant", "acme")
        assert "  * 3  server" in explained
        assert "    5  tenant" in explained


async def test_a_tenants_own_settings_are_named_by_the_operator() -> None:
    async with open_desk() as desk:
        await desk.ok("tenant", "create", "acme")
        await desk.ok("config", "set", "limits.steps", "5", "--tenant", "acme")
        assert await desk.ok("config", "get", "limits.steps", "--tenant", "acme") == "5\n"
        assert await desk.ok("config", "get", "limits.steps") == "25\n"
        assert {one["key"] for one in await desk.record("config", "show", "--tenant", "acme")} < set(SETTINGS)
        refused = await desk.avm("config", "set", "system.port", "5", "--tenant", "acme")
        assert (refused.code, "can be set by the operator only" in refused.err) == (4, True)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("set", "limits.step", "5"), "did you mean limits.steps?"),
        (("set", "limits.steps", "many"), "a whole number"),
        (("set", "limits.steps"), "requires a value"),
        (("set", "limits", "5"), "this is a group"),
        (("set", "billing.prices.x", "{broken"), "dollars per million"),
        (("get", "nope"), "no such setting"),
        (("explain", "limits"), "this is a group"),
        (("show", "nope"), "no such setting"),
    ],
)
def test_a_slip_is_told_without_asking_the_server(arguments: tuple[str, ...], word: str) -> None:
    done = avm("config", *arguments, "--url", NOWHERE, url=NOWHERE)
    assert (done.code, word in done.err) == (2, True), done.err


def test_without_a_server_it_says_what_one_would_start_with(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("limits: {steps: 7}\nllm: {apiKey: sk-planted}\n")
    done = avm("config", "show", "limits.steps", "--config", str(file), url=NOWHERE)
    assert done.out.splitlines()[1].split() == ["limits.steps", "7", "file", f"{file}:1"]
    away = avm("config", "get", "limits.steps", url=NOWHERE)
    assert (away.code, away.out, "avm config get limits.steps --offline" in away.err) == (3, "", True)
    explained = avm("config", "explain", "limits.steps", url=NOWHERE)
    assert (explained.code, "No server answers" in explained.err) == (0, True)
    assert "sk-planted" not in avm("config", "show", "--offline", "--config", str(file), url=NOWHERE).out
    derived = avm("config", "get", "llm.model", "--offline", url=NOWHERE)
    assert (derived.code, bool(derived.out.strip())) == (0, True)
    unset = avm("config", "get", "otel.endpoint", "--offline", url=NOWHERE)
    assert (unset.code, "is not set: nothing is sent" in unset.err) == (1, True)
    unknown = avm("config", "get", "llm.providers.x.model", "--offline", url=NOWHERE)
    assert (unknown.code, "is not set" in unknown.err) == (1, True)
    file.write_text("limits: 5")
    assert avm("config", "show", "--config", str(file), url=NOWHERE).code == 1


def test_a_file_is_checked_without_a_server(tmp_path: Path) -> None:
    env = environment(tmp_path)
    good, bad, odd = (tmp_path / name for name in ("good.yaml", "bad.yaml", "odd.yaml"))
    good.write_text("limits: {steps: 7}")
    bad.write_text("limits:\n  steps: 0\nllm: {apikey: sk-planted}\n")
    odd.write_text("llm: {fallback: [nobody]}")
    fine, wrong, together = (run_avm("config", "validate", str(file), env=env) for file in (good, bad, odd))
    assert (fine.returncode, fine.stdout) == (0, f"{good} is valid.\n")
    assert wrong.returncode == 1
    assert [line.partition(": ")[0] for line in wrong.stderr.splitlines()] == [f"{bad}:2", f"{bad}:3"]
    assert "sk-planted" not in wrong.stderr
    assert (together.returncode, "known providers" in together.stderr) == (1, True)
    report = json.loads(run_avm("config", "validate", "--json", str(bad), env=env).stdout)
    assert (report["ok"], [one["key"] for one in report["problems"]]) == (False, ["limits.steps", "llm.apikey"])
    assert json.loads(run_avm("config", "schema", env=env).stdout)["properties"]["limits"]


def test_a_file_with_a_model_that_nobody_could_be_billed_for_is_warned_of(tmp_path: Path) -> None:
    env, file = environment(tmp_path, LLM_PROVIDER=""), tmp_path / "own.yaml"
    file.write_text("system: {auth: on}\nllm: {provider: openai, model: m2, baseUrl: 'http://127.0.0.1:9/v1'}\n")
    warned = run_avm("config", "validate", str(file), env=env)
    assert (warned.returncode, "billing.prices.openai/m2" in warned.stderr) == (0, True)
    file.write_text(file.read_text() + "billing: {prices: {openai/m2: {input: 0, output: 0}}}\n")
    assert run_avm("config", "validate", str(file), env=env).stderr == ""


def test_the_doctor_examines_the_file(tmp_path: Path) -> None:
    file, env = tmp_path / "c.yaml", environment(tmp_path)
    file.write_text("limits: {steps: 7}")
    assert f"{file} is valid" in run_avm("doctor", "--config", str(file), "--port", "0", env=env).stdout
    file.write_text("limits: {steps: none}")
    sick = run_avm("doctor", "--config", str(file), "--json", env=env)
    (finding,) = json.loads(sick.stdout)["checks"]
    assert (sick.returncode, finding["name"], finding["status"]) == (1, "config", "fail")
    assert f"{file}:1: limits.steps" in finding["text"]


def test_a_server_takes_settings_as_flags_but_no_secret(tmp_path: Path) -> None:
    env = environment(tmp_path)
    for wrong, word in (
        ("llm.apiKey=sk-planted", "LLM_API_KEY"),
        ("limits.step=5", "did you mean"),
        ("limits.steps=x", "whole"),
    ):
        done = run_avm("serve", "--memory", "--port", "0", "--set", wrong, env=env)
        assert (done.returncode, word in done.stderr, "sk-planted" in done.stderr) == (1, True, False), done.stderr
    for usage in (["--set", "nothing"], ["--set", "limits.steps=1", "--set", "limits.steps=2"]):
        assert run_avm("serve", "--memory", *usage, env=env).returncode == 2


async def test_what_a_change_hides_is_told_at_the_next_start_and_where_it_is_shown(tmp_path: Path) -> None:
    file, env = tmp_path / "c.yaml", environment(tmp_path, AVM_LIMITS__INBOX="9")
    file.write_text("limits:\n  steps: 7\n")
    arguments = ["serve", "--port", "0", "--config", str(file)]
    async with running(*arguments, env=env, errors=tmp_path / "first") as server:
        url = (await server.line_with("listening on")).split()[-1]
        for key in ("limits.steps", "limits.inbox", "limits.agents"):
            done = await anyio.to_thread.run_sync(partial(avm, "config", "set", key, "8", url=url))
            assert done.code == 0, done.err
        assert "setting_overridden" not in server.errors
    async with running(*arguments, env=env, errors=tmp_path / "second") as server:
        url = (await server.line_with("listening on")).split()[-1]
        told = [json.loads(line) for line in server.errors.splitlines() if "setting_overridden" in line]
        assert [(one["setting"], one["layer"], one["place"]) for one in told] == [
            ("limits.steps", "file", f"{file}:2"),
            ("limits.inbox", "environment", "AVM_LIMITS__INBOX"),
        ]
        shown = await anyio.to_thread.run_sync(lambda: avm("config", "show", "limits.steps", url=url))
        assert f"(overrides {file}:2)" in shown.out
    async with running(*arguments, "--no-overrides", env=env, errors=tmp_path / "third") as server:
        url = (await server.line_with("listening on")).split()[-1]
        shown = await anyio.to_thread.run_sync(lambda: avm("config", "get", "limits.steps", url=url))
        assert shown.out == "7\n"


async def test_without_a_server_what_was_changed_while_one_ran_counts_too(tmp_path: Path) -> None:
    env = environment(tmp_path)
    changes = {
        "limits.steps": 8,
        "llm.providers.gw": {"driver": "openai", "apiKey": "sk-planted", "baseUrl": "http://u:planted@10.0.0.5/v1"},
    }
    async with start_server(
        ServerConfig(
            system=SystemSettings(port=0, data_dir=str(tmp_path / "data"), shutdown_seconds=0),
            llm=LlmSettings(provider="scripted"),
        )
    ) as server:
        async with httpx2.AsyncClient() as client:
            assert (await client.put(f"{server.url}/v1/config", json={"changes": changes})).status_code == 200

        def shown() -> dict[str, tuple[object, str]]:
            done = run_avm("config", "show", "--offline", "--json", env={**env, "AVM_DATA_DIR": str(tmp_path / "data")})
            assert (done.returncode, "planted" in done.stdout + done.stderr) == (0, False), done.stderr
            return {one["key"]: (one["value"], one["layer"]) for one in json.loads(done.stdout) if "value" in one}

        assert (await anyio.to_thread.run_sync(shown))["limits.steps"] == (8, "override")
    before = set((tmp_path / "data").iterdir())
    found = await anyio.to_thread.run_sync(shown)
    assert found["limits.steps"] == (8, "override")
    assert found["llm.providers.gw.apiKey"] == ("***", "override")
    assert found["llm.providers.gw.driver"] == ("openai", "override")
    assert set((tmp_path / "data").iterdir()) == before


def test_without_a_server_a_tenants_own_settings_are_not_known() -> None:
    done = avm("config", "get", "limits.steps", "--offline", "--tenant", "acme", url=NOWHERE)
    assert (done.code, "requires a running server" in done.err) == (2, True)
