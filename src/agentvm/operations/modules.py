"""Modules — where the operations are declared, and how one of them is found without loading all."""

from functools import cache
from importlib import import_module

from agentvm.operations.http_face import HttpFace
from agentvm.operations.operation import OperationGroup

MODULES = (
    "key browser_session oidc preference invitation tenant user container erasure quota usage usage_book usage_reconcile cost "
    "wallet secret channel sandbox config audit definition catalog image_build image_open image_file image attachment resource "
    "resource_resolve resource_version resource_bundle resource_invoke collection agent retention log error provider metric "
    "cluster turn feedback share memory tool mcp session_lists session session_open file branch message message_ask run "
    "compaction draft transfer webhook schedule trigger"
).split()
"""The modules of operations, in the order of the reference."""


def group_of(module: str) -> OperationGroup:
    """Returns the operations of a module."""
    group: OperationGroup = import_module(f"agentvm.operations.{module}").operation
    return group


@cache
def http_face(name: str) -> HttpFace:
    """Returns the HTTP face of an operation. The modules of its noun are loaded first: a client needs no others."""
    noun = name.partition(".")[0]
    for module in sorted(MODULES, key=lambda module: module.partition("_")[0] != noun):
        for row in group_of(module).rows:
            if row.name == name and row.http is not None:
                return HttpFace(row, row.http)
    raise KeyError(f"{name} has no route")
