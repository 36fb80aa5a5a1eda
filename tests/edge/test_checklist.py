"""The checklist of the protocol, with the very tests of a server, held against the Worker."""

import inspect
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from tests.compat import (
    test_checklist_commands,
    test_checklist_connection,
    test_checklist_envelope,
    test_checklist_persistence,
    test_checklist_security,
    test_checklist_subscriptions,
    test_checklist_turns,
    test_checklist_ui,
)
from tests.support.edge import EdgeServer
from tests.support.edge_serving import EdgeServing
from tests.support.serving import Play

MODULES = (
    test_checklist_connection,
    test_checklist_envelope,
    test_checklist_subscriptions,
    test_checklist_commands,
    test_checklist_turns,
    test_checklist_persistence,
    test_checklist_security,
    test_checklist_ui,
)
OF_A_SERVER = "the tools, faults or limits of a server are built into it"
KEY = "a key is asked for: tests/edge/test_access.py"
LARGER = "frames here have at most 4 MiB: tests/edge/test_access.py"
ROWS = "an agent here is a row that outlives a restart: tests/edge/test_replay.py"
NOT_HERE: dict[str, str] = {
    "test_item_01_the_upgrade_succeeds_with_any_query_and_returns_no_subprotocol": KEY,
    "test_item_03_a_20_mib_image_is_accepted_stored_and_returned": LARGER,
    "test_item_03_a_frame_of_48_mib_is_read_and_a_larger_one_closes_with_1009": LARGER,
    "test_item_04_a_number_that_json_cannot_say_is_never_emitted": OF_A_SERVER,
    "test_item_05_a_peer_that_misses_a_pong_is_dropped_and_a_silent_ponging_one_stays": "the platform closes dead sockets",
    "test_every_device_of_a_container_sees_everything_change_whoever_did_it": "images here have one session",
    "test_item_39_t5_a_turn_after_a_restart": ROWS,
    "test_item_41_a_turn_that_takes_too_long_ends_with_the_three_errors": OF_A_SERVER,
    "test_item_44_a_failing_tool_is_error_text_and_a_result_that_is_no_string_is_json_text": OF_A_SERVER,
    "test_item_50_after_a_restart_everything_is_there_and_the_conversation_goes_on": ROWS,
    "test_item_55_an_error_shows_nothing_of_the_servers_insides": OF_A_SERVER,
    "test_item_56_the_studio_lists_creates_renames_runs_sends_interrupts_reloads_and_deletes": OF_A_SERVER,
    "test_an_interface_of_1x_is_unlocked_while_a_call_waits_and_shows_what_follows_the_answer": OF_A_SERVER,
}


def values_of(mark: pytest.Mark) -> list[dict[str, Any]]:
    """The arguments of each run that a mark asks for."""
    names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
    return [dict(zip(names, value if len(names) > 1 else (value,), strict=True)) for value in mark.args[1]]


def cases() -> Iterator[Any]:
    for module in MODULES:
        for name, function in vars(module).items():
            if not name.startswith("test_") or not inspect.iscoroutinefunction(function) or name in NOT_HERE:
                continue
            marks = [values_of(mark) for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
            for number, chosen in enumerate(product(*marks)):
                arguments = {key: value for some in chosen for key, value in some.items()}
                yield pytest.param(function, arguments, id=f"{name.removeprefix('test_')}-{number}")


@pytest.mark.parametrize(("function", "arguments"), list(cases()))
async def test_what_holds_for_a_server_holds_at_the_edge(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    edge: EdgeServer,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    serving = EdgeServing(edge)
    monkeypatch.setattr(sys.modules[function.__module__], "serving", serving)
    wanted = inspect.signature(function).parameters.keys() - arguments.keys()
    if "shared" not in wanted:
        await function(**arguments, **{name: request.getfixturevalue(name) for name in wanted})
        return
    async with serving(Play()) as server:
        await function(shared=server, **arguments)


def test_what_is_left_out_is_a_test_of_a_server() -> None:
    assert NOT_HERE.keys() <= {name for module in MODULES for name in vars(module)}
