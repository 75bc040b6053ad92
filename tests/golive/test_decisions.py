"""Staff decide on an application, which changes the workspace.

Insiders of a company do not decide on its application.
"""

import re
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import Group, User
from django.core import mail
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils.timezone import now

from tests.files.samples import pdf
from tests.golive.applications import (
    COMPANY,
    DETAILS,
    NAME,
    PDF,
    by,
    draft,
    in_review,
    reviewer,
    submitted,
)
from tests.golive.test_applications import stored
from tests.world.clients import person
from tests.world.members import create_member
from tests.world.staff import (
    change_url,
    list_url,
    listed_ids,
    log_in,
    read_page,
    reveal,
    take_messages,
)
from tests.world.threads import run_at_once
from verification.backoffice.models import ActorKind, AuditEvent
from verification.backoffice.roles import SUPERUSER
from verification.backoffice.widgets import NOT_OFFERED
from verification.checks.engine import run_due_checks
from verification.checks.models import CheckResult
from verification.golive import applications, review
from verification.golive.applications import (
    APPROVED_RETENTION,
    RETENTION,
    WrongStatus,
    _expired,
    erase_old_applications,
)
from verification.golive.models import Application, DocumentKind
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Kind, Notification
from verification.notifications.outbox import NotResendable, send_again
from workspaces import keys
from workspaces.create import OPERATOR_ID
from workspaces.models import Account, ApiKey, Member, Workspace

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
SENT = {"_form_submitted": "on"}
KEY = re.compile(r"vrf_live_[0-9A-Za-z]{38}")
PERSONAL = ["P051234567X", "grace@acacia.test", "+254712345678", "owner@people.test"]


def staff(role: str, name: str = "") -> Client:
    user = User.objects.create_user(name or role.lower(), is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client = Client()
    log_in(client, user)
    return client


@pytest.fixture
def office() -> Client:
    return staff("Reviewer")


def act(client: Client, verb: str, application: Application, **fields: str):
    url = change_url(application).replace("/change/", f"/{verb}/")
    return client.post(url, {**SENT, **fields})


def events(application: Application) -> list[str]:
    found = AuditEvent.objects.filter(object_id=str(application.pk))
    acts = found.order_by("id").values_list("action", flat=True)
    return [a.removeprefix("go-live-application.") for a in acts]


def status_of(application: Application) -> str:
    return Application.objects.values_list("status", flat=True).get(pk=application.pk)


def sent_mails() -> list:
    with transaction.atomic():
        send_due_notifications()
    return mail.outbox


def test_approval_gives_the_owner_a_key(owner, admin, office):
    application = submitted(owner.member)
    run_due_checks()

    act(office, "take", application)
    reveal(office, application, "KYB")
    answer = act(office, "approve", application)

    assert take_messages(answer)[-1] == "It is approved; the key is being sent."
    workspace = Workspace.objects.get(pk=owner.workspace.pk)
    assert workspace.go_live == "APPROVED"
    (letter,) = sent_mails()
    assert letter.to == ["owner@people.test"]
    # It is in both languages.
    assert "is approved" in letter.subject
    assert "imekubaliwa" in letter.subject
    text, again = KEY.findall(letter.body)
    assert text == again
    key = keys.find(text)
    assert (key.workspace, key.environment) == (workspace, "production")
    assert Application.objects.get().api_key == key
    http = Client(headers={"Authorization": f"Bearer {text}"})
    assert http.get("/api/v1/reports").status_code == 200
    done = [e for e in events(application) if e != "opened"]
    assert done[-4:] == ["submitted", "taken", "revealed", "approved"]
    event = AuditEvent.objects.get(action="api-key.created")
    assert (event.actor, event.object_id) == ("reviewer", str(key.pk))


def test_stale_dialog_explains_the_present_status(owner, office):
    application = in_review(owner.member)
    review.approve(application.pk, by(reviewer()))
    before = events(application)

    for verb in ("take", "approve", "reject"):
        answer = act(office, verb, application, reason="Late")

        told = take_messages(answer)[-1]
        assert "decided meanwhile. It is approved now" in told, verb
    page = read_page(office, change_url(application))
    assert not re.search("/(take|approve|reject)/", page)
    assert [e for e in events(application) if e != "opened"] == before


def test_other_owners_and_the_submitter_get_no_key(owner, admin):
    create_member(owner.workspace, "OWNER", "second")
    application = in_review(admin.member)
    review.approve(application.pk, by(reviewer()))

    letters = {letter.to[0]: letter for letter in sent_mails()}

    assert set(letters) == {f"{n}@people.test" for n in ("owner", "second", "admin")}
    with_key = {to for to, letter in letters.items() if KEY.search(letter.body)}
    assert with_key == {"owner@people.test"}


def test_key_is_stored_nowhere_once_its_mail_is_sent(owner):
    review.approve(in_review(owner.member).pk, by(reviewer()))
    message = Notification.objects.get(kind=Kind.GO_LIVE_KEY)
    raw = Notification.objects.filter(pk=message.pk).extra(select={"raw": "context"})
    text = message.context["key"]
    assert text.encode() not in bytes(raw.get().raw)

    sent_mails()

    message = Notification.objects.get(pk=message.pk)
    assert (message.status, message.context) == ("SENT", None)
    with pytest.raises(NotResendable):
        send_again(message)
    assert ApiKey.objects.get(environment="production").digest != text.encode()


def test_undelivered_key_is_purged_and_can_be_replaced(owner):
    review.approve(in_review(owner.member).pk, by(reviewer()))
    message = Notification.objects.filter(kind=Kind.GO_LIVE_KEY)

    # A trigger clears the key, so that updates in SQL do, too.
    for status in ("CANCELLED", "FAILED"):
        with transaction.atomic():
            message.update(status=status, next_attempt_at=None)
            assert message.get().context is None, status
            transaction.set_rollback(status == "CANCELLED")

    key = ApiKey.objects.get(environment="production")
    fields = {"ends": "0"}
    answer = owner.post("keys-rotate", fields, "production", key=key.pk)
    assert KEY.search(answer.content.decode())


def test_before_approval_there_is_no_production_key(owner):
    draft(owner.member)

    with pytest.raises(keys.NotApproved):
        keys.issue(owner.workspace, environment="production", name="x")
    assert not ApiKey.objects.filter(environment="production").exists()


def test_rejection_needs_a_reason_and_sends_it(owner, office):
    application = in_review(owner.member)

    act(office, "reject", application)
    assert status_of(application) == "IN_REVIEW"
    act(office, "reject", application, reason="The CR12 is of last year")

    assert status_of(application) == "REJECTED"
    assert Workspace.objects.get(pk=owner.workspace.pk).go_live == "REJECTED"
    event = AuditEvent.objects.get(action="go-live-application.rejected")
    assert event.reason == "The CR12 is of last year"
    (letter,) = sent_mails()
    assert letter.body.count("The CR12 is of last year") == 2
    assert not ApiKey.objects.filter(environment="production").exists()


def test_nothing_is_approved_while_the_check_runs(owner):
    application = submitted(owner.member)
    review.take(application.pk, by(reviewer()))

    with pytest.raises(review.DecisionRefused, match="has not completed"):
        review.approve(application.pk, by(reviewer()))

    assert status_of(application) == "IN_REVIEW"
    run_due_checks()
    review.approve(application.pk, by(reviewer()))
    assert status_of(application) == "APPROVED"


def test_failed_check_is_retried_and_prevents_approval(
    owner, office, settings, request
):
    settings.GO_LIVE_ENVIRONMENT = "production"
    application = in_review(owner.member)
    assert CheckResult.objects.get().failure_code == "PROVIDER_NOT_CONFIGURED"
    assert "has not completed" in take_messages(act(office, "approve", application))[-1]

    assert "no source for" in take_messages(act(office, "check_again", application))[-1]
    request.getfixturevalue("live_source")
    operator = Account.objects.filter(workspace=OPERATOR_ID)
    operator.update(ceiling=1)
    assert "its ceiling" in take_messages(act(office, "check_again", application))[-1]
    operator.update(ceiling=None)

    act(office, "check_again", application)

    assert CheckResult.objects.get().attempt == 2
    assert "checked-again" in events(application)
    # It runs: there is nothing to run again.
    assert take_messages(act(office, "check_again", application))[-1] == NOT_OFFERED


def test_application_is_decided_once_and_in_order(owner):
    application = in_review(owner.member)
    review.approve(application.pk, by(reviewer()))

    for again in (
        lambda: review.approve(application.pk, by(reviewer())),
        lambda: review.reject(application.pk, by(reviewer()), "No"),
        lambda: review.take(application.pk, by(reviewer())),
    ):
        with pytest.raises(WrongStatus):
            again()

    assert ApiKey.objects.filter(environment="production").count() == 1
    assert Notification.objects.filter(kind=Kind.GO_LIVE_KEY).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_approvals_at_once_make_one_key(owner):
    application = in_review(owner.member)
    people = [reviewer("one"), reviewer("two")]

    done = run_at_once(2, lambda n: review.approve(application.pk, by(people[n])))

    assert sorted(type(each).__name__ for each in done) == [
        "Application",
        "WrongStatus",
    ]
    assert ApiKey.objects.filter(environment="production").count() == 1


def test_members_do_not_decide_on_their_own_workspace(owner):
    application = submitted(owner.member)
    run_due_checks()
    insider = staff(SUPERUSER, "insider")
    user = User.objects.get(username="insider")
    mine = Member.objects.create(workspace=owner.workspace, user=user, role="VIEWER")
    refused = str(review.OwnWorkspace())
    assert take_messages(act(insider, "take", application))[-1] == refused
    review.take(application.pk, by(reviewer()))

    assert take_messages(act(insider, "approve", application))[-1] == refused
    assert take_messages(act(insider, "reject", application, reason="x"))[-1] == refused

    assert status_of(application) == "IN_REVIEW"
    own = pytest.raises(IntegrityError, match="nobody reviews their own workspace")
    with own, transaction.atomic():
        Application.objects.update(status="REJECTED", reason="x", decided_by=user)
    mine.delete()


def test_suspended_workspace_is_not_approved(owner):
    application = in_review(owner.member)
    owner.workspace.suspend("Looked at")

    with pytest.raises(review.DecisionRefused, match="suspended"):
        review.approve(application.pk, by(reviewer()))


def test_database_refuses_what_the_verbs_refuse(owner):
    application = submitted(owner.member)
    mine = Application.objects.filter(pk=application.pk)
    user, key = (
        reviewer(),
        ApiKey.objects.create(
            workspace=owner.workspace, name="x", environment="production", digest=b"x"
        ),
    )
    when = application.submitted_at
    taken = {"taken_by": user, "taken_at": when}
    decided = {**taken, "decided_by": user, "decided_at": when}

    own = {"taken_by": owner.member.user, "taken_at": when}
    for wrong, refusal in (
        ({"status": "APPROVED", **decided, "api_key": key}, "cannot become APPROVED"),
        ({"status": "REJECTED", **decided, "reason": "x"}, "cannot become REJECTED"),
        ({"status": "IN_REVIEW", **own}, "nobody reviews their own workspace"),
        ({"status": "IN_REVIEW"}, "what_is_reviewed_names_who"),
    ):
        with pytest.raises(IntegrityError, match=refusal), transaction.atomic():
            mine.update(**wrong)
    mine.update(status="IN_REVIEW", **taken)
    untaken = {"taken_by": None, "taken_at": None}
    for wrong, refusal in (
        # Its check has not run.
        ({"status": "APPROVED", **decided, "api_key": key}, "company is not checked"),
        ({"status": "REJECTED", **decided}, "a_rejection_says_why"),
        ({"status": "SUBMITTED", **untaken}, "cannot become SUBMITTED"),
    ):
        with pytest.raises(IntegrityError, match=refusal), transaction.atomic():
            mine.update(**wrong)
    mine.update(status="REJECTED", **decided, reason="x")
    for wrong, refusal in (
        ({"reason": "y"}, "what was decided is not changed"),
        ({"decided_at": now()}, "what was decided is not changed"),
        ({"status": "APPROVED"}, "cannot become APPROVED"),
    ):
        with pytest.raises(IntegrityError, match=refusal), transaction.atomic():
            mine.update(**wrong)


def rejected(member: Member) -> Application:
    return review.reject(in_review(member).pk, by(reviewer()), "Too old")


def approved(member: Member) -> Application:
    return review.approve(in_review(member).pk, by(reviewer()))


def erase_after(time: timedelta) -> None:
    with time_machine.travel(now() + time):
        erase_old_applications()


@pytest.mark.parametrize(
    ("create", "is_suspended", "retention"),
    [
        (draft, False, RETENTION),
        (rejected, False, RETENTION),
        (submitted, True, RETENTION),
        (approved, True, APPROVED_RETENTION),
    ],
)
def test_application_is_erased_after_its_retention(
    owner, create, is_suspended, retention
):
    create(owner.member)
    if is_suspended:
        owner.workspace.suspend("Closed")

    assert not _expired(now() + retention - DAY).exists()
    assert _expired(now() + retention + DAY).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("create", [draft, rejected])
def test_old_application_loses_details_and_documents(owner, create):
    application = create(owner.member)
    assert application.documents.count() == len(stored()) == 4

    erase_after(RETENTION + DAY)

    assert stored() == []
    assert not application.documents.exists()
    left = Application.objects.filter(pk=application.pk)
    assert [a.details for a in left] == [None] * (create != draft)


def test_pages_of_an_erased_application_say_so(owner, office):
    application = rejected(owner.member)
    erase_after(RETENTION + DAY)

    assert owner.page("golive")
    page = read_page(office, change_url(application))
    assert "Erased, as their retention is over." in page
    reveal(office, application, "KYB")
    assert NAME in read_page(office, change_url(application))


def test_application_of_an_open_workspace_stays(owner):
    late = now() + 2 * APPROVED_RETENTION
    application = submitted(owner.member)
    assert not _expired(late).exists()
    run_due_checks()
    review.take(application.pk, by(reviewer()))
    assert not _expired(late).exists()
    review.approve(application.pk, by(reviewer()))
    assert not _expired(late).exists()


def test_draft_counts_from_its_last_change(owner):
    draft(owner.member)
    with time_machine.travel(now() + RETENTION / 2):
        draft(owner.member, address="Kenyatta Avenue 2")

    assert not _expired(now() + RETENTION + DAY).exists()


def test_erased_application_can_only_be_rejected(owner):
    application = in_review(owner.member)
    owner.workspace.suspend("Closed")
    erase_after(RETENTION + DAY)
    owner.workspace.resume()

    with pytest.raises(review.DecisionRefused, match="are erased"):
        review.approve(application.pk, by(reviewer()))

    review.reject(application.pk, by(reviewer()), "Too old")
    assert owner.page("golive-company")
    owner.post("golive-again")
    assert "reach you" in owner.messages_after("golive-submit", {"confirmed": "on"})[-1]
    owner.post("golive-company", COMPANY)
    assert Application.objects.get(status="DRAFT").details == DETAILS


def test_other_roles_neither_see_nor_decide(owner):
    application = in_review(owner.member)
    for role in ("Operations", "Finance"):
        client = staff(role)

        assert client.get(change_url(application)).status_code == 403
        for verb in ("take", "approve", "reject", "check_again"):
            answer = act(client, verb, application, reason="x")
            assert answer.status_code == 403, (role, verb)
    assert status_of(application) == "IN_REVIEW"


def test_members_cannot_use_the_review_page(owner):
    application = in_review(owner.member)

    for verb in ("approve", "reject", "change"):
        url = change_url(application).replace("/change/", f"/{verb}/")
        assert owner.http.post(url, {**SENT, "reason": "x"}).status_code == 404
    assert status_of(application) == "IN_REVIEW"


def test_opening_a_dialog_and_a_form_from_elsewhere_change_nothing(owner):
    application = submitted(owner.member)
    user = User.objects.create_user("grace", is_staff=True)
    user.groups.add(Group.objects.get(name="Reviewer"))
    client = Client(enforce_csrf_checks=True)
    log_in(client, user)

    def assert_changes_nothing(verb: str) -> None:
        before = status_of(application)
        client.get(change_url(application).replace("/change/", f"/{verb}/"))
        assert act(client, verb, application, reason="x").status_code == 403
        assert status_of(application) == before

    assert_changes_nothing("take")
    run_due_checks()
    review.take(application.pk, by(reviewer()))
    assert_changes_nothing("approve")
    assert_changes_nothing("reject")


def test_review_page_shows_all_facts_and_masks_people(
    owner, api, office, django_assert_max_num_queries
):
    api.create(person())
    application = in_review(owner.member)

    with django_assert_max_num_queries(24):
        html = read_page(office, change_url(application))

    for shown in (
        NAME,
        "Loans to people",
        "101-1000",
        "risk",
        "CR12",
        "Owner",
        "Kenya",
    ):
        assert shown in html
    for personal in PERSONAL:
        assert personal not in html
    assert "/documents/" not in html
    reveal(office, application, "KYB")
    html = read_page(office, change_url(application))
    for personal in PERSONAL:
        assert personal in html
    assert html.count(f"{application.pk}/documents/") == 4


def test_review_page_names_other_workspaces_of_the_company(owner, stranger, office):
    """Somebody may pose as a company that is a customer already."""
    first = in_review(owner.member)
    review.approve(first.pk, by(reviewer()))
    told = "Another workspace names this company, too:"
    assert told not in read_page(office, change_url(first))

    second = submitted(stranger.member)

    html = read_page(office, change_url(second))
    assert told in html
    assert change_url(owner.workspace) in html.split(told)[1][:200]


def test_reading_a_document_needs_a_reason_and_is_recorded(owner, office):
    application = in_review(owner.member)
    document = application.documents.get(kind="DIRECTOR_ID")
    url = change_url(application).replace("/change/", f"/documents/{document.pk}")
    assert office.get(url).status_code == 404

    reveal(office, application, "KYB")
    for _ in range(2):
        answer = office.get(url)
        assert answer.content == pdf()

    assert answer["Content-Disposition"].startswith("attachment; ")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cache-Control"] == "no-store"
    read = AuditEvent.objects.filter(action="go-live-application.document-read")
    assert [event.fields for event in read] == [["DIRECTOR_ID"]] * 2


def test_document_of_another_application_is_not_found(owner, stranger, office):
    mine, theirs = submitted(owner.member), draft(stranger.member)
    document = theirs.documents.get(kind="CR12")
    reveal(office, mine, "KYB")

    url = change_url(mine).replace("/change/", f"/documents/{document.pk}")

    assert office.get(url).status_code == 404


def test_list_of_waiting_applications_is_exact(owner, stranger, office):
    waits, decided = submitted(owner.member), in_review(stranger.member)
    review.reject(decided.pk, by(reviewer()), "No")

    found = listed_ids(office, Application, waits="staff")

    assert found == {str(waits.pk)}
    assert NAME in read_page(office, list_url(Application))


def test_application_is_found_by_a_part_of_the_company_name(owner, stranger, office):
    acacia = submitted(owner.member)
    other = draft(stranger.member)
    Application.objects.filter(pk=other.pk).update(company_name="Baobab Traders")

    for typed in (NAME[1:5].upper(), str(acacia.workspace_id)):
        found = listed_ids(office, Application, q=typed)
        assert found == {str(acacia.pk)}, typed


def test_insiders_do_not_decide(owner, viewer):
    colleague = create_member(owner.workspace, "ADMIN", "colleague")
    draft(owner.member)
    acts = by(colleague.user, ActorKind.MEMBER)
    applications.upload_document(colleague, DocumentKind.KRA, "kra.pdf", PDF, acts)
    application = applications.submit(owner.member, by(owner.member.user))
    run_due_checks()
    # The submitter and one who uploaded have left; a member has another account.
    owner.member.delete()
    colleague.delete()
    other_account = reviewer("by-day")
    other_account.email = viewer.member.user.email.upper()
    other_account.save()
    insiders = [owner.member.user, colleague.user, other_account]

    for user in insiders:
        with pytest.raises(review.OwnWorkspace):
            review.take(application.pk, by(user))
    review.take(application.pk, by(reviewer()))
    for user in insiders:
        with pytest.raises(review.OwnWorkspace):
            review.approve(application.pk, by(user))
        with pytest.raises(review.OwnWorkspace):
            review.reject(application.pk, by(user), "No")
