"""Needs — the cores, memory, disk and traffic that a workload takes, each as a sum of named terms."""

from agentvm.cost.coefficients import Coefficients
from agentvm.cost.workload import Workload
from agentvm.model.base import Record
from agentvm.model.limits import Limits

BUSY_SHARE = 0.7
"""How busy a core may be in the busiest minutes: above it, turns wait for each other."""
USUAL = Limits()
"""Agents stay in memory for a while after their turns: how long, and how many at most."""
GB_BYTES = 1e9
TB_BYTES = 1e12


class Term(Record):
    """A summand, with the multiplication that it came from."""

    name: str
    amount: float
    by: str


class Requirement(Record):
    """An amount of one thing."""

    unit: str
    terms: tuple[Term, ...]

    @property
    def amount(self) -> float:
        return sum(term.amount for term in self.terms)


class Needs(Record):
    """The sums of all things that a workload takes from its servers."""

    server_cores: Requirement
    """For the server's own process, in the busiest minutes."""
    tool_cores: Requirement
    """For code in sandboxes, in the busiest minutes."""
    memory: Requirement
    disk: Requirement
    disk_syncs: Requirement
    """Syncs of the disk a second, in the busiest minutes; turns of the same moment share them, which is not counted here."""
    backup: Requirement
    traffic: Requirement


def needs_of(workload: Workload, measured: Coefficients) -> Needs:
    """Returns the needs of a workload. Each is linear in the workload."""
    return Needs(
        server_cores=Requirement(unit="cores", terms=_server_cores(workload, measured)),
        tool_cores=Requirement(unit="cores", terms=_tool_cores(workload, measured)),
        memory=Requirement(unit="GB", terms=_memory(workload, measured)),
        disk=Requirement(unit="GB", terms=_disk(workload, measured)),
        disk_syncs=Requirement(unit="syncs/s", terms=_disk_syncs(workload, measured)),
        backup=Requirement(unit="GB", terms=_backup(workload, measured)),
        traffic=Requirement(unit="TB", terms=_traffic(workload, measured)),
    )


def sandboxes_at_once(workload: Workload) -> float:
    """The sandboxes of the busiest minutes."""
    return workload.peak_turns_per_second * workload.tools * workload.tool_seconds


def idle_agents(workload: Workload) -> float:
    """The agents that are still in memory after their turns, in the busiest minutes."""
    return min(workload.users, USUAL.agents, workload.peak_turns_per_second * USUAL.idle_seconds)


def _server_cores(workload: Workload, measured: Coefficients) -> tuple[Term, ...]:
    rate = workload.peak_turns_per_second
    fixed, delta = measured.cpu_per_turn.value / 1e3, measured.cpu_per_delta.value / 1e6
    visit = measured.cpu_per_visit.value / 1e3
    return (
        Term(name="turns", amount=rate * fixed / BUSY_SHARE, by=f"{rate:.1f} turns/s x {fixed * 1e3:.2f} ms / {BUSY_SHARE}"),
        Term(
            name="deltas",
            amount=rate * workload.deltas * delta / BUSY_SHARE,
            by=f"{rate * workload.deltas:,.0f} deltas/s x {delta * 1e6:.1f} us / {BUSY_SHARE}",
        ),
        Term(
            name="visits",
            amount=rate * workload.visits * visit / BUSY_SHARE,
            by=f"{rate * workload.visits:.1f} visits/s x {visit * 1e3:.2f} ms / {BUSY_SHARE}",
        ),
    )


def _tool_cores(workload: Workload, measured: Coefficients) -> tuple[Term, ...]:
    calls, seconds_per_call = workload.peak_turns_per_second * workload.tools, measured.cpu_per_tool_call.value
    by = f"{calls:.2f} calls/s x {seconds_per_call:.1f} ms / {BUSY_SHARE}"
    return (Term(name="sandboxes", amount=calls * seconds_per_call / 1e3 / BUSY_SHARE, by=by),)


def _memory(workload: Workload, measured: Coefficients) -> tuple[Term, ...]:
    sockets = workload.users * workload.connected
    return (
        _bytes("server", 1, measured.memory_of_server.value),
        _bytes("connected users", sockets, measured.memory_per_socket.value),
        _bytes("turns under way", workload.streams, measured.memory_per_stream.value),
        _bytes("agents at rest", idle_agents(workload), measured.memory_per_agent.value),
        _bytes("sandboxes at once", sandboxes_at_once(workload), measured.memory_per_jail.value),
    )


def _disk(workload: Workload, measured: Coefficients) -> tuple[Term, ...]:
    turns = workload.turns * workload.months
    return (
        _bytes("users", workload.users, measured.disk_per_user.value),
        _bytes("turns kept", turns, measured.disk_per_turn.value),
        _bytes("text kept", turns * workload.text_bytes, measured.disk_per_text.value),
    )


def _disk_syncs(workload: Workload, measured: Coefficients) -> tuple[Term, ...]:
    rate, syncs_per_turn = workload.peak_turns_per_second, measured.syncs_per_turn.value
    return (Term(name="turns", amount=rate * syncs_per_turn, by=f"{rate:.1f} turns/s x {syncs_per_turn:.2f} syncs"),)


def _backup(workload: Workload, measured: Coefficients) -> tuple[Term, ...]:
    stored, ratio = sum(term.amount for term in _disk(workload, measured)), measured.backup_ratio.value
    return (Term(name="copy of the disk", amount=stored * ratio, by=f"{stored:,.1f} GB x {ratio:.3f}"),)


def _traffic(workload: Workload, measured: Coefficients) -> tuple[Term, ...]:
    deltas = workload.turns * workload.deltas
    return (_bytes("deltas to clients", deltas, measured.traffic_per_delta.value, TB_BYTES),)


def _bytes(name: str, count: float, unit_bytes: float, unit: float = GB_BYTES) -> Term:
    return Term(
        name=name, amount=count * unit_bytes / unit, by=f"{count:,.0f} x {unit_bytes:,.{0 if unit_bytes >= 100 else 2}f} bytes"
    )
