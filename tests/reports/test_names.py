import random

from tests.world.clients import Api, company, person
from tests.world.orders import fault_codes, faults_of_each

UNUSUAL = [
    "Zoë 🦁 Kamau",
    "محمد علي",
    "שרה לוי",
    "Ng\u0303u\u0303gi\u0303 wa Thiong'o",
    "王小明",
    "O'Brien-Nyong'o Jr.",
    "\u202eWanjiku Kamau",
    "100% _Real\\",
]


def test_names_of_all_scripts_are_stored_as_sent(api: Api):
    made = api.create(*[person(fullName=name) for name in UNUSUAL])

    for name, report in zip(UNUSUAL, made, strict=True):
        assert api.report(report["id"])["subject"]["fullName"] == name, name


def test_parts_are_derived_from_the_full_name(api: Api):
    names = {
        "Wanjiku Kamau": ["Wanjiku", None, "Kamau"],
        "Wanjiku Njeri Kamau": ["Wanjiku", "Njeri", "Kamau"],
        "A B C D": ["A", "B C", "D"],
        "Wanjiku": ["Wanjiku", None, None],
    }

    for report, parts in zip(
        api.create(*[person(fullName=name) for name in names]),
        names.values(),
        strict=True,
    ):
        subject = api.report(report["id"])["subject"]
        assert [subject[f"{n}Name"] for n in ("first", "middle", "last")] == parts


def test_full_name_is_derived_from_its_parts(api: Api):
    parts = {"firstName": "Wanjiku", "middleName": "Njeri", "lastName": "Kamau"}
    report = api.create(person(fullName=None, **parts))

    subject = api.report(report["id"])["subject"]
    assert subject["fullName"] == "Wanjiku Njeri Kamau"
    assert subject.items() >= parts.items()


def test_derived_names_replace_no_sent_names(api: Api):
    report = api.create(person(fullName="Wanjiku Njeri Kamau", middleName="Wairimu"))

    subject = api.report(report["id"])["subject"]
    assert subject["middleName"] == "Wairimu"
    assert (subject["firstName"], subject["lastName"]) == ("Wanjiku", "Kamau")


def test_person_needs_a_name(api: Api):
    parts = [
        {},
        {"firstName": "Wanjiku"},
        {"lastName": "Kamau"},
        {"middleName": "Njeri"},
    ]

    faults = faults_of_each(api, *[person(fullName=None, **one) for one in parts])

    missing = ["fullName", "lastName", "firstName", "fullName"]
    assert faults == [{f"subject/{name}": "required"} for name in missing]


def test_company_needs_a_name_or_number(api: Api):
    nameless = api.create(company(fullName=None))
    unknown = company(fullName=None, registrationNumber=None)
    unknown["checksRequested"] = ["KRA_PIN"]
    unknown["subject"]["kraPin"] = "P051234567Z"
    unknown["consent"] = person()["consent"]

    assert api.report(nameless["id"])["subject"]["fullName"] is None
    listed = api.get("/reports").json()["content"][0]
    assert listed["subjectName"] == "PVT-12345"
    assert fault_codes(api, unknown) == {"subject/fullName": "required"}
    unknown["subject"]["fullName"] = "Baobab Traders Limited"
    assert api.create(unknown)["status"] == "RUNNING"


def test_name_of_a_person_has_a_letter(api: Api):
    parts = person(fullName=None, firstName="-", lastName="1")

    faults = faults_of_each(api, person(fullName="-."), parts)

    assert faults == [
        {"subject/fullName": "invalid-format"},
        {"subject/firstName": "invalid-format"},
    ]
    assert api.create(person(fullName="Ψ."))["status"] == "RUNNING"


def test_name_of_a_person_has_no_mask(api: Api):
    parts = person(fullName=None, firstName="Jane", lastName="K***")

    faults = faults_of_each(api, person(fullName="Jane *****"), parts)

    assert faults == [
        {"subject/fullName": "invalid-format"},
        {"subject/lastName": "invalid-format"},
    ]


def test_longest_names_are_stored(api: Api):
    # Each becomes several letters when it is folded; an index row has a limit.
    squares = [chr(c) for c in (*range(0x3300, 0x3358), *range(0x3371, 0x3400))]
    squares += [chr(c) for c in range(0x3200, 0x3300)]
    random.Random(3).shuffle(squares)
    rare = "".join(
        chr(random.Random(n).randrange(0x20000, 0x2A000)) for n in range(200)
    )
    names = {
        "firstName": "".join(squares[:200]),
        "middleName": "".join(squares[200:400]),
    }

    report = api.create(person(fullName=None, lastName=rare, **names))

    assert api.report(report["id"])["subject"].items() >= names.items()
    assert api.get("/reports", search=names["firstName"][:9]).json()["totalElements"]
