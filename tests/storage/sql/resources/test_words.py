from agentvm.model.ids import TenantId
from agentvm.storage.sql.resources.words import query, scope_of

ACME = TenantId("acme")


def test_what_is_asked_is_quoted_and_within_what_the_asker_may_find() -> None:
    asked = query('שם"ן OR x', ACME, "all")
    assert asked is not None
    assert asked.endswith('{name tags description text} : ("שםן" * AND "or" * AND "x" *)')
    assert scope_of(ACME, is_open=False) in asked
    assert query("!!", ACME, "own") is None


def test_a_question_has_a_bounded_number_of_words() -> None:
    asked = query("word " * 1000, ACME, "own")
    assert asked is not None
    assert asked.count("word") == 32


def test_who_may_find_a_resource_is_said_without_its_tenants_name() -> None:
    assert scope_of(ACME, is_open=True) == f"{scope_of(ACME, is_open=False)} public"
    assert "acme" not in scope_of(ACME, is_open=True)
    assert scope_of(TenantId("a"), is_open=False) != scope_of(TenantId("b"), is_open=False)
