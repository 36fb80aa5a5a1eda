from agentvm.model.tier import TierRules
from agentvm.model.tier_settings import TierSettings


def test_settings_become_rules_and_unset_ones_rule_out_nothing() -> None:
    assert TierSettings().rules == TierRules()
    settings = TierSettings(allow=("process", "container"), walls=("gvisor",))
    assert settings.rules == TierRules(allow=("process", "container"), walls=frozenset({"gvisor"}))
