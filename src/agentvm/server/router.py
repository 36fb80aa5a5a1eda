"""Router — finds the handler of a path and a method.

A template's segment is a word or a name in braces. Words win over names, so `/v1/sessions/search` is not a session. A last
segment `{name:path}` takes all that is left.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse

HttpHandler = Callable[[HttpRequest], Awaitable[HttpResponse]]


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """One path and method."""

    method: str
    path: str
    handler: HttpHandler
    max_body_bytes: int = 0
    is_gated: bool = False
    """Whether its handler recognises the principal and checks its permissions."""


@dataclass(slots=True)
class Match:
    """The routes of a path, by method, and the values of the names in its template."""

    template: str
    routes: Mapping[str, HttpRoute]
    params: Mapping[str, str]

    def route(self, method: str) -> HttpRoute:
        """Raises `HttpError` 405 for a method that the path does not have."""
        route = self.routes.get(method)
        if route is None:
            raise HttpError(405, {"Allow": self.allowed})
        return route

    @property
    def allowed(self) -> str:
        return ", ".join(sorted({*self.routes, "OPTIONS"}))


@dataclass(slots=True)
class _Node:
    words: dict[str, "_Node"] = field(default_factory=dict)
    name: "_Node | None" = None
    rest: "_Node | None" = None
    template: str = ""
    names: tuple[str, ...] = ()
    routes: dict[str, HttpRoute] = field(default_factory=dict)


class Router:
    """The table of routes."""

    def __init__(self, routes: Iterable[HttpRoute]) -> None:
        self._root: Final = _Node()
        for route in routes:
            self._add(route)

    def match(self, path: str) -> Match:
        """Raises `HttpError` 404 for a path that no template fits. A slash at the end means nothing."""
        segments = [segment for segment in path.split("/") if segment]
        values: list[str] = []
        node = _find(self._root, segments, 0, values)
        if node is None:
            raise HttpError(404)
        return Match(node.template, node.routes, dict(zip(node.names, values, strict=True)))

    def _add(self, route: HttpRoute) -> None:
        node, names = self._root, _names(route.path)
        for segment in _segments(route.path):
            if segment.endswith(":path}"):
                node.rest = node = node.rest or _Node()
            elif segment.startswith("{"):
                node.name = node = node.name or _Node()
            else:
                word = node.words.get(segment)
                if word is None:
                    word = node.words[segment] = _Node()
                node = word
        if route.method in node.routes:
            raise RuntimeError(f"{route.method} {route.path} is declared twice")
        if node.routes and node.names != names:
            raise RuntimeError(f"{route.path} and {node.template} name their segments differently")
        node.template, node.names = route.path, names
        node.routes[route.method] = route


@cache
def _segments(template: str) -> tuple[str, ...]:
    return tuple(segment for segment in template.split("/") if segment)


@cache
def _names(template: str) -> tuple[str, ...]:
    return tuple(segment[1:-1].partition(":")[0] for segment in _segments(template) if segment.startswith("{"))


def _find(node: _Node, segments: list[str], index: int, values: list[str]) -> _Node | None:
    if index == len(segments):
        return node if node.routes else None
    word = node.words.get(segments[index])
    if word is not None and (match := _find(word, segments, index + 1, values)) is not None:
        return match
    if node.name is not None:
        values.append(segments[index])
        if (match := _find(node.name, segments, index + 1, values)) is not None:
            return match
        values.pop()
    if node.rest is not None:
        values.append("/".join(segments[index:]))
    return node.rest
