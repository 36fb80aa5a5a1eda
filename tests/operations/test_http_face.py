import msgspec
import pytest

from agentvm.errors import InvalidInput, SessionNotFound
from agentvm.operations import tenant
from agentvm.operations.http_face import HttpFace, NoFields
from agentvm.operations.numbers import Number
from agentvm.operations.operation import Http, Operation
from agentvm.protocol.requests import Reply, Request


class ListReply(Reply):
    names: tuple[str, ...]
    total: int
    best: str | None = None


class ListNames(Request[ListReply]):
    session_id: str
    container_id: str | None = None
    dry_run: bool = False
    limit: int = 5


async def list_names(context: object, request: ListNames) -> ListReply:
    return ListReply(names=(), total=0)


def face(http: Http) -> HttpFace:
    row = Operation(
        name="name.list",
        group="names",
        request=ListNames,
        reply=ListReply,
        function=list_names,
        needs=(),
        raises=(SessionNotFound,),
        http=http,
    )
    return HttpFace(row, http)


def test_a_get_takes_all_but_the_path_from_the_query_and_names_things_by_their_noun() -> None:
    got = face(Http("GET", "/v1/{session_id}"))
    names = [field.encode_name for field in msgspec.structs.fields(got.query)]
    assert names == ["container", "dryRun", "limit"]
    query = msgspec.convert({"container": "c", "limit": "7"}, got.query, strict=False)
    assert got.request({"session_id": "s"}, query, None) == ListNames(session_id="s", container_id="c", limit=7)


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "٣", str(2**53), "9" * 5_000])
def test_a_number_in_the_path_is_one_within_its_bounds(text: str) -> None:
    class ShowEntry(Request[ListReply]):
        number: Number

    row = Operation(
        name="entry.show", group="entries", request=ShowEntry, reply=ListReply, function=list_names, needs=(), http=None
    )
    got = HttpFace(row, Http("GET", "/v1/entries/{number}"))
    assert got.request({"number": "7"}, NoFields(), None) == ShowEntry(number=7)
    with pytest.raises(InvalidInput, match="number must be a whole number"):
        got.request({"number": text}, NoFields(), None)


def test_a_post_takes_its_fields_from_the_body_but_for_those_of_the_query() -> None:
    got = face(Http("POST", "/v1/{session_id}", query=("dry_run",)))
    assert [field.encode_name for field in msgspec.structs.fields(got.body)] == ["containerId", "limit"]
    assert [field.encode_name for field in msgspec.structs.fields(got.query)] == ["dryRun"]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"unknown":1}', type=got.body)


def test_a_response_has_the_fields_of_the_reply_that_are_not_of_sockets() -> None:
    got = face(Http("GET", "/v1/{session_id}", items="names"))
    content = got.content(ListReply(names=("a",), total=1), {})
    assert msgspec.to_builtins(content) == {"items": ("a",), "total": 1}


def test_a_result_is_one_field_and_its_absence_is_not_found() -> None:
    got = face(Http("GET", "/v1/{session_id}", result="best"))
    assert got.content(ListReply(names=(), total=0, best="b"), {"session_id": "s"}) == "b"
    with pytest.raises(SessionNotFound):
        got.content(ListReply(names=(), total=0), {"session_id": "s"})


def test_routes_with_the_same_body_share_its_schema() -> None:
    rows = {row.name: row for row in tenant.operation.rows}
    faces = [HttpFace(row, row.http) for row in (rows["tenant.create"], rows["tenant.call_create"]) if row.http is not None]
    assert faces[0].body is faces[1].body
    assert faces[0].query is faces[1].query
    update, call = rows["tenant.update"].http, rows["tenant.call_update"].http
    assert update is not None
    assert call is not None
    assert "tenant" not in HttpFace(rows["tenant.update"], update).body.__struct_fields__
    assert "tenant" in HttpFace(rows["tenant.call_update"], call).body.__struct_fields__


def test_fields_may_have_another_name_here_than_over_a_socket() -> None:
    renamed = face(Http("POST", "/v1/names", rename={"limit": "most", "best": "first"}))
    assert {field.encode_name for field in msgspec.structs.fields(renamed.body)} >= {"most", "containerId"}
    content = renamed.content(ListReply(names=(), total=1, best="a"), {})
    assert msgspec.to_builtins(content) == {"names": (), "total": 1, "first": "a"}
