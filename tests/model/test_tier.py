from agentvm.model.tier import JobResult, TierRules


def test_two_rules_together_only_narrow() -> None:
    server = TierRules(allow=("process", "container"), walls=frozenset({"pid"}))
    tenant = TierRules(allow=("container", "remote"), walls=frozenset({"net"}))
    assert server.narrowed(tenant) == TierRules(allow=("container",), walls=frozenset({"pid", "net"}))
    assert server.narrowed(TierRules()) == server
    assert TierRules().narrowed(tenant) == tenant


def test_a_job_succeeded_if_its_program_said_so() -> None:
    assert JobResult(exit_code=0).succeeded
    assert not JobResult(exit_code=1).succeeded
    assert not JobResult(signal="SIGKILL").succeeded
