import json

import pytest

from agentvm.errors import InvalidInput
from agentvm.model.usage import Usage
from agentvm.tenants.exports import ALIASES, Exported, read_export

PLAIN = """\
day,model,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens
2026-11-14,claude-sonnet-5,1000,200,50,7
2026-11-15,claude-sonnet-5,10,20,,
"""

CONSOLE = """\
usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,\
usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,\
web_search_count,inference_geo
2026-11-14,claude-sonnet-5-20260915,key-a,Default,standard,≤ 200k,1000,3,4,50,200,0,global
2026-11-14,claude-sonnet-5-20260915,key-b,Default,batch,≤ 200k,1,0,0,0,2,0,global
"""

OPENAI = """\
start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,model,input_tokens,output_tokens,input_cached_tokens
1794614400,1794700800,2026-11-14T00:00:00+00:00,2026-11-15T00:00:00+00:00,proj_1,3,gpt-5.4-mini-2026-03-17,1050,200,50
"""


def used(*, input_tokens: int = 0, output_tokens: int = 0, cache_read_tokens: int = 0, cache_write_tokens: int = 0) -> Usage:
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_write_tokens,
    )


def test_the_plain_form_is_read() -> None:
    assert read_export(PLAIN) == (
        Exported(
            day="2026-11-14",
            model="claude-sonnet-5",
            usage=used(input_tokens=1000, output_tokens=200, cache_read_tokens=50, cache_write_tokens=7),
        ),
        Exported(day="2026-11-15", model="claude-sonnet-5", usage=used(input_tokens=10, output_tokens=20)),
    )


def test_the_export_of_the_anthropic_console_is_read_with_both_kinds_of_cache() -> None:
    first, second = read_export(CONSOLE)
    assert first.usage == used(input_tokens=1000, output_tokens=200, cache_read_tokens=50, cache_write_tokens=7)
    assert (second.day, second.model) == ("2026-11-14", "claude-sonnet-5-20260915")


def test_of_the_openai_export_the_cached_input_is_counted_once() -> None:
    (row,) = read_export(OPENAI)
    assert row.day == "2026-11-14"
    assert row.usage == used(input_tokens=1000, output_tokens=200, cache_read_tokens=50)


def test_the_older_openai_export_is_read() -> None:
    data = {
        "aggregation_timestamp": 1794614700,
        "snapshot_id": "gpt-4o-2024-08-06",
        "n_context_tokens_total": 30,
        "n_cached_context_tokens_total": 10,
        "n_generated_tokens_total": 5,
    }
    (row,) = read_export(json.dumps({"data": [data]}))
    assert row.usage == used(input_tokens=20, output_tokens=5, cache_read_tokens=10)


def test_the_buckets_of_the_usage_apis_are_read_with_their_time() -> None:
    anthropic = {
        "starting_at": "2026-11-14T00:00:00Z",
        "ending_at": "2026-11-15T00:00:00Z",
        "results": [
            {
                "model": "claude-sonnet-5",
                "uncached_input_tokens": 1000,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
                "cache_read_input_tokens": 50,
                "output_tokens": 200,
            }
        ],
    }
    openai = {
        "start_time": 1794614400,
        "results": [{"model": "gpt", "input_tokens": 9, "input_cached_tokens": 4, "output_tokens": 1}],
    }
    empty = {"start_time": 1794700800, "results": []}
    first, second = read_export(json.dumps({"data": [anthropic, openai, empty], "has_more": False}))
    assert first.usage == used(input_tokens=1000, output_tokens=200, cache_read_tokens=50, cache_write_tokens=7)
    assert (second.day, second.usage) == ("2026-11-14", used(input_tokens=5, output_tokens=1, cache_read_tokens=4))


def test_one_page_of_several_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has_more"):
        read_export('{"data": [], "has_more": true}')


def test_our_own_json_is_read() -> None:
    rows = [{"day": "2026-11-14", "model": "m", "inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 3}]
    assert read_export(json.dumps(rows))[0].usage == used(input_tokens=1, output_tokens=2, cache_read_tokens=3)


@pytest.mark.parametrize(
    "day",
    [
        "2026-11-14",
        "2026-11-14T23:59:59Z",
        "2026-11-15T00:30:00+01:00",
        "2026-11-14 08:00:00 UTC",
        "1794614400",
        "1794614400000",
    ],
)
def test_a_day_may_be_written_in_many_ways_and_is_one_of_utc(day: str) -> None:
    (row,) = read_export(f"day,model,input_tokens,output_tokens\n{day},m,1,1\n")
    assert row.day == "2026-11-14"


def test_our_own_csv_is_read() -> None:
    text = "day,model,calls,inputTokens,outputTokens,cacheReadTokens,cacheWriteTokens\n2026-11-14,m,1,1,2,3,4\n"
    usage = used(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4)
    assert read_export(text)[0].usage == usage
    assert read_export(text.replace("inputTokens", "Input Tokens"))[0].usage == usage


def test_other_separators_a_byte_order_mark_and_thousands_are_understood() -> None:
    (row,) = read_export('\ufeffDay;Model;Input_Tokens;Output_Tokens\r\n2026-11-14;m;"1,234";5.0\r\n')
    assert row.usage == used(input_tokens=1234, output_tokens=5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("day,model,input_tokens,output_tokens\n", "no rows"),
        ("day,model,output_tokens\n2026-11-14,m,1\n", "uncached_input_tokens"),
        ("model,input_tokens,output_tokens\nm,1,1\n", "no column day"),
        ("day,model,input_tokens,output_tokens\nyesterday,m,1,1\n", "Line 2: 'yesterday' is not a valid day"),
        ("day,model,input_tokens,output_tokens\n2026-11-14,m,-1,1\n", "not a number of tokens"),
        ("day,model,input_tokens,output_tokens\n2026-11-14,m,1.5,1\n", "not a number of tokens"),
        ("day,model,input_tokens,output_tokens\n2026-11-14,m,NaN,1\n", "not a number of tokens"),
        ("day,model,input_tokens,output_tokens\n2026-11-14,m,Infinity,1\n", "not a number of tokens"),
        ("day,model,input_tokens,output_tokens\n2026-11-14,,1,1\n", "no model"),
        ('day,model,input_tokens,output_tokens\n2026-11-14,"m"x,1,1\n', "not valid CSV"),
        ("day,model,input_tokens,output_tokens\n2026-11-14,m,1e99999999,1\n", "not a number of tokens"),
        (f"day,model,input_tokens,output_tokens\n2026-11-14,m,{'9' * 5_000},1\n", "not a number of tokens"),
        ("day,model,input_tokens,output_tokens\n0001-01-01,m,1,1\n", "not a valid day"),
        ("day,model,input_tokens,output_tokens\n9999-12-31,m,1,1\n", "not a valid day"),
        ('"' + "a" * 200_000, "not valid CSV"),
        ("[" * 100_000, "nested too deep"),
        ("{", "not valid JSON"),
        ('{"data": 5}', "list of rows"),
        ("[5]", "Row 1"),
        ('[{"results": [5]}]', "Row 1"),
        ('[{"day": "2026-11-14", "model": "m", "output_tokens": 1}]', "no input_tokens"),
        ('[{"day": "2026-11-14", "model": "m", "input_tokens": true, "output_tokens": 1}]', "not a number of tokens"),
        ('[{"day": "2026-11-14", "model": "m", "input_tokens": 1, "input_cached_tokens": 2, "output_tokens": 1}]', "cache"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_place_and_the_remedy(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_export(text)
    assert said in str(refused.value)


def test_every_plain_name_is_among_its_aliases() -> None:
    assert [plain for plain, names in ALIASES.items() if plain not in names] == []
