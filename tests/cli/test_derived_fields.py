import msgspec
import pytest

from agentvm.cli.derived_fields import dollars, iso, with_derived_columns, with_derived_fields
from agentvm.cli.table import Show


def test_times_and_money_stay_as_they_are_and_are_told_once_more() -> None:
    assert with_derived_fields({"createdAt": 1_794_787_200_123, "price": 105_000, "name": "x"}) == {
        "createdAt": 1_794_787_200_123,
        "createdAtIso": "2026-11-16T00:00:00.123Z",
        "price": 105_000,
        "priceUsd": "0.000105",
        "name": "x",
    }


def test_lists_and_the_servers_own_records_are_looked_into() -> None:
    assert with_derived_fields([{"items": [{"at": 0}], "wallet": {"balance": -1_500_000_000}}]) == [
        {"items": [{"at": 0, "atIso": "1970-01-01T00:00:00.000Z"}], "wallet": {"balance": -1_500_000_000, "balanceUsd": "-1.5"}}
    ]


def test_what_users_have_stored_is_left_alone() -> None:
    told = {"content": {"price": 5, "soldAt": 6}, "value": [{"at": 1}], "at": None, "cost": "free", "wasAt": True}
    assert with_derived_fields(told) == told


def test_a_limit_is_money_where_it_is_one_of_money() -> None:
    assert with_derived_fields({"metric": "tokens_per_day", "hard": 5}) == {"metric": "tokens_per_day", "hard": 5}
    found = with_derived_fields({"metric": "budget_per_month", "hard": 25_000_000_000, "used": 1})
    assert isinstance(found, dict)
    assert (found["hardUsd"], found["usedUsd"]) == ("25", "0.000000001")


def test_a_member_that_the_server_has_is_not_replaced() -> None:
    assert with_derived_fields({"amount": 1, "amountUsd": "mine"}) == {"amount": 1, "amountUsd": "mine"}


def test_a_record_is_told_by_the_names_of_its_json() -> None:
    class BackupResult(msgspec.Struct, rename="camel"):
        made_at: int

    assert with_derived_fields({"manifest": BackupResult(made_at=0)}) == {
        "manifest": {"madeAt": 0, "madeAtIso": "1970-01-01T00:00:00.000Z"}
    }


def test_a_time_that_is_none_is_not_told() -> None:
    assert iso(10**30) is None
    assert with_derived_fields({"at": 10**18}) == {"at": 10**18}


@pytest.mark.parametrize(
    ("nano", "text"), [(0, "0"), (1, "0.000000001"), (1_000_000_000, "1"), (100 * 10**9, "100"), (-5, "-0.000000005")]
)
def test_dollars_are_exact(nano: int, text: str) -> None:
    assert dollars(nano) == text


def test_a_table_gets_columns_in_dollars_behind_its_own() -> None:
    text = 'model,calls,cost,price\r\n"a,b",1,100,105\r\n=x,2,,-1\r\n'
    assert (
        with_derived_columns(text)
        == 'model,calls,cost,price,costUsd,priceUsd\n"a,b",1,100,105,0.0000001,0.000000105\n=x,2,,-1,,-0.000000001\n'
    )
    assert with_derived_columns("") == ""
    names: dict[object, object] = {"u1": "alice", "u3": "=1+1"}
    named = with_derived_columns("userId,calls\nu1,2\nu2,3\nu3,4\n", names)
    assert named == "userId,calls,user\nu1,2,alice\nu2,3,u2\nu3,4,'=1+1\n"


def test_what_is_shown_exactly_has_no_additions(capsys: pytest.CaptureFixture[str]) -> None:
    Show(True).json({"price": 5}, exact=True)
    assert msgspec.json.decode(capsys.readouterr().out) == {"price": 5}
