"""Library — resources that refer to each other, locked as the registry would, in memory."""

from collections.abc import Mapping

from agentvm.model.ids import TenantId
from agentvm.model.resource import Resource, ResourceId, ResourceType, ResourceVersion, VersionId, digest_of, parse_uri
from agentvm.resources.kind import RenderContext, accept, detach, encode
from agentvm.resources.kinds import KINDS
from agentvm.storage.resources import Link, Node

ACME = TenantId("t_acme")


class Library:
    """Resources; each can refer to those that were put before."""

    def __init__(self) -> None:
        self.nodes: dict[VersionId, Node] = {}

    def put(self, type_: ResourceType, name: str, content: object, *, owner: str = "acme", version: str = "1.0.0") -> Node:
        kind = KINDS[type_]
        accepted = detach(accept(kind, content))[0]
        body = encode(accepted)
        version_id = VersionId(f"rver_{len(self.nodes)}")
        resource_id = ResourceId(f"res_{type_}_{owner}_{name}")
        links = tuple(
            Link(alias=alias, uri=uri, target=self._find(uri), floating=True)
            for alias, uri in kind.references(accepted).items()
        )
        node = Node(
            resource=Resource(
                resource_id=resource_id,
                tenant_id=TenantId(f"t_{owner}"),
                owner=owner,
                type=type_,
                name=name,
                created_at=0,
                updated_at=0,
            ),
            version=ResourceVersion(
                version_id=version_id,
                resource_id=resource_id,
                version=version,
                digest=digest_of(body),
                size=len(body),
                created_by="u",
                created_at=0,
            ),
            content=body,
            links=links,
        )
        self.nodes[version_id] = node
        return node

    def context(self, node: Node, args: Mapping[str, object] | None = None, fragment: str | None = None) -> RenderContext:
        return RenderContext(viewer=ACME, node=node, nodes=self.nodes, kinds=KINDS, args=args or {}, fragment=fragment)

    def render(self, node: Node, fragment: str | None = None, /, **args: object) -> object:
        return self.context(node, args, fragment).render()

    def _find(self, text: str) -> VersionId:
        uri = parse_uri(text)
        return next(
            version_id
            for version_id, node in reversed(self.nodes.items())
            if (node.resource.type, node.resource.name, node.resource.owner) == (uri.type, uri.name, uri.owner or "acme")
            and (uri.selector is None or not uri.is_exact or uri.selector == node.version.version)
        )
