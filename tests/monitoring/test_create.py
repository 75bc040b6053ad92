import copy
from typing import Any

from django.utils.timezone import now

from monitoring.models import Rule, Run
from tests.world.clients import ATTESTED, HOSTED, Api, error_codes
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.orders import count_rows, movements
from tests.world.rules import create_rule, rule_request, run_rules
from verification.checks.models import CheckDefinition
from webhooks.models import Event

COMPANY = {
    "subjectType": "COMPANY",
    "fullName": "Baobab Ltd",
    "registrationNumber": "PVT-1",
}


def changed(path: str, value: Any) -> dict[str, Any]:
    body = copy.deepcopy(rule_request())
    *way, last = path.split("/")
    place: Any = body
    for step in way:
        place = place[step]
    place[last] = value
    return body


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in rule_request().items() if key != name}


def told(api: Api, body: Any) -> dict[str, str]:
    before = count_rows()
    problem = api.refused("/monitoring", body)
    assert problem["code"] == "validation-failed", problem
    assert count_rows() == before
    return {at.removeprefix("#/"): code for at, code in error_codes(problem).items()}


def test_created_rule_shows_its_schedule(api: Api):
    made = create_rule(
        api, "IDENTITY", "KRA_PIN", cadence="MONTHLY", reference="loan-1"
    )

    stored = Rule.objects.get()
    assert made["id"] == str(stored.pk)
    assert made["checkNames"] == ["IDENTITY", "KRA_PIN"]
    assert (made["cadence"], made["status"]) == ("MONTHLY", "ACTIVE")
    assert (made["reference"], made["recentAlerts"]) == ("loan-1", [])
    assert made["nextRunAt"] > made["createdAt"]
    assert made["subject"]["lastName"] == "Kamau"
    assert api.get(f"/monitoring/{made['id']}").json() == made


def test_created_rule_is_billed_once_and_records_the_attestation(api: Api):
    before = now()
    create_rule(api, "IDENTITY")

    assert movements(api) == [("CHARGE", -50, 1)]
    consent = Run.objects.get().report.consent
    assert consent.status == "ATTESTED"
    assert consent.attestation["method"] == "OTHER"
    assert consent.attestation["policyVersion"] == "monitoring rule"
    assert consent.attestation["obtainedAt"] >= f"{before:%Y-%m-%dT%H:%M:%S}"


def test_consent_of_the_request_is_used_for_every_run(api: Api):
    create_rule(api, consent={**ATTESTED, "evidenceReference": "form-17"})

    consent = Run.objects.get().report.consent
    assert consent.attestation["evidenceReference"] == "form-17"


def test_no_consent_is_recorded_when_no_check_needs_it(api: Api):
    create_rule(api, "BUSINESS_VERIFICATION", subject=COMPANY)

    assert Rule.objects.get().consent is None
    assert not hasattr(Run.objects.get().report, "consent")


def test_missing_member_is_named(api: Api):
    for name in ["subject", "checkNames", "cadence"]:
        assert told(api, without(name))[name] == "required"


FAULTS = [
    ("cadence", "HOURLY", {"cadence": "invalid-choice"}),
    ("cadence", "monthly", {"cadence": "invalid-choice"}),
    ("cadence", 1, {"cadence": "invalid-choice"}),
    ("cadence", None, {"cadence": "required"}),
    ("checkNames", "IDENTITY", {"checkNames": "invalid-type"}),
    ("checkNames", [], {"checkNames": "too-few"}),
    ("checkNames", ["IDENTITY"] * 2, {"checkNames/1": "duplicate"}),
    ("checkNames", ["IDENTITY", "NOPE"], {"checkNames/1": "unknown-check"}),
    ("checkNames", [7], {"checkNames/0": "invalid-type"}),
    (
        "checkNames",
        ["BUSINESS_VERIFICATION"],
        {"checkNames/0": "subject-type-not-accepted"},
    ),
    ("subject", "Wanjiku", {"subject": "invalid-type"}),
    ("subject/fullName", "W" * 10_000, {"subject/fullName": "too-long"}),
    ("subject/idNumber", None, {"subject/idNumber": "missing-input"}),
    ("subject/idNumer", "1", {"subject/idNumer": "unknown-member"}),
    ("reference", "r" * 101, {"reference": "too-long"}),
    ("reference", 7, {"reference": "invalid-type"}),
    ("checksRequested", ["IDENTITY"], {"checksRequested": "unknown-member"}),
    ("draft", True, {"draft": "unknown-member"}),
    ("purpose", "Loan", {"purpose": "unknown-member"}),
    ("paymentMode", "CANDIDATE", {"paymentMode": "unknown-member"}),
    ("consent", HOSTED, {"consent/mode": "not-allowed-here"}),
    (
        "consent",
        {**ATTESTED, "obtained": False},
        {"consent/obtained": "consent-required"},
    ),
    (
        "consent",
        {**ATTESTED, "obtainedAt": "2999-01-01T00:00:00Z"},
        {"consent/obtainedAt": "out-of-range"},
    ),
]


def test_faulty_request_is_refused_and_creates_nothing(api: Api):
    for path, value, expected in FAULTS:
        assert told(api, changed(path, value)) == expected, path


def test_all_faults_are_reported_together(api: Api):
    body = {"subject": {"subjectType": "INDIVIDUAL"}, "cadence": "X", "z": 1}

    assert told(api, body) == {
        "cadence": "invalid-choice",
        "checkNames": "required",
        "subject/fullName": "required",
        "z": "unknown-member",
    }


def test_body_that_is_no_object_is_malformed(api: Api):
    for body in [[], "text", 7]:
        answer = api.post("/monitoring", body)
        assert answer.json()["code"] == "malformed-body"


def test_inactive_check_is_refused(api: Api):
    CheckDefinition.objects.filter(name="IDENTITY").update(active=False)
    assert told(api, rule_request()) == {"checkNames/0": "inactive-check"}


def test_live_key_refuses_reserved_numbers(live_api: Api):
    found = told(live_api, rule_request(id_number="90000007"))
    assert found == {"subject/idNumber": "not-allowed-here"}


def test_no_rule_is_created_when_the_balance_is_too_low(live_api: Api):
    before = count_rows()

    problem = live_api.refused("/monitoring", rule_request("CRB_FULL"))

    assert (problem["status"], problem["code"]) == (402, "insufficient-balance")
    assert "650.00" in problem["detail"]
    assert count_rows() == before


def test_request_repeated_with_its_key_creates_one_rule(api: Api):
    body = rule_request()
    first = api.post("/monitoring", body, Idempotency_Key="k1")
    again = api.post("/monitoring", body, Idempotency_Key='"k1"')
    run_rules(api)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first
    assert Rule.objects.count() == Run.objects.count() == 1
    assert movements(api) == [("CHARGE", -50, 1)]


def test_key_of_another_request_is_refused(api: Api):
    api.post("/monitoring", rule_request(), Idempotency_Key="k1")

    problem = api.refused("/monitoring", rule_request("KRA_PIN"), Idempotency_Key="k1")

    assert (problem["status"], problem["code"]) == (422, "idempotency-key-reused")


def test_refused_request_is_not_stored(api: Api):
    api.refused("/monitoring", without("cadence"), Idempotency_Key="k1")
    assert (
        api.post("/monitoring", rule_request(), Idempotency_Key="k1").status_code == 201
    )


def test_same_request_without_a_key_creates_two_rules(api: Api):
    assert create_rule(api)["id"] != create_rule(api)["id"]
    assert Rule.objects.count() == 2


def test_first_run_raises_the_events_of_a_report(api: Api):
    create_rule(api)
    run_rules(api)

    assert sorted(Event.objects.values_list("name", flat=True)) == [
        "check.completed",
        "report.created",
        "report.ready",
    ]


def test_longest_names_are_searched_and_shown(api: Api):
    name = "Wanjikũ " * 24 + "Kamau"
    made = create_rule(api, subject={**rule_request()["subject"], "fullName": name})

    assert made["subject"]["fullName"] == name
    found = api.get("/monitoring", search="wanjikũ kamau").json()
    assert found["totalElements"] == 1


def test_creation_takes_at_most_15_statements(api: Api, django_assert_max_num_queries):
    create_rule(api)
    with django_assert_max_num_queries(15):
        create_rule(api, id_number="23456789")


def test_rule_of_another_workspace_is_not_found(api: Api, another_api: Api):
    rule = f"/monitoring/{create_rule(api)['id']}"

    for answer in (
        another_api.get(rule),
        another_api.post(f"{rule}/pause"),
        another_api.post(f"{rule}/resume"),
        another_api.delete(rule),
    ):
        assert answer.status_code == 404
