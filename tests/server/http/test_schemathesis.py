"""Every route, as its document says it is: asked with all that the document allows, and with much that it does not.

A route that is added is asked by itself. What is tried follows from the document alone, so it is the same each time.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import requests
import schemathesis
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.meta import CoveragePhaseData
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.support.examples import examples

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.server.http import described

EXAMPLES = examples(0, 100)
"""Random ones of each route in a night, besides those that follow from its bounds."""
VARIANTS = examples(1, 100)
"""Requests with the same fault in the same place of a route, such as a number and a list where text belongs."""

SCHEMA = schemathesis.openapi.from_dict(described())
# The key is sent with all of them; that none is let in without is a check of its own.
SCHEMA.config.generation.update(with_security_parameters=False)
# One table answers to methods of which a path has none; eight requests for each route asked that and nothing else.
SCHEMA.config.phases.coverage.unexpected_methods = {"patch"}


@dataclass(frozen=True, slots=True)
class Place:
    """A server on loopback, a client, the operator's key, and what can be named in a path."""

    url: str
    client: requests.Session
    key: dict[str, str]
    known: dict[str, str]
    faults: Counter[tuple[object, ...]]
    """Faults that requests had, by route, place and kind."""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on", shutdown_seconds=0))
    with start_blocking_portal() as portal:
        opened = portal.call(partial(start_server, config, drivers={"scripted": ScriptedDriver()}))
        with portal.wrap_async_context_manager(opened) as running, requests.Session() as client:
            # Without the proxies of the environment, which it would look for with every request.
            client.trust_env = False
            assert running.first_key is not None
            key = {"Authorization": f"Bearer {running.first_key.reveal()}"}
            yield Place(running.url, client, key, people(running.url, client, key), Counter())


def people(url: str, client: requests.Session, key: dict[str, str]) -> dict[str, str]:
    """One of each, so that more is found than its absence."""

    def make(path: str, **members: str) -> str:
        made = client.post(f"{url}{path}", json=members, headers=key, timeout=60)
        assert made.status_code == 201, made.text
        return str(next(iter(made.json().values())))

    make("/v1/tenants", slug="acme", name="Acme")
    user_id = make("/v1/users?tenant=acme", externalId="alice")
    key_id = make("/v1/auth/keys?tenant=acme", name="k", userId=user_id)
    return {"tenant": "acme", "user_id": user_id, "key_id": key_id, "container_id": "shared", "name": "API_KEY"}


def aim(case: schemathesis.Case[Any], known: dict[str, str]) -> None:
    """Every other request that is in order is about something that is there."""
    modes = {} if case.meta is None else {place: about.mode for place, about in case.meta.components.items()}
    query, path = case.query or {}, case.path_parameters or {}
    # An answer that goes on has no end to wait for.
    query.pop("follow", None)
    if isinstance(query.get("tenant"), str) and modes.get(ParameterLocation.QUERY) is GenerationMode.POSITIVE:
        query["tenant"] = known["tenant"]
    if case.method != "DELETE" and modes.get(ParameterLocation.PATH) is GenerationMode.POSITIVE:
        path.update({name: known[name] for name in path if name in known and len(str(path[name])) % 2})


def fault_of(case: schemathesis.Case[Any]) -> tuple[object, ...] | None:
    """The route, the place in its request and the kind of what is wrong with a request; None when it is in order."""
    if case.meta is None or case.meta.generation.mode is not GenerationMode.NEGATIVE:
        return None
    about = case.meta.phase.data
    if not isinstance(about, CoveragePhaseData):
        return None
    return case.method, case.path, about.parameter_location, about.parameter, about.location, about.description


@settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=max(EXAMPLES, 1),
    phases=[Phase.explicit, Phase.generate] if EXAMPLES else [Phase.explicit],
    suppress_health_check=list(HealthCheck),
)
def ask(case: schemathesis.Case[Any], place: Place) -> None:
    if (fault := fault_of(case)) is not None:
        place.faults[fault] += 1
        if place.faults[fault] > VARIANTS:
            return
    aim(case, place.known)
    reply = case.call(base_url=place.url, session=place.client, headers=place.key, timeout=60)
    # Some rules no schema can tell: a cursor is good for one list, a slug is free or taken.
    unchecked: list[Any] = [positive_data_acceptance]
    if reply.status_code == 501:
        # What is not configured here is no failure, if the document says so.
        unchecked.append(not_a_server_error)
    case.validate_response(reply, excluded_checks=unchecked)


# Not by `SCHEMA.parametrize()`: that works out every request of every route while tests are collected, in each worker.
@pytest.mark.parametrize(
    ("path", "method"), [(path, method) for path, methods in described()["paths"].items() for method in methods]
)
def test_a_route_is_as_its_document_says(path: str, method: str, place: Place) -> None:
    load_all_checks()
    operation, feedback = SCHEMA[path][method], FeedbackSources(constants_value_source=None)
    build_operation_test(config=SCHEMA.config, operation=operation, test_func=ask, given_kwargs={}, feedback=feedback)(
        place=place
    )
