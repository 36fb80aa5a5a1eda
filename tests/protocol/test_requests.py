import msgspec

from agentvm.protocol.requests import Reply, Request, SubscribingReply


class Ask(Request[Reply]):
    image_id: str


def test_a_request_is_camel_case_on_the_wire_and_refused_without_other_fields() -> None:
    request = msgspec.json.decode(b'{"imageId":"i"}', type=Ask)
    assert request.image_id == "i"
    assert request.refused() == Reply()


def test_subscriptions_have_the_name_that_clients_read() -> None:
    assert msgspec.to_builtins(SubscribingReply(subscriptions=())) == {"__subscriptions": ()}
