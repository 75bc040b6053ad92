"""One field finds reports, workspaces, people, keys, money, messages, deliveries."""

import re

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from monitoring.models import Rule
from tests.world.clients import HOSTED, company, person
from tests.world.decisions import Officer
from tests.world.deliveries import configure_receiver
from tests.world.members import create_member
from tests.world.notices import create_report, decline
from tests.world.refunds import create_paid_checkout
from tests.world.rules import store_rule
from tests.world.staff import (
    change_url,
    enter_request,
    list_url,
    listed_ids,
    log_in,
    read_page,
    staff_request,
)
from verification.backoffice.models import AuditEvent
from verification.consents.models import ConsentRecord
from verification.db.ids import filter_by_number
from verification.notifications.models import Notification
from verification.privacy.models import Disclosure, Erasure
from verification.references.models import Reference
from verification.reports.models import Report
from verification.staff.search import SEARCH_GROUPS, search_page
from webhooks.models import Delivery
from workspaces.models import LedgerEntry

pytestmark = pytest.mark.django_db
SEARCH = "/admin/search"


def found(client: Client, term: str) -> set[str]:
    """Return `reports.report:<id>` of each row that the page shows."""
    request = staff_request(client, SEARCH)
    request.POST = {"q": term}
    groups = str(search_page(request).context_data["groups"])
    links = re.findall(r"/admin/(\w+)/(\w+)/([0-9a-f-]{36}|\d+)/change/", groups)
    return {f"{app}.{model}:{pk}" for app, model, pk in links}


def name(row) -> str:
    return f"{row._meta.label_lower}:{row.pk}"


WHOLE = {
    "fullName": "Wanjiku Njeri Kamau",
    "idNumber": "12345678",
    "email": "Wanjiku@People.test",
    "phone": "+254712345678",
}


IDENTIFIERS = [
    "Wanjiku Njeri Kamau",
    "njeri",
    "IKU NJ",
    "12345678",
    "1234-5678",
    "wanjiku@people.test",
    "+254712345678",
    "0712 345 678",
    "254 712 345678",
    "LN-2041/7",
    "LN-20",
]


def test_report_is_found_by_its_identifiers(api, superuser):
    made = api.create({**person(**WHOLE), "reference": "LN-2041/7"})["id"]
    api.create(
        {**person(fullName="Otieno Odhiambo", idNumber="99"), "reference": "LX-1"}
    )

    (reports,) = (group for group in SEARCH_GROUPS if group.model is Report)
    for typed in IDENTIFIERS:
        assert [str(row.pk) for row in reports.find(typed)] == [made], typed
    assert f"reports.report:{made}" in found(superuser, "  Wanjiku   njeri ")


def test_reports_of_every_workspace_and_environment_are_found(
    api, another_api, superuser
):
    ids = {one.create(company())["id"] for one in (api, another_api)}

    assert {f"reports.report:{pk}" for pk in ids} <= found(superuser, "baobab tra")
    assert {f"reports.report:{pk}" for pk in ids} <= found(superuser, "pvt12345")


def test_rule_is_found_like_a_report(api, superuser):
    rule = store_rule(api)

    (rules,) = (group for group in SEARCH_GROUPS if group.model is Rule)
    for typed in ("wanjiku", "12345678", str(rule.pk)):
        assert rules.find(typed) == [rule], typed
    assert name(rule) in found(superuser, "wanjiku")


def test_workspace_is_found_by_name_member_and_end_of_a_key(api, superuser):
    owner = create_member(api.workspace, "OWNER", "grace")

    for typed in ("acacia", "LENDER"):
        assert name(api.workspace) in found(superuser, typed), typed
    of_member = found(superuser, "grace@people.test")
    assert {name(api.workspace), name(owner)} <= of_member
    of_key = found(superuser, api.key.last_characters)
    assert {name(api.workspace), name(api.key)} <= of_key
    assert name(api.key) in found(superuser, api.text)


def test_rows_of_a_report_are_found_by_its_id(api, superuser):
    configure_receiver(api.workspace)
    checkout = create_paid_checkout(api, reference="LN-9")
    report = checkout.report
    api.work()
    other = person(idNumber="23456789", email="w@people.test")
    hosted = api.create({**other, "consent": HOSTED})["id"]
    asked = Notification.objects.get(kind="CONSENT_REQUEST")

    with CaptureQueriesContext(connection) as captured:
        belongs = found(superuser, str(report.pk))
    of_events = [one["sql"] for one in captured if '"webhooks_event"' in one["sql"]]
    assert of_events
    assert not any(" OR " in sql for sql in of_events)
    assert belongs == found(superuser, "LN-9")
    assert name(checkout) in belongs
    assert name(checkout) in found(superuser, checkout.number)
    deliveries = Delivery.objects.filter(event__report_id=report.pk)
    assert {name(delivery) for delivery in deliveries} <= belongs
    receipt = Notification.objects.get(kind="PAYMENT_RECEIPT")
    assert name(receipt) in belongs
    assert name(asked) in found(superuser, hosted)
    assert change_url(asked) in read_page(
        superuser, change_url(Report.objects.get(pk=hosted))
    )
    entry = LedgerEntry.objects.filter(report_id=hosted).first()
    assert name(entry) in found(superuser, hosted)
    assert str(entry.pk) in listed_ids(superuser, LedgerEntry, q=hosted)


def test_list_finds_all_rows_of_a_workspace(api, rf):
    report = api.create(company())["id"]
    read = [
        Disclosure(report_id=report, channel="API", recipient=str(n))
        for n in range(1_001)
    ]
    Disclosure.objects.bulk_create(read)

    rows, _ = site.get_model_admin(Disclosure).get_search_results(
        rf.get("/"), Disclosure.objects.all(), str(api.workspace.pk)
    )

    assert rows.count() == 1_001


def test_at_most_ten_of_a_kind_are_shown(api, superuser):
    api.create(*[company(registrationNumber=f"PVT-{n}") for n in range(12)])

    answer = superuser.post(SEARCH, {"q": "baobab"}).content.decode()

    assert len(re.findall(r"/admin/reports/report/[0-9a-f-]{36}/change/", answer)) == 10
    assert "more than 10" in answer


def test_report_is_found_by_the_numbers_on_its_pdfs(api, superuser):
    made = api.create({**person(), "consent": HOSTED})["id"]
    api.create(person(idNumber="99"))
    record = ConsentRecord.objects.create(
        report_id=made, consent_id=made, decision="GRANTED", generation=1, digest=b""
    )
    report = Report.objects.get(pk=made)
    found_by = (
        report.number,
        record.number,
        record.number.replace("-", " ").lower(),
    )

    for typed in found_by:
        assert found(superuser, typed) == {name(report)}, typed
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    rows = filter_by_number(Report.objects.all(), "R", found_by[0])
    assert "reports_by_number" in rows.explain()
    rows = filter_by_number(ConsentRecord.objects.all(), "C", record.number)
    assert "consent_records_by_number" in rows.explain()


def test_up_to_fifty_rows_are_shown_for_a_whole_value(api, superuser):
    for _ in range(2):
        api.create(*[person(email="w@people.test") for _ in range(10)])

    assert len(found(superuser, "w@people.test")) == 20


def test_search_finds_only_rows_that_the_role_may_view(api):
    report = api.create(person())["id"]
    create_member(api.workspace, "OWNER", "wanjiku")
    user = User.objects.create_user("finance", is_staff=True)
    user.groups.add(Group.objects.get(name="Finance"))
    client = Client()
    log_in(client, user)

    kinds = {one.partition(":")[0] for one in found(client, report)}
    assert kinds == {"reports.report", "workspaces.ledgerentry"}
    assert "workspaces.apikey" not in "".join(found(client, api.key.last_characters))


def test_search_is_recorded_without_the_term(api, superuser, caplog):
    api.create(person())

    answer = superuser.post(SEARCH, {"q": "Wanjiku 12345678"})
    superuser.post(SEARCH, {"q": "wanjiku"})

    assert answer["Cache-Control"] == "no-store"
    events = AuditEvent.objects.filter(action="search.made")
    assert [event.fields for event in events.order_by("id")] == [[], ["reports"]]
    told = str(list(AuditEvent.objects.values())) + caplog.text
    assert "anjiku" not in told
    # A term in the URL is ignored.
    assert found_by_get(superuser) == 0


def found_by_get(client: Client) -> int:
    page = client.get(SEARCH, {"q": "wanjiku"}).content.decode()
    return page.count("/change/")


def test_search_finds_members_and_colleagues(workspace, superuser):
    def people(user: str, first_name: str) -> set[str]:
        one = create_member(workspace, "OWNER", user)
        User.objects.filter(pk=one.user_id).update(
            is_staff=True, first_name=first_name, email=f"{user}@people.test"
        )
        return {name(one), f"accounts.colleague:{one.user_id}"}

    grace = people("grace", "Grace Wanjiru")
    people("otieno", "Otieno")

    for typed in ("grace@peo", "RACE@", "wanjiru"):
        assert found(superuser, typed) == grace, typed


def test_empty_list_says_so_in_plain_words(superuser):
    assert "There is nothing here yet." in read_page(superuser, list_url(Report))
    asked = read_page(superuser, list_url(Report) + "?status__exact=READY")
    assert "Nothing matches" in asked
    assert "yielded" not in asked


def test_search_is_for_staff_with_a_second_factor(api, db):
    stranger = Client()
    assert "/accounts/login/" in stranger.post(SEARCH, {"q": "x"})["Location"]
    user = User.objects.create_user("grace", is_staff=True)
    half = Client()
    half.force_login(user)
    assert "totp" in half.post(SEARCH, {"q": "x"})["Location"]
    nobody = Client()
    nobody.force_login(User.objects.create_user("nobody"))
    assert nobody.post(SEARCH, {"q": "x"}).status_code == 404


def test_every_page_has_the_search_field(superuser, api):
    for url in ("/admin/", "/admin/reports/report/", SEARCH):
        assert f'action="{SEARCH}"' in read_page(superuser, url)


def test_odd_terms_find_nothing(api, superuser):
    api.create(person())

    for typed in [" ", "%", "_", "\0", "ab", "'; --", "x" * 999]:
        assert found(superuser, typed) == set(), typed


def test_papers_are_found_by_their_numbers(api, superuser):
    """One field finds the report of any paper; lists find their own rows."""
    made = api.create(person())["id"]
    request = enter_request(Report.objects.get(pk=made))
    erasure = Erasure.objects.create(request=request, report_ids=[made])
    reference = Reference.objects.create(
        report_id=made, result_id=made, attempt=1, token_digest=b"", expires_at=now()
    )

    for row in (request, erasure, reference):
        assert {name(row), f"reports.report:{made}"} <= found(superuser, row.number)
        assert listed_ids(superuser, type(row), q=row.number) == {str(row.pk)}
    number = Report.objects.get(pk=made).number
    assert listed_ids(superuser, Report, q=number.lower()) == {made}


def test_page_of_a_report_has_the_numbers_of_its_papers(api, superuser):
    made = create_report(api)
    decision = decline(Officer(api), made)
    request = enter_request(Report.objects.get(pk=made))

    html = read_page(superuser, change_url(Report.objects.get(pk=made)))

    for number in (Report.objects.get(pk=made).number, request.number):
        assert number in html
    assert decision.notice.number in html
    assert decision.notice.number in read_page(superuser, change_url(decision))
