"""Values — random values for every setting, as a strategy of Hypothesis."""

from decimal import Decimal

from hypothesis import strategies as st

from agentvm.config.catalogue import MASK, SETTINGS, Value, find
from agentvm.model.account import METRICS, OF_USERS, Allowance, Quota
from agentvm.model.money import ModelRate
from agentvm.model.policy import Policy, PolicyRule
from agentvm.model.secret import Secret
from agentvm.model.setting import Setting

TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")), min_size=1, max_size=20
).filter(lambda text: MASK not in text)
MONEY = st.decimals(min_value=0, max_value=10**6, places=4)
NAMES = st.sampled_from(["backup", "a", "x-1", "our_own"])
PRICED = st.sampled_from(["openai/gpt-5.4-mini", "anthropic", "openai/org/model.v2"])


def value_of(setting: Setting) -> st.SearchStrategy[Value]:
    kind = setting.kind
    if setting.is_secret:
        return TEXTS.map(Secret)
    if kind is int:
        return st.integers(*setting.bounds)
    if kind is float:
        return st.floats(*setting.bounds, allow_nan=False)
    if kind is Decimal:
        return MONEY
    if kind is ModelRate:
        return st.builds(ModelRate, input=MONEY, output=MONEY, cache_read=st.none() | MONEY, cache_write=st.none() | MONEY)
    if kind is Allowance:
        known = OF_USERS if setting.key.endswith(".users") else tuple(METRICS)
        hard = st.integers(0, 10**12)
        quotas = st.sampled_from(known).flatmap(lambda metric: st.builds(Quota, metric=st.just(metric), hard=hard))
        lists = st.lists(quotas, max_size=3, unique_by=lambda quota: quota.metric)
        return lists.map(lambda some: Allowance(quotas=tuple(sorted(some, key=lambda quota: quota.metric))))
    if kind is Policy:
        rule = st.builds(PolicyRule, do=st.sampled_from(["allow", "ask", "deny"]), tool=st.none() | TEXTS)
        return st.lists(rule, max_size=3).map(lambda rules: Policy(rules=tuple(rules)))
    if setting.items:
        return st.lists(st.sampled_from(setting.items), max_size=3).map(tuple)
    if setting.is_list:
        return st.lists(TEXTS.filter(lambda text: "," not in text), max_size=3).map(tuple)
    if options := [option for option in getattr(kind, "__args__", ()) if isinstance(option, str)]:
        return st.sampled_from(options)
    return TEXTS


def keys() -> st.SearchStrategy[str]:
    """Every key, with names in the place of stars."""

    def named(key: str) -> st.SearchStrategy[str]:
        if "*" not in key:
            return st.just(key)
        return (PRICED if key.startswith("billing.prices") else NAMES).map(lambda name: key.replace("*", name))

    return st.sampled_from(list(SETTINGS)).flatmap(named)


@st.composite
def flat_values(draw: st.DrawFn) -> dict[str, Value]:
    """Some settings with values that each of them may have."""
    chosen = draw(st.lists(keys(), unique=True, max_size=12))
    found = {}
    for key in chosen:
        setting = find(key)
        assert setting is not None
        found[key] = draw(value_of(setting))
    return found


def plainly(value: Value) -> object:
    """Comparable, also secrets."""
    return ("secret", value.reveal()) if isinstance(value, Secret) else value
