from agentvm.model.ids import TenantId
from agentvm.storage.sql.resources.words import pieces_of, scope_of, scopes_of

ACME = TenantId("acme")


def test_what_is_asked_is_only_ever_words() -> None:
    assert [piece.words for piece in pieces_of('שם"ן OR x')] == [("שםן",), ("or",), ("x",)]
    assert pieces_of("!!") == ()


def test_a_question_has_a_bounded_number_of_words() -> None:
    assert len(pieces_of("word " * 1000)) == 32


def test_who_may_find_a_resource_is_said_without_its_tenants_name() -> None:
    assert scope_of(ACME, is_open=True) == f"{scope_of(ACME, is_open=False)} public"
    assert "acme" not in scope_of(ACME, is_open=True)
    assert scope_of(TenantId("a"), is_open=False) != scope_of(TenantId("b"), is_open=False)
    assert scopes_of(ACME, "all") == (scope_of(ACME, is_open=False), "public")
