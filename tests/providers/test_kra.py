import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.fakes.kra import BY_ID, BY_PIN, FakeKra
from tests.fakes.kra import kra as kra
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import Refused, Unavailable
from verification.providers.kra import Kra
from verification.reports.models import RiskLevel

TOKEN = "/v1/token/generate"
JOHN = {"kraPin": "A744610021G", "fullName": "John Mutua Maonga"}
JANE = {"fullName": "Jane Wanjiku Kamau"}
ACACIA = {"subjectType": "COMPANY", "fullName": "Acacia Tea Ltd"}


def finding_of(kra: FakeKra, **subject: Any):
    return ask(kra.adapter(), inquiry("KRA_PIN", **subject))


def test_active_pin_of_the_subject_is_clear(kra: FakeKra):
    answer = finding_of(kra, **JOHN)

    assert (answer.score, answer.flags) == (5, [])
    assert answer.details == {
        "kraPin": "A744610021G",
        "taxpayerName": "JOHN MUTUA MAONGA",
        "taxpayerType": "INDIVIDUAL",
        "pinStatus": "ACTIVE",
        "taxStation": None,
        "registeredAddress": None,
        "obligations": None,
        "nameMatch": "MATCH",
    }


@pytest.mark.parametrize(
    ("pin", "status", "flag", "score"),
    [
        ("a744610021g ", "ACTIVE", [], 5),
        ("A521040203F", "SUSPENDED", ["PIN_INACTIVE"], 75),
        ("A521040204F", "CANCELLED", ["PIN_INACTIVE"], 75),
        ("A521040205F", "STOPPED", ["PIN_INACTIVE"], 75),
        ("A521040206F", "DORMANT", ["PIN_INACTIVE"], 75),
        ("A000000000Z", None, ["PIN_NOT_FOUND"], 80),
    ],
)
def test_status_of_a_pin_maps_to_flags(kra: FakeKra, pin, status, flag, score):
    name = "John Mutua Maonga" if pin.startswith("a") else JANE["fullName"]

    answer = finding_of(kra, kraPin=pin, fullName=name)

    assert answer.details["pinStatus"] == status
    assert (codes(answer), answer.score) == (flag, score)


def test_company_name_matches_without_its_legal_form(kra: FakeKra):
    answer = finding_of(kra, **ACACIA, kraPin="P318295670X")

    assert answer.details["taxpayerType"] == "COMPANY"
    assert (answer.details["nameMatch"], answer.score) == ("MATCH", 5)


@pytest.mark.parametrize(
    ("name", "match", "flags", "score"),
    [
        # A sole proprietor uses the owner's PIN; a limited company has its own.
        ("Maonga Hardware", None, ["NAME_NOT_COMPARED"], None),
        ("Maonga & Co.", None, ["NAME_NOT_COMPARED"], None),
        ("John Mutua Maonga", "MATCH", [], 5),
        ("Maonga Hardware Ltd", "NO_MATCH", ["NAME_MISMATCH"], 55),
        ("Maonga Hardware LLP", "NO_MATCH", ["NAME_MISMATCH"], 55),
    ],
)
def test_owners_name_is_no_mismatch_of_a_business(kra, name, match, flags, score):
    business = {**ACACIA, "fullName": name, "kraPin": JOHN["kraPin"]}

    answer = finding_of(kra, **business)

    assert answer.details["taxpayerType"] == "INDIVIDUAL"
    assert (answer.details["nameMatch"], codes(answer)) == (match, flags)
    assert answer.score == score
    assert (answer.name_comparison is None) == (match is None)
    assert ("owner" in answer.summary) == (match is None)


@pytest.mark.parametrize("word", ["Resident Individual", None])
def test_first_letter_tells_the_kind_of_taxpayer_if_kra_does_not(kra: FakeKra, word):
    data = {**PINDATA, "Name": JOHN["fullName"], "TypeOfTaxpayer": word}
    kra.says = (200, {"ResponseCode": "23000", "Status": "OK", "PINDATA": data})
    business = {**ACACIA, "fullName": "Maonga Hardware", "kraPin": JOHN["kraPin"]}

    answer = finding_of(kra, **business)

    assert answer.details["taxpayerType"] == "INDIVIDUAL"
    assert codes(answer) == ["NAME_NOT_COMPARED"]


@pytest.mark.parametrize("word", [None, "Asleep"])
def test_pin_without_a_known_status_has_no_score(kra: FakeKra, word, caplog):
    data = {**PINDATA, "Name": JOHN["fullName"], "StatusOfPIN": word}
    kra.says = (200, {"ResponseCode": "23000", "Status": "OK", "PINDATA": data})

    answer = finding_of(kra, **JOHN)

    assert (codes(answer), answer.score) == ([], None)
    assert answer.details["pinStatus"] is None
    assert ("ASLEEP" in caplog.text) == bool(word)


def test_another_name_is_flagged(kra: FakeKra):
    answer = finding_of(kra, kraPin=JOHN["kraPin"], **JANE)

    assert (codes(answer), answer.score) == (["NAME_MISMATCH"], 55)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("John Mutua Maonga", "PARTIAL_MATCH"),
        ("John Maonga", "PARTIAL_MATCH"),
        ("Peter Mutua Maonga", "NO_MATCH"),
    ],
)
def test_masked_names_and_pins_are_compared(kra: FakeKra, name, match):
    kra.masks = True

    answer = finding_of(kra, kraPin=JOHN["kraPin"], fullName=name)

    assert answer.details["kraPin"] == JOHN["kraPin"]
    assert "*" in answer.details["taxpayerName"]
    assert answer.details["nameMatch"] == match


@pytest.mark.parametrize("name", ["*** ***", "N/A", ["John"]])
def test_hidden_name_has_no_score(kra: FakeKra, name):
    data = {"KRAPIN": "A***1G", "Name": name, "StatusOfPIN": "Active"}
    kra.says = (200, {"ResponseCode": "23000", "Status": "OK", "PINDATA": data})

    answer = finding_of(kra, **JOHN)

    assert (answer.score, answer.details["nameMatch"]) == (None, None)
    assert codes(answer) == ["NAME_NOT_COMPARED"]


@pytest.mark.parametrize("masks", [False, True])
def test_look_up_by_id_also_fetches_the_status(kra: FakeKra, masks: bool):
    kra.masks = masks

    answer = finding_of(kra, idNumber="20000001", **JANE)

    assert codes(answer) == ["PIN_INACTIVE"]
    assert answer.details["kraPin"] == "A521040203F"
    assert answer.details["taxpayerName"] == "JANE WANJIKU KAMAU"
    assert answer.details["nameMatch"] == "MATCH"


def test_pin_by_id_that_kra_does_not_know_has_no_status(kra: FakeKra):
    kra.is_forgetful = True

    answer = finding_of(kra, idNumber="20000001", **JANE)

    assert (codes(answer), answer.score) == ([], None)
    assert answer.details["kraPin"] == "A521040203F"


def test_unknown_id_has_no_pin(kra: FakeKra):
    answer = finding_of(kra, idNumber="99999999", **JANE)

    assert (codes(answer), answer.score) == (["PIN_NOT_FOUND"], 80)
    assert answer.details["kraPin"] is None


def test_masked_pin_by_id_has_no_status_and_no_score(kra: FakeKra):
    data = {"TaxpayerPIN": "A***1G", "TaxpayerName": "JANE WANJIKU KAMAU"}
    kra.says = (200, data)

    answer = finding_of(kra, idNumber="41789723", **JANE)

    assert (answer.score, answer.details["pinStatus"], answer.flags) == (None, None, [])
    assert RiskLevel.of(answer.score) == RiskLevel.UNKNOWN


def test_pin_without_status_and_name_says_that_the_status_is_unknown(kra: FakeKra):
    kra.says = (200, {"TaxpayerPIN": "A***1G", "TaxpayerName": "*** ***"})

    answer = finding_of(kra, idNumber="41789723", **JANE)

    assert (codes(answer), answer.score) == (["NAME_NOT_COMPARED"], None)
    assert "whether it is active is not known" in answer.summary


PINDATA = {"KRAPIN": JOHN["kraPin"], "Name": "SOMEBODY", "StatusOfPIN": "Active"}


# Answer of the source -> failure, and text for the client.
@pytest.mark.parametrize(
    ("status", "body", "failure", "told"),
    [
        (200, {"ResponseCode": "99999", "Status": "OK"}, Unavailable, "code 99999,"),
        (200, {"ResponseCode": "23000", "Status": "OK"}, Unavailable, "code 23000,"),
        (
            200,
            {"ResponseCode": "23000", "Status": "NOK", "PINDATA": PINDATA},
            Unavailable,
            "code 23000,",
        ),
        (
            200,
            {"ResponseCode": "19005", "Status": "OK", "PINDATA": PINDATA},
            Unavailable,
            "code 19005,",
        ),
        (
            200,
            {
                "ResponseCode": "23000",
                "Status": "OK",
                "PINDATA": {**PINDATA, "KRAPIN": "A999999999Z"},
            },
            Unavailable,
            "about another PIN",
        ),
        (200, {"ErrorCode": "Maonga 1"}, Unavailable, "code ?,"),
        (200, [], Unavailable, "no object"),
        (200, {}, Unavailable, "code ?,"),
        (400, {"ErrorCode": "400", "ErrorMessage": "x"}, Refused, "status 400"),
        (403, {"ErrorCode": "403"}, Refused, "status 403"),
        (404, {"ErrorCode": "404"}, Refused, "status 404"),
        (429, {}, Unavailable, "status 429"),
        (500, {}, Unavailable, "status 500"),
        (503, "<html>", Unavailable, "status 503"),
        (200, "<html>", Unavailable, "not with JSON"),
    ],
)
def test_malformed_answer_raises_an_error(
    kra: FakeKra, status, body, failure, told, caplog
):
    kra.says = (status, body)

    with pytest.raises(failure) as error:
        finding_of(kra, **JOHN)

    assert told in error.value.message
    for text in [error.value.message, caplog.text]:
        assert "Maonga" not in text
        assert JOHN["kraPin"] not in text


@pytest.mark.parametrize("status", [200, 400, 404])
@pytest.mark.parametrize("key", ["ResponseCode", "ErrorCode"])
def test_unknown_pin_is_not_found_with_any_http_status(kra: FakeKra, status, key):
    kra.says = (status, {key: "19005", "Status": "NOK"})

    assert codes(finding_of(kra, **JOHN)) == ["PIN_NOT_FOUND"]


def test_unknown_code_is_logged(kra: FakeKra, caplog):
    kra.says = (200, {"ResponseCode": "23999"})

    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable):
        finding_of(kra, **JOHN)

    assert "23999" in caplog.text


@pytest.mark.parametrize("told", ["as 401", "as 500"])
def test_expired_token_is_replaced_once(kra: FakeKra, told: str):
    adapter = kra.adapter()
    ask(adapter, inquiry("KRA_PIN", **JOHN))
    kra.expire(told)

    assert ask(adapter, inquiry("KRA_PIN", **JOHN)).score == 5

    assert (kra.asked(TOKEN), kra.asked(BY_PIN)) == (2, 3)


@pytest.mark.parametrize(("status", "failure"), [(401, Refused), (500, Unavailable)])
def test_rejected_token_ends_the_attempt(kra: FakeKra, status, failure):
    fault = {"fault": {"detail": {"errorcode": "x.access_token_expired"}}}
    kra.says = (status, fault)

    with pytest.raises(failure):
        finding_of(kra, **JOHN)

    assert kra.asked(BY_PIN) == 2


@pytest.mark.parametrize("expires_in", ["3599", 3599, None, "soon"])
def test_threads_share_one_token(kra: FakeKra, expires_in: Any):
    kra.expires_in = expires_in
    kra.faults.path, kra.faults.slow = TOKEN, 0.1
    adapter = kra.adapter()

    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda _: adapter.ask(inquiry("KRA_PIN", **JOHN)), range(16))
        )

    assert {answer.score for answer in answers} == {5}
    assert kra.asked(TOKEN) == 1


def test_threads_share_a_failure_and_the_next_call_retries(kra: FakeKra):
    kra.faults.path, kra.faults.status = TOKEN, 503
    adapter = kra.adapter()
    with pytest.raises(Unavailable):
        ask(adapter, inquiry("KRA_PIN", **JOHN))

    kra.faults.status = None

    assert ask(adapter, inquiry("KRA_PIN", **JOHN)).score == 5


def test_wrong_credentials_are_refused_without_repeating_them(kra: FakeKra):
    kra.clients["key"] = ("another", set())

    with pytest.raises(Refused) as error:
        finding_of(kra, **JOHN)

    assert "does not take the credentials" in error.value.message
    assert "secret" not in error.value.message


def test_each_product_has_its_own_credentials(kra: FakeKra):
    kra.clients = {"key": ("secret", {BY_PIN}), "other": ("word", {BY_ID})}
    by_id = inquiry("KRA_PIN", idNumber="20000001", **JANE)

    with pytest.raises(Refused, match="status 403"):
        kra.adapter().ask(by_id)

    adapter = kra.adapter(by_id_client_id="other", by_id_client_secret="word")
    assert codes(ask(adapter, by_id)) == ["PIN_INACTIVE"]


@pytest.mark.parametrize("path", [TOKEN, BY_PIN])
def test_faulty_answer_is_unavailable(kra: FakeKra, path: str):
    kra.faults.path, kra.faults.status = path, 500

    with pytest.raises(Unavailable):
        finding_of(kra, **JOHN)


@pytest.mark.parametrize("subject", [JANE, ACACIA, {**ACACIA, "idNumber": "41789723"}])
def test_inquiry_without_a_number_is_refused(kra: FakeKra, subject: dict[str, Any]):
    with pytest.raises(Refused):
        finding_of(kra, **subject)
    assert not kra.requests


def test_another_check_is_refused():
    with pytest.raises(Refused):
        Kra("key", "secret").ask(inquiry("IDENTITY", idNumber="1"))
