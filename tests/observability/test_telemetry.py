"""What waits for a collector is bounded, a dead one costs a warning, and off costs nothing."""

import subprocess
import sys
import threading
from collections.abc import Sequence

import anyio
import pytest
from tests.observability.collector import collecting
from tests.observability.test_tracing import span, tell_turn
from tests.observability.turns import one_turn
from tests.server.http.fixtures import OPERATOR

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, OtelSettings, ServerConfig, SessionSettings, SystemSettings
from agentvm.config.load import from_environment
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import ConfigInvalid
from agentvm.observability import otlp, telemetry
from agentvm.observability.log_filter import EVERY, LogScope
from agentvm.observability.spans import Span
from agentvm.observability.telemetry import (
    BATCH_SPANS_MAX,
    WARNING_INTERVAL_SECONDS,
    Sender,
    Snapshot,
    open_telemetry,
)

NOTHING = Snapshot(0, 1, (), ())


class Fake:
    """A collector that takes what comes, or does not; `gate` holds it up."""

    problem = "HTTP 418"

    def __init__(self, *, takes: bool = True, gate: threading.Event | None = None) -> None:
        self.takes, self.gate = takes, gate
        self.entered = threading.Event()
        self.spans: list[Span] = []
        self.batches: list[int] = []
        self.snapshots: list[Snapshot] = []
        self.stopped = False

    def send_spans(self, spans: Sequence[Span]) -> bool:
        self.entered.set()
        if self.gate is not None:
            self.gate.wait(20)
        self.batches.append(len(spans))
        self.spans += spans
        return self.takes

    def send_metrics(self, snapshot: Snapshot) -> bool:
        self.snapshots.append(snapshot)
        return self.takes

    def stop(self) -> None:
        self.stopped = True
        if self.gate is not None:
            self.gate.set()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("agentvm-otlp", "Otel"))]


def test_what_waits_is_sent_in_batches_with_the_last_numbers_and_the_thread_ends() -> None:
    fake = Fake()
    sender = Sender(fake)
    assert threads() == []
    for number in range(BATCH_SPANS_MAX - 1):
        sender.put(span(number))
    assert threads() == []
    sender.flush(NOTHING)
    sender.flush(Snapshot(0, 2, (), ()))
    sender.put(span(BATCH_SPANS_MAX))
    sender.close()
    assert len(fake.spans) == BATCH_SPANS_MAX
    assert max(fake.batches) <= BATCH_SPANS_MAX
    assert fake.snapshots[-1].at == 2
    assert fake.stopped
    assert threads() == []
    sender.put(span(1))
    assert sender.lost == 1


def test_a_full_queue_loses_what_comes_and_waits_for_nobody() -> None:
    fake = Fake(gate=threading.Event())
    sender = Sender(fake, room=10)
    sender.put(span(0))
    sender.flush()
    assert fake.entered.wait(60)
    for number in range(25):
        sender.put(span(number))
    assert sender.lost == 15
    assert fake.gate is not None
    fake.gate.set()
    sender.close()
    assert len(fake.spans) == 11


def test_a_collector_that_takes_nothing_is_told_of_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    sender = Sender(Fake(takes=False), now=lambda: now[0])
    for _ in range(3):
        sender.put(span(1))
        sender.flush(NOTHING)
        with sender._changed:
            assert sender._changed.wait_for(sender._is_idle, 10)
    now[0] = WARNING_INTERVAL_SECONDS + 1
    sender.put(span(1))
    sender.close()
    warnings = [vars(record) for record in caplog.records if record.getMessage() == "otlp_not_sent"]
    assert [(one["what"], one["spans_lost"]) for one in warnings] == [("traces", 1), ("traces", 3)]
    assert {one["problem"] for one in warnings} == {"HTTP 418"}
    assert (sender.lost, sender.failures) == (4, 7)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of a fraction of a second at the end, in place of a few seconds."""
    monkeypatch.setattr(telemetry, "FLUSH_SECONDS", 0.2)
    for module in (telemetry, otlp):
        monkeypatch.setattr(module, "REQUEST_TIMEOUT_SECONDS", 0.2)


async def turn(config: ServerConfig) -> None:
    """One turn, and the end of its server."""
    with anyio.fail_after(60):
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
            await one_turn(vm)


@pytest.mark.usefixtures("impatient")
async def test_a_dead_collector_delays_neither_a_turn_nor_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with collecting() as gone:
        url = gone.url
    # Nobody listens there any more.
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY),
        sessions=SessionSettings(titles="off"),
        otel=OtelSettings(endpoint=url, export_seconds=0.1),
    )
    await turn(config)
    assert threads() == []
    assert sum(record.getMessage() == "otlp_not_sent" for record in caplog.records) == 1
    assert all(record.name.startswith("agentvm") for record in caplog.records)


@pytest.mark.usefixtures("impatient")
async def test_a_slow_collector_delays_no_turn_and_the_end_by_its_timeout_at_most() -> None:
    with collecting() as collector:
        collector.slow = threading.Event()
        config = ServerConfig(
            system=SystemSettings(port=0, data_dir=MEMORY),
            sessions=SessionSettings(titles="off"),
            otel=OtelSettings(endpoint=collector.url, export_seconds=0.1),
        )
        await turn(config)
        # Its timeout is also that of the running request, which may end a moment later.
        sending = [thread for thread in threading.enumerate() if thread.name == "agentvm-otlp"]
        for thread in sending:
            await anyio.to_thread.run_sync(thread.join, 60)
        assert threads() == []
        assert collector.bodies


async def test_numbers_come_again_and_again() -> None:
    with collecting() as collector:
        config = ServerConfig(
            system=SystemSettings(port=0, data_dir=MEMORY),
            sessions=SessionSettings(titles="off"),
            otel=OtelSettings(endpoint=collector.url, export_seconds=0.1, traces="off"),
        )
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}):
            await anyio.to_thread.run_sync(collector.wait, lambda: len(collector.metrics) >= 3)
        assert collector.traces == []


@pytest.mark.parametrize(
    "otel",
    [OtelSettings(), OtelSettings(endpoint="http://localhost:4318", traces="off", metrics="off")],
    ids=["no endpoint", "nothing to send"],
)
async def test_off_has_no_effector(otel: OtelSettings) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY), otel=otel)
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        ecosystem = getattr(vm.runtime.journal._broadcast, "__self__", None)
        names = {type(one).__name__ for one in getattr(ecosystem, "_effectors", ())}
    assert "Metrics" in names
    assert "Tracing" not in names
    assert threads() == []


def test_off_imports_nothing_of_it() -> None:
    program = """
import sys, anyio
from agentvm import ScriptedDriver, ServerConfig
from agentvm.app import open_agentvm
from agentvm.config import MEMORY, SystemSettings
import agentvm.cli.main
async def main():
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY))
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}):
        pass
anyio.run(main)
wrong = [name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "google", "requests")]
own = {f"agentvm.observability.{name}" for name in ("otlp", "telemetry", "tracing", "spans", "genai")}
wrong += [name for name in sys.modules if name in own]
print(wrong)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


async def test_without_the_packages_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "agentvm.observability.otlp", raising=False)
    # As the interpreter does for what is not there.
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY), otel=OtelSettings(endpoint="http://user:planted@localhost:4318")
    )
    with pytest.raises(ConfigInvalid, match=r"otel\.endpoint.*pip install 'agentvm\[otel\]'") as caught:
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}):
            pass
    assert "planted" not in str(caught.value)


async def test_a_variable_of_the_platform_without_the_packages_costs_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "agentvm.observability.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:planted@localhost:4318", "AVM_DATA_DIR": ":memory:"}
    async with open_agentvm(from_environment(environ), drivers={"scripted": ScriptedDriver()}) as vm:
        found = await vm.logs.find(EVERY, LogScope(None, OPERATOR), limit=100)
        (entry,) = [one for one in found.entries if one.event == "otlp_not_opened"]
        assert (entry.level, entry.facts["variable"]) == ("warning", "OTEL_EXPORTER_OTLP_ENDPOINT")
        assert "pip install" in str(entry.facts["reason"])
        assert "planted" not in str(entry)
    with pytest.raises(ConfigInvalid, match="pip install"):
        async with open_agentvm(
            from_environment({**environ, "AVM_OTEL__ENDPOINT": "http://localhost:4318"}), drivers={"scripted": ScriptedDriver()}
        ):
            pass


async def test_a_variable_that_cannot_be_used_is_told_of() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317", "AVM_DATA_DIR": ":memory:"}
    async with open_agentvm(from_environment(environ), drivers={"scripted": ScriptedDriver()}) as vm:
        found = await vm.logs.find(EVERY, LogScope(None, OPERATOR), limit=100)
        assert [one.facts["variable"] for one in found.entries if one.event == "variable_ignored"] == [
            "OTEL_EXPORTER_OTLP_ENDPOINT"
        ]


async def test_a_part_of_all_turns_can_be_sent() -> None:
    with collecting() as collector:
        to = OtelSettings(endpoint=collector.url, sample_ratio=0.5, metrics="off", export_seconds=3_600)
        async with open_telemetry(
            to, clock=lambda: 1, is_known=lambda provider, model: True, tools=tuple, driver_of=str
        ) as opened:
            for number in range(400):
                tell_turn(opened.tracing, f"turn_{number}")
    assert 140 < len(collector.spans) < 260
    assert collector.metrics == []
    assert telemetry.WAITING_SPANS_MAX > 400
