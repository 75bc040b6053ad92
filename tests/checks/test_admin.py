from tests.world.orders import REFUSED, two_checks
from tests.world.staff import change_url, listed_ids
from verification.checks.admin import DefinitionForm
from verification.checks.models import CheckDefinition, CheckResult


def test_trouble_filter_finds_abandoned_checks(api, superuser):
    api.create(two_checks(idNumber=REFUSED))
    api.work()
    abandoned, other = CheckResult.objects.filter(status="FAILED")
    CheckResult.objects.filter(pk=abandoned.pk).update(failure_code="ENGINE_GAVE_UP")

    found = listed_ids(superuser, CheckResult, trouble="gave-up")
    assert str(abandoned.pk) in found
    assert str(other.pk) not in found


DEFINITION = {
    "display_name": "Identity",
    "description": "Who it is.",
    "active": "on",
    "price": "75.00",
    "freshness_days": "30",
    "max_attempts": "4",
    "initial_delay_seconds": "2",
    "backoff_multiplier": "1.5",
    "max_delay_seconds": "60",
}


def test_staff_edit_price_texts_and_retries_of_a_check(workspace, superuser):
    identity = CheckDefinition.objects.get(name="IDENTITY")
    posted = {**DEFINITION, "name": "OTHER", "output_fields": "x"}

    assert superuser.post(change_url(identity), posted).status_code == 302

    edited = CheckDefinition.objects.get(pk=identity.pk)
    assert (edited.price, edited.freshness_days) == (75, 30)
    assert edited.retry_policy == {
        "maxAttempts": 4,
        "initialDelaySeconds": 2,
        "backoffMultiplier": 1.5,
        "maxDelaySeconds": 60,
    }
    assert edited.updated_at > identity.updated_at
    assert edited.name == "IDENTITY"
    assert edited.output_fields == identity.output_fields


INVALID_FIELDS = [
    {"price": "-1"},
    {"price": "0.001"},
    {"max_attempts": "0"},
    {"max_attempts": "many"},
    {"initial_delay_seconds": "90"},
    {"backoff_multiplier": "nan"},
    {"max_delay_seconds": "1e9"},
    {"display_name": ""},
]


def test_invalid_check_definition_is_not_saved(db):
    identity = CheckDefinition.objects.get(name="IDENTITY")
    for wrong in INVALID_FIELDS:
        form = DefinitionForm(DEFINITION | wrong, instance=identity)

        assert not form.is_valid(), wrong
