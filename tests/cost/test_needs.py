"""What a workload takes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cost.coefficients import ROUND

from agentvm.cost.needs import idle_agents, needs_of
from agentvm.cost.workload import MONTH_SECONDS, Workload
from agentvm.model.limits import Limits

ONE_A_SECOND = Workload(users=1_000, turns=round(MONTH_SECONDS), peak=1.0, months=1.0)


def test_each_need_is_the_sum_of_its_terms() -> None:
    needs = needs_of(ONE_A_SECOND, ROUND)
    assert needs.server_cores.amount == pytest.approx((0.001 + 100 * 10e-6 + 0.2 * 0.005) / 0.7)
    assert needs.tool_cores.amount == pytest.approx(0.05 * 0.010 / 0.7)
    assert needs.memory.amount == pytest.approx(0.1 + 1 * 2e-5 + 20 * 5e-5 + 300 * 1e-5 + 0.1 * 3e-3)
    assert needs.disk.amount == pytest.approx(1e-3 + ONE_A_SECOND.turns * (1_000 + 1_300 * 2) / 1e9)
    assert needs.disk_syncs.amount == pytest.approx(3)
    assert needs.backup.amount == pytest.approx(needs.disk.amount * 0.5)
    assert needs.traffic.amount == pytest.approx(ONE_A_SECOND.turns * 100 * 300 / 1e12)


def test_each_term_says_what_was_multiplied() -> None:
    disk = needs_of(ONE_A_SECOND, ROUND).disk
    assert (disk.terms[0].name, disk.terms[0].by) == ("users", "1,000 x 1,000 bytes")


def test_agents_rest_in_memory_after_their_turns_as_many_as_there_are_users_or_a_server_keeps() -> None:
    busy = msgspec.structs.replace(ONE_A_SECOND, turns=round(MONTH_SECONDS * 1_000))
    assert [round(idle_agents(work)) for work in (ONE_A_SECOND, busy)] == [300, 1_000]
    assert idle_agents(msgspec.structs.replace(busy, users=1_000_000)) == Limits().agents


@given(
    st.sampled_from(
        ["users", "turns", "seconds", "deltas", "text_bytes", "connected", "tools", "tool_seconds", "visits", "months"]
    )
)
def test_more_of_anything_never_takes_less(field: str) -> None:
    more = msgspec.structs.replace(ONE_A_SECOND, **{field: getattr(ONE_A_SECOND, field) * 2})
    before, after = needs_of(ONE_A_SECOND, ROUND), needs_of(more, ROUND)
    for name in before.__struct_fields__:
        assert getattr(after, name).amount >= getattr(before, name).amount
