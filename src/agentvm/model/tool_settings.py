"""Tool settings — the settings of tools, and of the sandboxes that run code; declared as those in `agentvm.model.settings`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from agentvm.model.policy import Policy
from agentvm.model.secret import Secret
from agentvm.model.setting import Count, Group, PositiveSeconds, Text, setting
from agentvm.model.tier_settings import DockerSettings, RemoteSettings, TierSettings

SearchEngine = Literal["searxng", "brave", "tavily"]
McpSharing = Literal["server", "tenant", "user"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolNetwork(Group):
    """The network of tools and sandboxes."""

    allow: Annotated[
        tuple[Text, ...],
        setting(
            "Private addresses that tools and sandboxes may reach besides public ones: `10.0.0.0/8`, `host:8080`.",
            "restart",
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PackageSettings(Group):
    """Packages of sandboxes, which are installed from an index when they are first needed."""

    index: Annotated[
        Text | None,
        setting(
            "Address of the package index, as that of pip's `--index-url`.",
            "restart",
            url=True,
            unset="sandboxes with packages are refused",
        ),
    ] = None
    hosts: Annotated[tuple[Text, ...], setting("Hosts of the files of the index, if they are other hosts.", "restart")] = ()
    max_megabytes: Annotated[
        Count, setting("Disk space of installed packages; those unused for longest are removed.", "restart")
    ] = 1024


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolSearchSettings(Group):
    """The search engine of the tool web_search, which agents have only with one."""

    engine: Annotated[SearchEngine | None, setting("Search engine of `web_search`.", "restart", unset="no web_search")] = None
    url: Annotated[
        Text | None,
        setting("Address of the search engine; SearXNG needs one.", "restart", url=True, unset="the engine's own address"),
    ] = None
    api_key: Annotated[Secret | None, setting("Key of the search engine; SearXNG needs none.", "restart", unset="no key")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EmbedderSettings(Group):
    """The embedder, by whose vectors knowledge bases are searched if they say so."""

    url: Annotated[
        Text | None,
        setting(
            "Address of an endpoint with OpenAI's embeddings, up to `/v1`.", "restart", url=True, unset="no search by vectors"
        ),
    ] = None
    model: Annotated[
        Text | None,
        setting(
            "Model of the embedder; without an address `local/` and the name or the path of a GGUF file on this machine.",
            "restart",
            unset="no search by vectors",
        ),
    ] = None
    api_key: Annotated[Secret | None, setting("Key of the embedder.", "restart", unset="no key")] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class McpServerEntry(Group):
    """A program that is an MCP server, under an id that tools name as `stdio:<id>`."""

    argv: Annotated[
        tuple[Text, ...] | None,
        setting("Command of an MCP server, its program by whole path.", "restart", unset="it is missing"),
    ] = None
    sandbox: Annotated[
        Text | None, setting("Sandbox that the program runs in.", "restart", unset="the default sandbox is used")
    ] = None
    per: Annotated[
        McpSharing | None,
        setting("Who shares a process: all users, the users of a tenant, or nobody.", "restart", unset="user is used"),
    ] = None
    secrets: Annotated[
        tuple[Text, ...] | None,
        setting("Names of secrets that the program finds in its environment.", "restart", unset="it finds none"),
    ] = None
    idle_seconds: Annotated[
        PositiveSeconds | None, setting("Time after which an unused process is ended.", "restart", unset="60 is used")
    ] = None
    max_kilobytes: Annotated[Count | None, setting("Longest message of the program.", "restart", unset="4096 is used")] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolSettings(Group):
    """Tools, and the sandboxes that run code."""

    slots: Annotated[
        Count | None, setting("Jobs in sandboxes at a time; further ones wait in turn.", "restart", unset="two for each core")
    ] = None
    uids: Annotated[
        Annotated[int, Meta(ge=1, le=4_000_000_000)],
        setting("First of 16,384 uids that jobs get when the server runs as root.", "restart"),
    ] = 1_600_000_000
    rootfs: Annotated[
        Text | None,
        setting("Directory whose programs sandboxes see instead of the host's.", "restart", unset="the host's /usr, read-only"),
    ] = None
    policy: Annotated[
        Policy | None,
        setting(
            "Rules about tool calls: run, wait, or be denied; those of operator and tenant both apply, and the strictest wins.",
            tenant="any",
            unset="the rules of the server alone",
        ),
    ] = None
    answer_by_text: Annotated[
        Literal["on", "off"],
        setting("Whether the messages `/approve` and `/deny` answer waiting calls.", tenant="any"),
    ] = "off"
    network: ToolNetwork = ToolNetwork()
    packages: PackageSettings = PackageSettings()
    tiers: TierSettings = field(default_factory=TierSettings)
    docker: DockerSettings = field(default_factory=DockerSettings)
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    prewarm: Mapping[
        str, Annotated[Count, setting("Paused containers that are kept ready, by name of an image.", "restart", unset="none")]
    ] = field(default_factory=dict)
    search: ToolSearchSettings = field(default_factory=ToolSearchSettings)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    mcp_servers: Mapping[str, McpServerEntry] = field(default_factory=dict)
