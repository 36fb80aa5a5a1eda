"""Catalog — the models and built-in tools that a user can give to an agent."""

from collections.abc import Iterable

from agentvm.drivers.models import Chosen
from agentvm.errors import AgentVMError
from agentvm.model.base import Record
from agentvm.model.definition import DEFAULT_TOOLS
from agentvm.model.ledger import Planned
from agentvm.model.usage import Usage
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.tenants.metering import Terms
from agentvm.tenants.price import Prices

operation = OperationGroup("catalog")

_PRICED_TOKENS = 1_000_000


class ModelPrice(Record):
    """The price of one million tokens in nano-USD, as the tenant is charged."""

    input: int
    output: int
    cache_read: int
    cache_write: int


class ModelView(Record):
    """A model that an agent can have. `pictures` and `tools` are absent where only the model's file tells."""

    name: str
    """`<provider>/<model>`, as an agent names it."""
    provider: str
    driver: str
    window: int
    """Tokens that a prompt and its answer may have together."""
    is_default: bool = False
    """Whether agents that name no model have it."""
    own_key: bool = False
    """Whether the tenant pays the provider itself."""
    pictures: bool | None = None
    tools: bool | None = None
    price: ModelPrice | None = None
    """Absent if it is unknown."""
    demo: bool = False
    """Whether it is the embedded demo model, which knows English only and is often wrong."""


class CatalogModels(PageRequest):
    """A page of the models."""


@operation("catalog.models", needs=(), http=Http("GET", "/v1/catalog/models", id="catalog_list_models"))
async def list_models(context: Context, request: CatalogModels) -> Page[ModelView]:
    """List the models that an agent can have.

    The default first; then those of the server's providers, those that the operator has a price for, and the fallbacks. A
    provider may have more than it lists: any `<provider>/<model>` can be tried.
    """
    models: dict[str, ModelView] = {}
    for name in _names(context):
        try:
            async with context.vm.tenancy.own_keys.choose(context.tenant_id, name) as chain:
                view = _view(context, chain[0], is_default=not models)
        except AgentVMError:
            # A provider that was removed, or whose key is refused: nobody can use the model now.
            continue
        models.setdefault(view.name, view)
    return page_of(list(models.values()), request, models)


class BuiltinToolView(Record):
    """A tool of the server itself. `unavailable` is why it cannot run on this machine."""

    name: str
    description: str
    input_schema: dict[str, object]
    is_default: bool = False
    """Whether agents that name no tools have it."""
    unavailable: str | None = None


class BuiltinTools(Record):
    items: list[BuiltinToolView]


@operation("catalog.tools", needs="images:read", http=Http("GET", "/v1/catalog/tools", id="catalog_list_tools"))
async def list_tools(context: Context, request: Empty) -> BuiltinTools:
    """List the built-in tools that an agent can name."""
    source = context.vm.runtime.tools
    names = source.names(context.tenant_id)
    missing = await source.missing(names)
    tools = [(name, source.of_spec({"runtime": "builtin", "entry": name})) for name in names]
    return BuiltinTools(
        items=[
            BuiltinToolView(
                name=name,
                description=tool.spec.description,
                input_schema=tool.spec.input_schema,
                is_default=name in DEFAULT_TOOLS,
                unavailable=missing.get(name),
            )
            for name, tool in tools
            if tool is not None
        ]
    )


def _names(context: Context) -> Iterable[str | None]:
    """The names to list, the default first; one model may have several."""
    config, models = context.vm.config, context.vm.runtime.models
    yield None
    yield from (provider.name for provider in models.health())
    priced = (name for name in config.billing.prices if "/" in name)
    yield from sorted({*config.llm.fallback, *priced})


def _view(context: Context, chosen: Chosen, *, is_default: bool) -> ModelView:
    return ModelView(
        name=chosen.name,
        provider=chosen.provider,
        driver=chosen.driver.name,
        window=chosen.driver.context_window(chosen.model),
        is_default=is_default,
        own_key=chosen.own_key,
        pictures=chosen.abilities.pictures,
        tools=chosen.abilities.tools,
        price=_price(context, chosen),
        demo=chosen.abilities.demo,
    )


def _price(context: Context, chosen: Chosen) -> ModelPrice | None:
    billing = context.vm.config.billing
    terms = Terms(Prices(billing.prices), billing.markup)
    planned = Planned(
        tenant_id=context.tenant_id,
        user_id=None,
        driver=chosen.driver.name,
        model=chosen.model,
        most_input=_PRICED_TOKENS,
        most_output=_PRICED_TOKENS,
        own_key=chosen.own_key,
        hosted=chosen.hosted,
        provider=chosen.provider,
    )

    def charged(usage: Usage) -> int | None:
        return terms.charge(planned, usage, context.vm.clock()).price

    prices = {
        "input": charged(Usage(input_tokens=_PRICED_TOKENS, output_tokens=0)),
        "output": charged(Usage(input_tokens=0, output_tokens=_PRICED_TOKENS)),
        "cache_read": charged(Usage(input_tokens=0, output_tokens=0, cache_read_tokens=_PRICED_TOKENS)),
        "cache_write": charged(Usage(input_tokens=0, output_tokens=0, cache_write_tokens=_PRICED_TOKENS)),
    }
    prices_known = {name: price for name, price in prices.items() if price is not None}
    return ModelPrice(**prices_known) if len(prices_known) == len(prices) else None
