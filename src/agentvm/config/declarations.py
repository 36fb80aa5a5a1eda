"""Declarations — every setting, once: its type and bounds, its default, what it is for, and who may change it when.

Validation, the JSON Schema, the table in docs/config.md, what is masked and what `avm config explain` says all come from here.
The names are those of the configuration file. A field that is None has no default of its own: it is found out, or not used.
"""

from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agentvm.model.account import Allowance
from agentvm.model.attachment import MAX_BYTES
from agentvm.model.limits import MAX_INLINE_BYTES, MAX_MESSAGE_BYTES
from agentvm.model.money import ModelRate
from agentvm.model.retention import FOREVER

Applies = Literal["live", "restart", "boot"]
"""When a change at run time takes effect: at once, with the next start, or never, because it is needed before the database."""

Tenant = Literal["no", "any", "lower"]
"""Whether a tenant may have a value of its own: no, any, or only a lower one."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What is declared of a setting besides its type and its sentence."""

    applies: Applies
    tenant: Tenant
    secret: bool
    variable: str | None
    standard: str | None
    """A variable that other programs read as well: it counts for less than anything that is said to this one."""
    kind: Literal["", "url", "list"]


def setting(
    doc: str,
    applies: Applies = "live",
    *,
    tenant: Tenant = "no",
    secret: bool = False,
    variable: str | None = None,
    standard: str | None = None,
    kind: Literal["", "url", "list"] = "",
) -> Meta:
    about = About(applies=applies, tenant=tenant, secret=secret, variable=variable, standard=standard, kind=kind)
    return Meta(description=doc, extra={"about": about})


Text = Annotated[str, Meta(min_length=1, max_length=4_096)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Amount = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]
SomeSeconds = Annotated[float, Meta(ge=0.001, le=31_536_000)]
Milliseconds = Annotated[int, Meta(ge=1, le=86_400_000)]
Days = Annotated[int, Meta(ge=1, le=FOREVER)]
Switch = Literal["on", "off", "auto"]


class Group(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Settings that belong together."""


class ProviderGroup(Group, frozen=True, kw_only=True):
    driver: Annotated[Text | None, setting("Who speaks to it: a driver. Not needed when the provider is named after one.")] = (
        None
    )
    model: Annotated[Text | None, setting("The model it answers with, if an image names none.")] = None
    api_key: Annotated[Text | None, setting("Its key.", secret=True)] = None
    base_url: Annotated[Text | None, setting("Another address than the driver's own.", kind="url")] = None
    timeout: Annotated[Milliseconds | None, setting("As `defaults.timeout`, for this provider, whatever the tenant says.")] = (
        None
    )
    own_keys: Annotated[
        Switch | None,
        setting(
            "Whether tenants may use a key of their own here and pay the provider themselves; `auto`: unless `baseUrl` is set."
        ),
    ] = None
    max_concurrent: Annotated[
        Count | None, setting("Calls at a time, of all tenants; others wait in turn. 200, or what the embedded model can.")
    ] = None


class LlmGroup(Group, frozen=True, kw_only=True):
    provider: Annotated[
        Text | None,
        setting("Who answers by default: one of `llm.providers`, or a driver.", tenant="any", variable="LLM_PROVIDER"),
    ] = None
    model: Annotated[
        Text | None,
        setting(
            "The default provider's model; may name the provider too: `openai/gpt-5.4-mini`.",
            tenant="any",
            variable="LLM_MODEL",
        ),
    ] = None
    api_key: Annotated[Text | None, setting("The default provider's key.", secret=True, variable="LLM_API_KEY")] = None
    base_url: Annotated[
        Text | None,
        setting("The default provider's address, if it is not the driver's own.", kind="url", variable="LLM_BASE_URL"),
    ] = None
    model_dir: Annotated[
        Text | None,
        setting("Where embedded weights are; the user's cache if it is not said.", variable="AVM_MODEL_DIR"),
    ] = None
    providers: dict[str, ProviderGroup] = msgspec.field(default_factory=dict)
    fallback: Annotated[
        tuple[Text, ...],
        setting(
            "Who is asked, in this order, when the chosen provider is out: `<provider>` or `<provider>/<model>`.", kind="list"
        ),
    ] = ()


class OidcGroup(Group, frozen=True, kw_only=True):
    issuer: Annotated[
        Text | None,
        setting("Tokens of this identity provider are accepted besides keys.", "restart", variable="AVM_OIDC_ISSUER"),
    ] = None
    audience: Annotated[
        Text | None,
        setting("Whom its tokens must be for; goes together with the issuer.", "restart", variable="AVM_OIDC_AUDIENCE"),
    ] = None
    jwks_url: Annotated[
        Text | None,
        setting("Where its keys are, if it does not say so itself.", "restart", kind="url", variable="AVM_OIDC_JWKS_URL"),
    ] = None
    tenant_claim: Annotated[
        Text, setting("The claim that names the tenant, by its slug.", "restart", variable="AVM_OIDC_TENANT_CLAIM")
    ] = "tenant"


class SystemGroup(Group, frozen=True, kw_only=True):
    host: Annotated[
        Text,
        setting("Address to listen on; any but a loopback address is open to the network.", "restart", variable="AVM_HOST"),
    ] = "127.0.0.1"
    port: Annotated[Port, setting("Port to listen on; 0 takes any free one.", "restart", variable="AVM_PORT")] = 8080
    data_dir: Annotated[
        Text,
        setting("Where data is kept; `:memory:` keeps it in memory only.", "boot", variable="AVM_DATA_DIR"),
    ] = "~/.agentvm"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        setting("Least important entry that is logged.", variable="AVM_LOG_LEVEL"),
    ] = "info"
    log_file: Annotated[
        Literal["on", "off"],
        setting("Whether the log is kept in `logs/agentvm.jsonl` of the data directory, besides what goes to stderr."),
    ] = "on"
    log_file_bytes: Annotated[Amount, setting("How large one file of the log becomes; then another is begun.")] = 10 * 1024**2
    log_files: Annotated[Count, setting("How many files of the log are kept; the oldest goes first.")] = 5
    allow_origins: Annotated[
        tuple[Text, ...],
        setting(
            "Web pages of these origins may connect, besides this machine's and the server's own; `*` for all.",
            kind="list",
            variable="AVM_ALLOW_ORIGINS",
        ),
    ] = ()
    trusted_proxies: Annotated[
        tuple[Text, ...],
        setting(
            "Proxies in front, by address or network: their `X-Forwarded-For`, `-Proto` and `Forwarded` are believed.",
            "restart",
            kind="list",
            variable="AVM_TRUSTED_PROXIES",
        ),
    ] = ()
    shutdown_seconds: Annotated[Seconds, setting("How long running turns may go on when the server is stopped.")] = 10.0
    auth: Annotated[
        Switch,
        setting(
            "Whether peers need a key; `auto`: unless only this machine can reach the server.", "restart", variable="AVM_AUTH"
        ),
    ] = "auto"
    admin_key: Annotated[
        Text | None,
        setting(
            "The operator's key; the first start makes one if it is not said.", "restart", secret=True, variable="AVM_ADMIN_KEY"
        ),
    ] = None
    server_key: Annotated[
        Text | None,
        setting("What keys are hashed and secrets are sealed with.", "boot", secret=True, variable="AVM_SERVER_KEY"),
    ] = None
    oidc: OidcGroup = OidcGroup()


class DefaultsGroup(Group, frozen=True, kw_only=True):
    timeout: Annotated[
        Milliseconds,
        setting("How long a provider may be silent, in ms, before its call is given up.", tenant="lower"),
    ] = 30_000
    max_tokens: Annotated[Amount, setting("Tokens of one answer, unless the image says otherwise.", tenant="any")] = 4_096


class LimitsGroup(Group, frozen=True, kw_only=True):
    inbox: Annotated[Count, setting("Messages that may wait for one agent.")] = 32
    attempts: Annotated[Count, setting("How often a turn that died with its process is begun again.")] = 3
    steps: Annotated[Count, setting("Model calls of one turn.", tenant="lower")] = 25
    turn_tokens: Annotated[Amount, setting("Tokens of one turn, in and out, of all its model calls.", tenant="lower")] = (
        2_000_000
    )
    turn_cost: Annotated[
        Decimal, setting("Dollars that one turn may cost; a model without a price costs nothing here.", tenant="lower")
    ] = Decimal(5)
    repeats: Annotated[Count, setting("How often one turn may call a tool with the very same input.", tenant="lower")] = 10
    turn_seconds: Annotated[SomeSeconds, setting("Duration of one turn, and of one model call.", tenant="lower")] = 600.0
    stop_seconds: Annotated[Seconds, setting("How long stopping an agent waits for its turn to end.")] = 10.0
    log_days: Annotated[
        Annotated[float, Meta(ge=0, le=36_500)],
        setting("How long what happened can be heard again after a cursor; messages are kept as long as `retention` says."),
    ] = 7.0
    tool_output: Annotated[Amount, setting("Characters of a tool's result that are kept.", tenant="lower")] = 100_000
    log_bytes: Annotated[
        Amount, setting("How much of what happened is kept, of all sessions together; the oldest goes first.")
    ] = 10 * 1024**3
    disk_free: Annotated[Amount, setting("Bytes left of the disk of the data below which `/v1/status` warns.")] = 1024**3
    idle_seconds: Annotated[SomeSeconds, setting("An agent that nobody uses this long leaves memory.")] = 300.0
    undo_seconds: Annotated[Seconds, setting("How long a deleted session can be restored; then it is gone for good.")] = (
        7 * 86_400.0
    )
    attachment_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_BYTES)], setting("Bytes of one file that is uploaded.", tenant="lower")
    ] = 20 * 1024**2
    attachments_per_message: Annotated[Count, setting("Uploaded files to which one message may refer.", tenant="lower")] = 20
    message_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_MESSAGE_BYTES)], setting("Bytes of the text of one message.", tenant="lower")
    ] = MAX_MESSAGE_BYTES
    inline_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_INLINE_BYTES)],
        setting("Bytes of the pictures and files inside one message, as base64; uploaded ones do not count.", tenant="lower"),
    ] = MAX_INLINE_BYTES
    import_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=64 * 1024**3)], setting("Bytes of one import, unpacked.", tenant="lower")
    ] = 1024**3
    agents: Annotated[Amount, setting("Idle agents in memory; beyond them those that rested longest leave.")] = 20_000


class BillingGroup(Group, frozen=True, kw_only=True):
    markup: Annotated[Decimal, setting("What is charged for a dollar of a provider's tokens.", variable="AVM_MARKUP")] = (
        Decimal("1.05")
    )
    allow_unpriced: Annotated[
        Switch,
        setting(
            "Whether a model may be used whose price nobody knows; `auto`: when nobody needs a key.",
            variable="AVM_ALLOW_UNPRICED",
        ),
    ] = "auto"
    prices: dict[
        str,
        Annotated[
            ModelRate, setting("A price of your own by `<driver>/<model>` or `<driver>`, in dollars per million tokens.")
        ],
    ] = msgspec.field(default_factory=dict)


class SessionsGroup(Group, frozen=True, kw_only=True):
    titles: Annotated[
        Literal["model", "first-words", "off"],
        setting(
            "Titles of sessions after the first exchange: by a billed model call, from the first words, or none.",
            tenant="any",
        ),
    ] = "first-words"


class CompactionGroup(Group, frozen=True, kw_only=True):
    by: Annotated[
        Literal["model", "off"],
        setting("What becomes of long histories: a billed model call sums them up, or the oldest are left out.", tenant="any"),
    ] = "model"
    share: Annotated[
        Annotated[float, Meta(ge=0.1, le=1)],
        setting("How much of the room that the model has for a history is filled before it is summed up.", tenant="any"),
    ] = 0.6
    keep: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)],
        setting("How many of the newest exchanges stay word for word; fewer if they fill half of that room.", tenant="any"),
    ] = 6
    max_tokens: Annotated[Annotated[int, Meta(ge=50, le=100_000)], setting("Tokens of one summary.", tenant="any")] = 1_000
    model: Annotated[
        Text | None, setting("Who writes summaries, as an image names its model; else who answers.", tenant="any")
    ] = None


class OtelGroup(Group, frozen=True, kw_only=True):
    endpoint: Annotated[
        Text | None,
        setting(
            "Traces and metrics go to this OpenTelemetry collector, if it is said; needs `pip install 'agentvm[otel]'`.",
            "restart",
            kind="url",
            standard="OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
    ] = None
    headers: Annotated[
        Text | None,
        setting(
            "What is sent along, as `name=value,name=value`, the values encoded as in a URL.",
            "restart",
            secret=True,
            standard="OTEL_EXPORTER_OTLP_HEADERS",
        ),
    ] = None
    service_name: Annotated[Text, setting("What the server calls itself there.", "restart", standard="OTEL_SERVICE_NAME")] = (
        "agentvm"
    )
    traces: Annotated[Literal["on", "off"], setting("Whether turns are sent as traces.", "restart")] = "on"
    metrics: Annotated[Literal["on", "off"], setting("Whether the numbers of `/metrics` are sent, and more.", "restart")] = "on"
    sample_ratio: Annotated[
        Annotated[float, Meta(ge=0, le=1)], setting("The part of all turns that are sent as traces.", "restart")
    ] = 1.0
    export_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=3_600)],
        setting("How often something is sent.", "restart"),
    ] = 15.0


class RetentionGroup(Group, frozen=True, kw_only=True):
    session_days: Annotated[
        Days | None,
        setting(
            "Sessions in which nothing was said for so many days are deleted for good; pinned ones stay. Without it, never.",
            tenant="any",
        ),
    ] = None
    archived_days: Annotated[
        Days | None, setting("The same for sessions that are archived; without it, as for the others.", tenant="any")
    ] = None
    rewound_days: Annotated[
        Days, setting("Messages that were taken back so many days ago are deleted for good; 36500 for never.", tenant="any")
    ] = 30
    message_days: Annotated[
        Days | None,
        setting("Turns that ended so many days ago leave a session that goes on. Without it, never.", tenant="any"),
    ] = None


class PlanGroup(Group, frozen=True, kw_only=True):
    limits: Annotated[
        Allowance | None,
        setting("What a tenant with this plan may use as a whole, by metric: `{tokens_per_day: 100000, containers: 50}`."),
    ] = None
    users: Annotated[
        Allowance | None,
        setting("What each of its users may use, by metric, unless a limit of their own says otherwise."),
    ] = None


class Root(Group, frozen=True, kw_only=True):
    """Everything that can be set."""

    llm: LlmGroup = LlmGroup()
    system: SystemGroup = SystemGroup()
    defaults: DefaultsGroup = DefaultsGroup()
    limits: LimitsGroup = LimitsGroup()
    billing: BillingGroup = BillingGroup()
    sessions: SessionsGroup = SessionsGroup()
    compaction: CompactionGroup = CompactionGroup()
    otel: OtelGroup = OtelGroup()
    retention: RetentionGroup = RetentionGroup()
    plans: dict[str, PlanGroup] = msgspec.field(default_factory=dict)
