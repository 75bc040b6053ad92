import base64
import datetime as dt
import json
from importlib import import_module

import pytest
import time_machine

from webhooks.sender import sign, signing_key

EVENT = "evt_01JCZZZZZZZZZZZZZZZZZZZZZZ"
AT = 1763712000
BODY = (
    b'{"type":"report.completed","timestamp":"2026-11-21T08:00:00.000000Z",'
    b'"data":{"id":"rep_01J0000000000000000000000"}}'
)
PLAIN = "correct horse battery staple 42!"
LOOKS_ENCODED = "c2VjcmV0LXRoYXQtaXMtYWxzby1iYXNlNjQtdGV4dA=="
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD = "old secret old secret old secret"


def test_signature_matches_the_official_vector():
    signed = sign(
        [WHSEC],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )

    assert signing_key(WHSEC).hex() == (
        "31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0"
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("secrets", "signature"),
    [
        ([PLAIN], "v1,C2TScYQxggTRnbv7yYbUfoPRafYqA5jqTHTXeymLiDM="),
        ([LOOKS_ENCODED], "v1,CIGIn8f4ZBcgmxy2KB+xTyxKUJ+HmWelDysth8xCzq8="),
        ([WHSEC], "v1,k/0d5xlN1TQBwd7g0O5U68HVpS4HlYUuRpKL09yU4yc="),
        (
            [PLAIN, OLD],
            "v1,C2TScYQxggTRnbv7yYbUfoPRafYqA5jqTHTXeymLiDM= "
            "v1,OgWgcvbuhTz3CzRXUPurka6D0JnV/EwrU3orU3BhMms=",
        ),
    ],
)
def test_each_secret_signs_as_in_the_vectors(secrets, signature):
    assert sign(secrets, EVENT, AT, BODY) == signature


def library_form(secret):
    return "whsec_" + base64.b64encode(signing_key(secret)).decode()


@pytest.mark.parametrize(
    ("secret", "form"),
    [
        (PLAIN, "whsec_Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZSA0MiE="),
        (
            LOOKS_ENCODED,
            "whsec_YzJWamNtVjBMWFJvWVhRdGFYTXRZV3h6YnkxaVlYTmxOalF0ZEdWNGRBPT0=",
        ),
        (WHSEC, WHSEC),
    ],
)
def test_secret_for_libraries_is_the_key_in_base64(secret, form):
    assert library_form(secret) == form


@pytest.mark.parametrize("name", ["standardwebhooks", "svix"])
@pytest.mark.parametrize("secret", [PLAIN, LOOKS_ENCODED, WHSEC])
def test_official_libraries_verify_the_signature(name, secret):
    # Imported here, as each worker reads this file and svix takes long to import.
    library = import_module(name)
    headers = {
        "webhook-id": EVENT,
        "webhook-timestamp": str(AT),
        "webhook-signature": sign([OLD, secret], EVENT, AT, BODY),
    }

    with time_machine.travel(dt.datetime.fromtimestamp(AT, dt.UTC)):
        receivers = [library.Webhook(library_form(secret))]
        receivers.append(library.Webhook(signing_key(secret)))
        for receiver in receivers:
            receiver.verify(BODY, headers)
            with pytest.raises(library.WebhookVerificationError):
                receiver.verify(BODY + b" ", headers)


def test_body_is_signed_as_bytes():
    body = json.dumps({"name": "Wanjikũ"}, ensure_ascii=False).encode()

    assert sign([PLAIN], EVENT, AT, body) != sign([PLAIN], EVENT, AT, body.upper())
    assert sign([PLAIN], EVENT, AT, b"\xff\x00")


def encoded(length):
    return "whsec_" + base64.b64encode(bytes(range(length))).decode()


@pytest.mark.parametrize("length", [24, 25, 26, 32, 64])
def test_whsec_secret_of_the_right_length_is_decoded(length):
    assert signing_key(encoded(length)) == bytes(range(length))


@pytest.mark.parametrize(
    "secret",
    [
        "whsec_",
        "whsec_not base64 but rather long text",
        encoded(23),
        encoded(65),
        encoded(32).rstrip("="),
        encoded(32) + "=",
        encoded(32) + "\n",
        encoded(32)[:10] + " " + encoded(32)[10:],
        # Decoders ignore the bits after the last byte.
        encoded(32)[:-2] + "9=",
        encoded(33).replace("/", "_")[:-4] + "A-_A",
        "whsec_" + "ü" * 32,
    ],
)
def test_malformed_whsec_secret_is_refused(secret):
    with pytest.raises(ValueError, match="base64 of 24 to 64 bytes"):
        signing_key(secret)
