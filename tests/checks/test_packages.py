"""Staff make the operator's packages, and set prices of workspaces' own."""

import pytest
from django.db import IntegrityError

from tests.world.packages import LOAN, create_package
from tests.world.staff import admin_url, change_url, list_url, read_page
from tests.world.threads import run_at_once
from verification.backoffice.models import AuditEvent
from verification.checks.admin import PackageForm
from verification.checks.models import CheckPackage

pytestmark = pytest.mark.django_db
FIELDS = {
    "name": "loan",
    "display_name": "Loan applicant",
    "checks": LOAN,
    "price": "200.00",
    "active": "on",
}
CHANGES = {k: v for k, v in FIELDS.items() if k != "name"}
ADD = admin_url(CheckPackage, "add")


def test_staff_make_a_package_for_all_workspaces(workspace, superuser):
    assert superuser.post(ADD, FIELDS).status_code == 302

    made = CheckPackage.objects.get()
    assert (made.workspace, made.name, made.checks) == (None, "loan", LOAN)
    assert (made.price, made.active) == (200, True)
    assert AuditEvent.objects.filter(action="package.created").exists()
    assert "Loan applicant" in read_page(superuser, list_url(CheckPackage))


def test_staff_edit_a_package_but_not_its_name(workspace, superuser):
    made = create_package(price="200.00")
    changed = {**CHANGES, "name": "other", "checks": ["IDENTITY"], "price": ""}

    assert superuser.post(change_url(made), changed).status_code == 302

    made.refresh_from_db()
    assert (made.name, made.checks, made.price) == ("loan", ["IDENTITY"], None)


WRONG = [
    {"name": "Loan"},
    {"name": "taken"},
    {"name": "ours"},
    {"display_name": ""},
    {"checks": []},
    {"checks": ["PALM_READING"]},
    {"checks": ["AML_SCREENING"]},
    {"checks": ["IDENTITY", "IDENTITY"]},
    {"checks": ["IDENTITY", "CREDITBUREAU_COMP"]},
    {"price": "-0.01"},
    {"price": "0.001"},
    {"price": "much"},
]


def test_wrong_package_is_not_saved(workspace):
    create_package("taken")
    create_package("ours", workspace=workspace)
    assert PackageForm(FIELDS).is_valid()
    for wrong in WRONG:
        assert not PackageForm({**FIELDS, **wrong}).is_valid(), wrong


def test_staff_set_only_the_price_of_a_workspaces_package(workspace, superuser):
    made = create_package(workspace=workspace)
    fields = {**CHANGES, "checks": ["CRB_FULL"], "checks_seen": ", ".join(LOAN)}

    assert superuser.post(change_url(made), fields).status_code == 302

    made.refresh_from_db()
    assert (made.price, made.checks, made.display_name) == (200, LOAN, "Loan")


def test_price_is_not_set_for_checks_that_staff_have_not_seen(workspace, superuser):
    made = create_package(workspace=workspace)
    page = read_page(superuser, change_url(made))
    assert f'value="{", ".join(LOAN)}"' in page
    CheckPackage.objects.filter(pk=made.pk).update(checks=["CRB_FULL"])

    fields = {"price": "5", "active": "on", "checks_seen": ", ".join(LOAN)}
    answer = superuser.post(change_url(made), fields)

    assert "Its checks have changed" in answer.content.decode()
    made.refresh_from_db()
    assert made.price is None


def test_package_is_not_deleted(workspace, superuser):
    made = create_package()

    url = admin_url(CheckPackage, "delete", made.pk)

    assert superuser.post(url, {"post": "yes"}).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_name_belongs_to_the_operator_or_to_workspaces_when_made_at_once(
    workspace, another_api
):
    def make(number: int) -> bool:
        owner = [None, workspace, another_api.workspace][number % 3]
        try:
            create_package("ours", workspace=owner)
        except IntegrityError:
            return False
        return True

    for _ in range(3):
        CheckPackage.objects.all().delete()

        made = run_at_once(6, make)

        owners = set(CheckPackage.objects.values_list("workspace", flat=True))
        assert sum(made) == len(owners) == (1 if None in owners else 2)
