"""The catalogue: the check definitions as `manage.py setup_checks` first creates them.

The inputs, output fields and flags of a check belong to the code; each start updates
them. Its price, texts, freshness and `active` belong to staff, who edit them in the
admin. `docs/client/checks.md` describes the fields and flags.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

from verification.values.shapes import enumeration

RETRY_POLICY: dict[str, int] = {
    "maxAttempts": 5,
    "initialDelaySeconds": 1,
    "backoffMultiplier": 3,
    "maxDelaySeconds": 60,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A check definition; the fields are those of the model."""

    name: str
    display_name: str
    category: str
    description: str
    price: Decimal
    freshness_days: int
    required_inputs: list[dict[str, Any]]
    output_fields: list[str]
    flag_codes: list[str]
    subject_types: list[str] = field(default_factory=lambda: ["INDIVIDUAL"])
    requires_consent: bool = True
    retry_policy: dict[str, int] = field(default_factory=RETRY_POLICY.copy)
    active: bool = True


def _input(
    key: str,
    label: str,
    description: str,
    type: str = "TEXT",
    *,
    required: bool = True,
    **conditions: Any,
) -> dict[str, Any]:
    return {
        "key": key,
        "label": label,
        "type": type,
        "required": required,
        "description": description,
        **conditions,
    }


ID_NUMBER = _input("idNumber", "ID number", "National ID number of the person.")
REGISTRATION_NUMBER = _input(
    "registrationNumber",
    "Registration number",
    "Number of the company in the business register, for example PVT-AB12CDE.",
)

PERSON_FIELDS = ["idNumber", "fullName", "nameMatch"]
COMPANY_FIELDS = ["registrationNumber", "registeredName", "nameMatch"]
SCORE_FIELDS = ["creditScore", "scoreBand", "probabilityOfDefault"]
ACCOUNT_FIELDS = [
    "creditScore",
    "scoreBand",
    "delinquencyStatus",
    "accounts",
    "openAccounts",
    "nonPerformingAccounts",
    "totalBalance",
    "totalOverdue",
    "worstDaysInArrears",
    "currency",
]
BEHAVIOUR_FIELDS = [
    "scoreTrend",
    "enquiriesLast12Months",
    "bouncedChequesLast12Months",
    "guarantees",
    "fraudAlert",
]

# Flags about the name in a record that was found.
NAME_FLAGS = ["NAME_MISMATCH", "NAME_NOT_COMPARED"]
SCORE_FLAGS = ["NO_CREDIT_RECORD", *NAME_FLAGS, "LOW_CREDIT_SCORE"]
ACCOUNT_FLAGS = [*SCORE_FLAGS, "NON_PERFORMING_ACCOUNT", "PAST_DELINQUENCY"]
BEHAVIOUR_FLAGS = [*ACCOUNT_FLAGS, "BOUNCED_CHEQUES", "FRAUD_ALERT"]

CATALOGUE = [
    Entry(
        name="IDENTITY",
        display_name="National identity",
        category="IDENTITY",
        description=(
            "Looks the ID number up in the national register of persons and compares "
            "the name, and the date of birth when it is given."
        ),
        price=Decimal("50.00"),
        freshness_days=90,
        required_inputs=[
            ID_NUMBER,
            _input(
                "dateOfBirth",
                "Date of birth",
                "Compared with the register when it is given.",
                "DATE",
                required=False,
            ),
        ],
        output_fields=[
            "idNumber",
            "serialNumber",
            "fullName",
            "dateOfBirth",
            "gender",
            "citizenship",
            "placeOfBirth",
            "lifeStatus",
            "nameMatch",
            "dateOfBirthMatch",
        ],
        flag_codes=["ID_NOT_FOUND", *NAME_FLAGS, "DOB_MISMATCH", "DECEASED"],
    ),
    Entry(
        name="KRA_PIN",
        display_name="KRA PIN",
        category="TAX",
        description=(
            "Checks the taxpayer's PIN with the Kenya Revenue Authority and compares "
            "the name. A company needs kraPin. A person needs kraPin or idNumber; "
            "when both are given, the PIN is what is looked up."
        ),
        subject_types=["INDIVIDUAL", "COMPANY"],
        price=Decimal("50.00"),
        freshness_days=90,
        required_inputs=[
            _input(
                "kraPin",
                "KRA PIN",
                "A letter, nine digits and a letter. Required for a company; for a "
                "person, idNumber will do instead.",
                required=False,
                requiredFor=["COMPANY"],
            ),
            _input(
                "idNumber",
                "ID number",
                "Required for a person when kraPin is not given.",
                required=False,
                requiredFor=["INDIVIDUAL"],
                unless="kraPin",
            ),
        ],
        output_fields=[
            "kraPin",
            "taxpayerName",
            "taxpayerType",
            "pinStatus",
            "taxStation",
            "registeredAddress",
            "obligations",
            "nameMatch",
        ],
        flag_codes=["PIN_NOT_FOUND", *NAME_FLAGS, "PIN_INACTIVE"],
    ),
    Entry(
        name="EMPLOYER_VERIFICATION",
        display_name="Employer reference",
        category="EMPLOYMENT",
        description=(
            "Asks a referee at the employer, through a link sent by e-mail, to confirm "
            "the employment. The job title and the dates are compared when given."
        ),
        price=Decimal("500.00"),
        freshness_days=180,
        required_inputs=[
            _input("employerName", "Employer", "Name of the employer."),
            _input("refereeName", "Referee", "Name of the person who will answer."),
            _input(
                "refereeEmail",
                "Referee's e-mail address",
                "Where the link is sent.",
                "EMAIL",
            ),
            _input("jobTitle", "Job title", "As the subject says.", required=False),
            _input(
                "employmentStart",
                "Start of employment",
                "As the subject says.",
                "DATE",
                required=False,
            ),
            _input(
                "employmentEnd",
                "End of employment",
                "As the subject says; leave it out when the employment goes on.",
                "DATE",
                required=False,
            ),
        ],
        output_fields=[
            "employerName",
            "employerMatch",
            "employed",
            "employeeName",
            "nameMatch",
            "jobTitle",
            "jobTitleMatch",
            "employmentStart",
            "employmentEnd",
            "datesMatch",
            "wouldRehire",
            "refereeName",
            "refereeTitle",
            "remarks",
        ],
        flag_codes=[
            "EMPLOYMENT_NOT_FOUND",
            "NAME_MISMATCH",
            "EMPLOYER_MISMATCH",
            "JOB_TITLE_MISMATCH",
            "DATES_MISMATCH",
            "WOULD_NOT_REHIRE",
            "REFEREE_IS_SUBJECT",
        ],
    ),
    Entry(
        name="BUSINESS_VERIFICATION",
        display_name="Business registration",
        category="BUSINESS",
        description=(
            "Looks the company up in the business register: its status, address, "
            "directors and shareholders. The name is compared when it is given."
        ),
        subject_types=["COMPANY"],
        requires_consent=False,
        price=Decimal("300.00"),
        freshness_days=30,
        required_inputs=[
            REGISTRATION_NUMBER,
            _input(
                "postalAddress",
                "Postal address",
                "Of a company in Kenya, as the register has it, for example P.O. Box "
                "1234. One of the sources gives the whole extract only with it.",
                required=False,
            ),
            _input(
                "postalCode",
                "Postal code",
                "Of that address, for example 00100.",
                required=False,
            ),
        ],
        output_fields=[
            "registrationNumber",
            "registeredName",
            "companyType",
            "companyStatus",
            "incorporatedOn",
            "registeredAddress",
            "directors",
            "shareholders",
            "nameMatch",
        ],
        flag_codes=["COMPANY_NOT_FOUND", *NAME_FLAGS, "COMPANY_DISSOLVED"],
    ),
    Entry(
        name="CRB_SCORE",
        display_name="CRB score",
        category="CREDIT",
        description="The person's credit score at a credit reference bureau.",
        price=Decimal("150.00"),
        freshness_days=30,
        required_inputs=[ID_NUMBER],
        output_fields=[*PERSON_FIELDS, *SCORE_FIELDS],
        flag_codes=SCORE_FLAGS,
    ),
    Entry(
        name="CRB_STANDARD",
        display_name="CRB standard report",
        category="CREDIT",
        description="The person's credit score, accounts, balances and arrears.",
        price=Decimal("350.00"),
        freshness_days=30,
        required_inputs=[ID_NUMBER],
        output_fields=[*PERSON_FIELDS, *ACCOUNT_FIELDS],
        flag_codes=ACCOUNT_FLAGS,
    ),
    Entry(
        name="CRB_FULL",
        display_name="CRB full report",
        category="CREDIT",
        description=(
            "The standard report with the score's trend, enquiries, bounced cheques, "
            "guarantees, fraud alerts, and the contacts that lenders have on file."
        ),
        price=Decimal("650.00"),
        freshness_days=30,
        required_inputs=[
            ID_NUMBER,
            _input(
                "phone",
                "Telephone number",
                "Not sent: the bureau finds mobile loans by the ID number.",
                "PHONE",
                required=False,
            ),
        ],
        output_fields=[
            *PERSON_FIELDS,
            "dateOfBirth",
            "phone",
            "addresses",
            "employers",
            *ACCOUNT_FIELDS,
            *BEHAVIOUR_FIELDS,
        ],
        flag_codes=BEHAVIOUR_FLAGS,
    ),
    Entry(
        name="CREDITBUREAU_SCORE",
        display_name="Credit bureau score",
        category="CREDIT",
        description="The person's newest credit score, and the bureau that gave it.",
        price=Decimal("150.00"),
        freshness_days=30,
        required_inputs=[ID_NUMBER],
        output_fields=[*PERSON_FIELDS, "bureau", *SCORE_FIELDS],
        flag_codes=SCORE_FLAGS,
    ),
    Entry(
        name="CREDITBUREAU_STATUS",
        display_name="Credit bureau status",
        category="CREDIT",
        description="Whether lenders have listed the person, now or in the past.",
        price=Decimal("250.00"),
        freshness_days=30,
        required_inputs=[ID_NUMBER],
        output_fields=[
            *PERSON_FIELDS,
            "listingStatus",
            "listings",
            "totalOverdue",
            "currency",
            "clearanceCertificate",
        ],
        flag_codes=[
            "NO_CREDIT_RECORD",
            *NAME_FLAGS,
            "ADVERSE_LISTING",
            "PAST_DELINQUENCY",
        ],
    ),
    Entry(
        name="CREDITBUREAU_COMP",
        display_name="Credit bureau company report",
        category="CREDIT",
        description=(
            "The company's credit score, accounts, balances and arrears, with its "
            "enquiries, bounced cheques, guarantees and fraud alerts."
        ),
        subject_types=["COMPANY"],
        price=Decimal("900.00"),
        freshness_days=30,
        required_inputs=[REGISTRATION_NUMBER],
        output_fields=[*COMPANY_FIELDS, *ACCOUNT_FIELDS, *BEHAVIOUR_FIELDS],
        flag_codes=BEHAVIOUR_FLAGS,
    ),
    Entry(
        name="AML_SCREENING",
        display_name="Sanctions and watch lists",
        category="AML",
        description=(
            "Searches sanctions and watch lists for the subject's name; date of birth "
            "and country tell namesakes apart. A company needs fullName."
        ),
        subject_types=["INDIVIDUAL", "COMPANY"],
        price=Decimal("100.00"),
        freshness_days=1,
        required_inputs=[
            _input(
                "fullName",
                "Name",
                "Required for a company; of a person the name is always known.",
                required=False,
                requiredFor=["COMPANY"],
            ),
            _input(
                "dateOfBirth",
                "Date of birth",
                "Tells namesakes apart when it is given; of persons only.",
                "DATE",
                required=False,
            ),
        ],
        output_fields=[
            "screenedName",
            "lists",
            "algorithm",
            "threshold",
            "hitCount",
            "hits",
        ],
        flag_codes=["SANCTIONS_HIT", "WATCHLIST_HIT", "PEP_HIT"],
        # It needs a source first: a yente server, or loaded lists.
        active=False,
    ),
]

CheckName = Annotated[str, enumeration("CheckName", [e.name for e in CATALOGUE])]
