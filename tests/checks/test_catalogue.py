from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

from tests.world.clients import ATTESTED, Api, company
from tests.world.orders import faults_of_each
from verification.api.examples import read_examples
from verification.checks.catalogue import CATALOGUE
from verification.checks.models import CheckDefinition

PERSON, BUSINESS = ["INDIVIDUAL"], ["COMPANY"]
PERSON_OR_BUSINESS = ["INDIVIDUAL", "COMPANY"]
# The contract's table; an input that is always required ends in "*".
TABLE: dict[str, tuple[str, list[str], bool, int, int, list[str]]] = {
    "IDENTITY": ("IDENTITY", PERSON, True, 50, 90, ["idNumber*", "dateOfBirth"]),
    "KRA_PIN": ("TAX", PERSON_OR_BUSINESS, True, 50, 90, ["kraPin", "idNumber"]),
    "EMPLOYER_VERIFICATION": (
        "EMPLOYMENT",
        PERSON,
        True,
        500,
        180,
        [
            "employerName*",
            "refereeName*",
            "refereeEmail*",
            "jobTitle",
            "employmentStart",
            "employmentEnd",
        ],
    ),
    "BUSINESS_VERIFICATION": (
        "BUSINESS",
        BUSINESS,
        False,
        300,
        30,
        ["registrationNumber*", "postalAddress", "postalCode"],
    ),
    "CRB_SCORE": ("CREDIT", PERSON, True, 150, 30, ["idNumber*"]),
    "CRB_STANDARD": ("CREDIT", PERSON, True, 350, 30, ["idNumber*"]),
    "CRB_FULL": ("CREDIT", PERSON, True, 650, 30, ["idNumber*", "phone"]),
    "CREDITBUREAU_SCORE": ("CREDIT", PERSON, True, 150, 30, ["idNumber*"]),
    "CREDITBUREAU_STATUS": ("CREDIT", PERSON, True, 250, 30, ["idNumber*"]),
    "CREDITBUREAU_COMP": ("CREDIT", BUSINESS, True, 900, 30, ["registrationNumber*"]),
    # Beside the contract's: not offered until it has a source.
    "AML_SCREENING": (
        "AML",
        PERSON_OR_BUSINESS,
        True,
        100,
        1,
        ["fullName", "dateOfBirth"],
    ),
}
TYPES = {"TEXT", "EMAIL", "PHONE", "DATE", "NUMBER", "COUNTRY"}


def set_up() -> str:
    out = StringIO()
    call_command("setup_checks", stdout=out)
    return out.getvalue()


def rows() -> list[dict[str, Any]]:
    return [{**row} for row in CheckDefinition.objects.order_by("name").values()]


@pytest.fixture
def definitions(db: None) -> None:
    CheckDefinition.objects.all().delete()
    set_up()


def test_example_of_the_document_is_a_definition_of_the_catalogue(api: Api) -> None:
    example = read_examples()["operations"]["getCheckDefinition"]["answer"]
    shown = api.get(f"/checks/definitions/{example['name']}").json()

    installation = ("id", "availability", "recipients")
    assert example == {**shown, **{name: example[name] for name in installation}}


def test_catalogue_equals_the_table_of_the_contract(definitions: None) -> None:
    checks = CheckDefinition.objects.all()

    # In the order of the contract
    assert [check.name for check in checks] == list(TABLE)
    for check in checks:
        inputs = [i["key"] + "*" * i["required"] for i in check.required_inputs]
        assert TABLE[check.name] == (
            check.category,
            check.subject_types,
            check.requires_consent,
            check.price,
            check.freshness_days,
            inputs,
        )
        assert check.currency == "KES"
        assert check.active == (check.name != "AML_SCREENING")
        check.full_clean()


def test_every_input_has_a_label_and_description(definitions: None) -> None:
    for check in CheckDefinition.objects.all():
        for item in check.required_inputs:
            assert item["type"] in TYPES
            assert item["label"]
            assert item["description"].endswith(".")
            assert type(item["required"]) is bool


def test_tax_check_needs_a_pin_or_a_persons_number(
    definitions: None,
) -> None:
    check = CheckDefinition.objects.get(name="KRA_PIN")

    pin, id_number = check.required_inputs
    assert (pin["requiredFor"], pin.get("unless")) == (["COMPANY"], None)
    assert (id_number["requiredFor"], id_number["unless"]) == (["INDIVIDUAL"], "kraPin")
    assert "A company needs kraPin." in check.description
    assert "A person needs kraPin or idNumber" in check.description


INPUTS = {"TEXT": "Acacia", "EMAIL": "a@acacia.test", "DATE": "2020-01-31"}
NUMBERS = {
    "idNumber": "12345678",
    "kraPin": "A012345678Z",
    "registrationNumber": "PVT-AB12CDE",
}
CASES = [(name, kind) for name, row in TABLE.items() for kind in row[1]]


def test_order_needs_the_inputs_that_the_definition_says(api: Api) -> None:
    CheckDefinition.objects.update(active=True)
    definitions = api.get("/checks/definitions").json()["content"]
    all_inputs = {each["name"]: each["requiredInputs"] for each in definitions}
    # Items, and the input that each lacks
    items: list[tuple[dict[str, Any], list[str]]] = []
    for name, kind in CASES:
        inputs = all_inputs[name]
        needed = [one for one in inputs if kind in one["requiredFor"]]
        values = {
            i["key"]: NUMBERS.get(i["key"]) or INPUTS.get(i["type"]) for i in inputs
        }
        named = {"fullName": "Acacia"}
        if "fullName" in [one["key"] for one in needed]:
            named = {"registrationNumber": NUMBERS["registrationNumber"]}
        subject = {"subjectType": kind, **named} | {
            one["key"]: values[one["key"]] for one in needed
        }
        rest = {"checksRequested": [name], "purpose": "Loan", "consent": ATTESTED}
        items.append(({"subject": subject, **rest}, []))
        for one in needed:
            without = {k: v for k, v in subject.items() if k != one["key"]}
            items.append(({"subject": without, **rest}, [one["key"]]))
            if other := one["requiredUnless"]:
                without = {**without, other: values[other]}
                items.append(({"subject": without, **rest}, []))

    faults = faults_of_each(api, *[item for item, _ in items])

    missing = [[path.rpartition("/")[2] for path in found] for found in faults]
    assert missing == [lacks for _, lacks in items]


def test_names_of_fields_and_flags_fit_and_are_unique() -> None:
    for entry in CATALOGUE:
        assert len(set(entry.output_fields)) == len(entry.output_fields)
        assert len(set(entry.flag_codes)) == len(entry.flag_codes)
        assert max(map(len, entry.output_fields)) <= 60
        assert max(map(len, entry.flag_codes)) <= 40


def test_setup_gives_each_check_five_attempts(
    definitions: None,
) -> None:
    for check in CheckDefinition.objects.all():
        assert check.retry_policy == {
            "maxAttempts": 5,
            "initialDelaySeconds": 1,
            "backoffMultiplier": 3,
            "maxDelaySeconds": 60,
        }


def test_setup_changes_nothing_when_run_again(definitions: None) -> None:
    before = rows()

    assert set_up() == "Checks: 0 created, 0 updated.\n"

    assert rows() == before


def test_setup_keeps_the_edits_of_staff(definitions: None) -> None:
    edited = {
        "price": Decimal("75.50"),
        "active": False,
        "display_name": "ID",
        "description": "Ours.",
        "freshness_days": 7,
        "requires_consent": False,
        "retry_policy": {"maxAttempts": 2},
    }
    CheckDefinition.objects.filter(name="IDENTITY").update(**edited)

    set_up()

    check = CheckDefinition.objects.get(name="IDENTITY")
    assert {name: getattr(check, name) for name in edited} == edited


def test_setup_updates_what_the_code_owns(definitions: None) -> None:
    before = rows()
    CheckDefinition.objects.filter(name="KRA_PIN").update(
        required_inputs=[],
        output_fields=["old"],
        flag_codes=[],
        subject_types=["COMPANY"],
        category="CREDIT",
        position=99,
    )

    assert set_up() == "Checks: 0 created, 1 updated.\n"

    assert [{**r, "updated_at": 0} for r in rows()] == [
        {**r, "updated_at": 0} for r in before
    ]


def test_setup_creates_a_missing_check(definitions: None) -> None:
    CheckDefinition.objects.filter(name="CRB_FULL").delete()

    assert set_up() == "Checks: 1 created, 0 updated.\n"

    assert CheckDefinition.objects.count() == len(TABLE)


@pytest.mark.django_db(transaction=True)
def test_concurrent_setups_create_each_check_once() -> None:
    CheckDefinition.objects.all().delete()

    def in_its_own_connection(_: int) -> str:
        try:
            return set_up()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(in_its_own_connection, range(4)))

    assert len(said) == 4
    assert CheckDefinition.objects.count() == len(TABLE)


@pytest.mark.parametrize("path", ["/checks/definitions", "/sandbox/subjects"])
def test_short_list_is_read_in_pages(api: Api, path: str) -> None:
    whole = api.get(path).json()
    assert whole["totalElements"] == len(whole["content"]) < whole["size"] == 20

    page = api.get(path, page=1, size=3).json()

    assert page["content"] == whole["content"][3:6]
    assert (page["totalPages"], page["first"], page["last"]) == (4, False, False)
    assert api.get(path, page=9).json()["content"] == []
    assert api.get(path, size=201).json()["errors"][0]["code"] == "out-of-range"


def test_catalogue_offers_the_postal_address_a_route_needs(api: Api) -> None:
    answer = api.get("/checks/definitions/BUSINESS_VERIFICATION").json()
    keys = {each["key"]: each["required"] for each in answer["requiredInputs"]}
    assert keys["postalAddress"] is keys["postalCode"] is False

    order = company() | {"checksRequested": ["BUSINESS_VERIFICATION"]}
    order["subject"] |= {"postalAddress": "P.O. Box 1234", "postalCode": "00100"}
    subject = api.report(api.create(order)["id"])["subject"]

    assert subject["postalAddress"] == "P.O. Box 1234"
