"""A workspace's own packages, which its owners and administrators edit."""

from tests.world.packages import LOAN, by_package, create_package
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckDefinition, CheckPackage

NEW = {"name": "ours", "display_name": "Our loans", "checks": LOAN}


def test_checks_of_a_package_say_about_whom_they_are(owner):
    html = owner.page("settings-packages-create")

    assert 'KRA PIN<span class="hint">Person, Company</span>' in html
    assert "INDIVIDUAL" not in html


def test_package_is_made_and_ordered(owner, api):
    assert owner.messages_after("settings-packages-create", NEW) == [
        "The package is made. Orders can name it now."
    ]

    made = CheckPackage.objects.get()
    assert (made.workspace, made.name, made.checks) == (api.workspace, "ours", LOAN)
    assert made.price is None
    assert "Our loans" in owner.page("settings-packages")
    report = api.create(by_package("ours"))
    assert "Our loans" in owner.page("reports-detail", report=report["id"])
    event = AuditEvent.objects.get(action="package.created")
    assert event.workspace_id == api.workspace.pk


def test_list_shows_own_packages_and_those_on_offer(owner, another_api):
    create_package("loan", display_name="Loan applicant", price="200.00")
    create_package("gone", display_name="No longer offered", active=False)
    create_package("mine", workspace=owner.workspace, display_name="My old one")
    create_package("theirs", workspace=another_api.workspace, display_name="Of others")
    CheckPackage.objects.filter(name="mine").update(active=False)

    html = owner.page("settings-packages")

    assert "Loan applicant" in html
    assert ">200.00</td>" in html
    assert "My old one" in html
    assert "No longer offered" not in html
    assert "Of others" not in html


WRONG_FIELDS = [
    {"name": ""},
    {"name": "Our loans"},
    {"name": "ours-"},
    {"name": "x" * 41},
    {"name": "loan"},
    {"name": "mine"},
    {"display_name": ""},
    {"display_name": "x" * 101},
    {"checks": []},
    {"checks": ["PALM_READING"]},
    {"checks": ["AML_SCREENING"]},
    {"checks": ["IDENTITY", "IDENTITY"]},
    {"checks": ["IDENTITY", "BUSINESS_VERIFICATION"]},
]


def test_wrong_package_is_refused(owner):
    create_package("loan")
    create_package("mine", workspace=owner.workspace)
    for wrong in WRONG_FIELDS:
        html = owner.post("settings-packages-create", {**NEW, **wrong}).content.decode()

        assert "<title>Error:" in html, wrong
        assert CheckPackage.objects.count() == 2, wrong


def test_member_sets_no_price(owner):
    owner.post("settings-packages-create", {**NEW, "price": "1"})

    assert CheckPackage.objects.get().price is None


def test_workspace_has_at_most_100_packages(owner, monkeypatch):
    monkeypatch.setattr("verification.checks.packages.MAX_PACKAGES", 1)
    create_package(workspace=owner.workspace)

    html = owner.post("settings-packages-create", NEW).content.decode()

    assert "at most 100 packages" in html
    assert CheckPackage.objects.count() == 1


def test_package_is_edited_and_keeps_its_name(owner):
    made = create_package(workspace=owner.workspace)
    fields = {"name": "other", "display_name": "New title", "checks": ["IDENTITY"]}

    owner.post("settings-packages-edit", fields, package=made.pk)

    made.refresh_from_db()
    assert (made.name, made.display_name) == ("loan", "New title")
    assert made.checks == ["IDENTITY"]
    assert AuditEvent.objects.filter(action="package.changed").exists()


def test_withdrawn_check_can_stay_in_its_package(owner):
    made = create_package(workspace=owner.workspace)
    CheckDefinition.objects.filter(name="CRB_SCORE").update(active=False)
    fields = {"display_name": "New title", "checks": LOAN}

    owner.post("settings-packages-edit", fields, package=made.pk)

    made.refresh_from_db()
    assert made.display_name == "New title"
    assert "A check is missing" in owner.page("settings-packages")


def test_checks_with_a_price_of_the_operator_are_fixed(owner):
    made = create_package(workspace=owner.workspace, price="10.00")
    other = {"display_name": "New title", "checks": [*LOAN, "CRB_FULL"]}
    same = {"display_name": "New title", "checks": LOAN}

    refused = owner.post("settings-packages-edit", other, package=made.pk)
    made.refresh_from_db()
    assert "have a price together" in refused.content.decode()
    assert made.checks == LOAN

    owner.post("settings-packages-edit", same, package=made.pk)
    made.refresh_from_db()
    assert (made.display_name, made.price) == ("New title", 10)


def test_package_is_deactivated_and_offered_again(owner, api):
    made = create_package(workspace=owner.workspace)

    owner.post("settings-packages-deactivate", package=made.pk)
    assert api.refused("/reports", {"reports": [by_package()]})
    owner.post("settings-packages-activate", package=made.pk)
    owner.post("settings-packages-activate", package=made.pk)

    assert api.create(by_package())
    recorded = AuditEvent.objects.order_by("id").values_list("action", flat=True)
    assert list(recorded) == ["package.deactivated", "package.activated"]


def test_package_of_the_operator_is_not_found(owner):
    operators = create_package()

    for name in ("edit", "deactivate", "activate"):
        answer = owner.post(f"settings-packages-{name}", package=operators.pk)
        assert answer.status_code == 404
