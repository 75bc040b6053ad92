import pytest

from tests.world.threads import at_once
from verification.consents.models import ConsentRecord

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_of_a_simultaneous_grant_and_decline_wins(api, ask):
    for _ in range(5):
        visitor = ask()
        visitor.enter()
        form = visitor.form()
        cookies = visitor.browser.cookies

        def act(number, visitor=visitor, form=form, cookies=cookies):
            browser = type(visitor.browser)()
            browser.cookies = cookies
            place = "grant" if number % 2 else "decline"
            return browser.post(visitor.page + place, form).status_code

        assert at_once(4, act) == [303] * 4
        record = ConsentRecord.objects.get(report_id=visitor.report_id)
        report = api.report(visitor.report_id)
        assert report["consentState"]["status"] == record.happened
        expected = {"GRANTED": "RUNNING", "DECLINED": "FAILED"}[record.happened]
        assert report["status"] == expected
