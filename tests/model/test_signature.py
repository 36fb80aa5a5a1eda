import base64

from agentvm.model.secret import Secret
from agentvm.model.signature import secret_of, signed_headers

SECRET = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


def test_the_vector_of_the_specification_is_signed_alike() -> None:
    headers = dict(signed_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [SECRET]))
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_each_secret_has_a_signature_of_its_own() -> None:
    other = secret_of(bytes(32))
    assert other.reveal() == f"whsec_{base64.b64encode(bytes(32)).decode()}"
    both = dict(signed_headers("e", 1, b"{}", [SECRET, other]))["webhook-signature"].split()
    alone = [dict(signed_headers("e", 1, b"{}", [secret]))["webhook-signature"] for secret in (SECRET, other)]
    assert both == alone
