import re
import tomllib

import pytest
from django.conf import settings

from tests.providers.test_every_source import CREDENTIALS
from tests.world.clients import HOSTED
from tests.world.policies import DECLINE_HIGH, draft_policy, switch_on
from verification.checks.catalogue import CATALOGUE
from verification.checks.models import CheckDefinition
from verification.consents.models import Consent
from verification.consents.notices import DEFAULT_VERSION, FOLDER, VERSIONS, notice_for
from verification.providers import registry
from verification.settings.providers import (
    checks_by_source,
    live_providers,
    source_routes,
)

LANGUAGES = [code for code, _ in settings.LANGUAGES]
CHECKS = ["IDENTITY", "KRA_PIN", "EMPLOYER_VERIFICATION", "CRB_SCORE"]
REFEREE = {
    "employerName": "Baobab Bank",
    "refereeName": "Otieno Ouma",
    "refereeEmail": "otieno@baobab.test",
}
IN_USE = sorted({*VERSIONS.values(), DEFAULT_VERSION})


def source(version, language):
    return tomllib.loads((FOLDER / f"{version}.{language}.toml").read_text())


def shape(value):
    """Return the members and the placeholders of a text, without its words."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in value.items()}
    if isinstance(value, list):
        return [shape(member) for member in value]
    return set(re.findall(r"{\w+}", value))


@pytest.mark.parametrize("version", IN_USE)
def test_text_says_the_same_in_every_language(version):
    english, *others = (source(version, language) for language in LANGUAGES)

    for other in others:
        assert shape(other) == shape(english)


@pytest.mark.parametrize("version", IN_USE)
def test_text_knows_every_check(version):
    assert {entry.name for entry in CATALOGUE} < set(source(version, "en")["checks"])


@pytest.mark.django_db
@pytest.mark.parametrize("language", LANGUAGES)
def test_text_is_whole_and_its_hash_its_own(ask, language):
    consent = ask(purpose="Loan {for} a %s").consent

    notice = notice_for(consent, language)

    assert "Loan {for} a %s" in notice.text
    assert "{client}" not in notice.text
    assert "Acacia Lenders" in notice.title
    workspace = consent.report.workspace
    assert str(workspace.retention("sandbox").days) in notice.text
    assert len(notice.sha256) == 64


@pytest.mark.django_db
def test_text_names_the_contacts_of_client_and_operator(ask, settings):
    settings.OPERATOR_CONTACT = "privacy@operator.test"

    text = notice_for(ask().consent, "en").text

    assert "Acacia Lenders: owner@acacia.test." in text
    assert "Verification reports: privacy@operator.test." in text


@pytest.mark.django_db
@pytest.mark.parametrize("language", LANGUAGES)
def test_text_says_where_people_use_their_rights(ask, settings, language):
    settings.BASE_URL = "https://verify.test"
    settings.SUBJECT_REQUEST_DAYS = {
        **settings.SUBJECT_REQUEST_DAYS,
        "ACCESS": 5,
        "CORRECTION": 11,
        "OBJECTION": 12,
        "ERASURE": 13,
    }

    notice = notice_for(ask().consent, language)

    rights = notice.paragraphs[-1].text
    assert "https://verify.test/my-data" in rights
    assert re.findall(r"\b5\b|\b13\b", rights) == ["5", "13"]


@pytest.mark.django_db
@pytest.mark.parametrize("language", LANGUAGES)
def test_company_is_promised_no_page_that_it_lacks(ask_company, language):
    consent = Consent.objects.get(report=ask_company().report_id)

    notice = notice_for(consent, language)

    assert "/my-data" not in notice.text
    assert (
        notice.paragraphs[-1].heading
        == {"en": "Your rights", "sw": "Haki zako"}[language]
    )
    assert "owner@acacia.test" in notice.paragraphs[-1].text


# What rules may do -> sentences about decisions that are true then. No other is.
DECISIONS = {
    "en": {
        "It does not decide about you": [None, "PROPOSE"],
        "it proposes a decision": ["PROPOSE"],
        "lets a program decide alone, it has to tell you": [None, "PROPOSE"],
        "and no person looks at it before": ["DECIDE"],
    },
    "sw": {
        "Haiamui kukuhusu": [None, "PROPOSE"],
        "hupendekeza uamuzi": ["PROPOSE"],
        "ikiruhusu programu iamue peke yake, lazima ikuambie": [None, "PROPOSE"],
        "bila mtu kuliangalia kwanza": ["DECIDE"],
    },
}


@pytest.mark.django_db
@pytest.mark.parametrize("asker", ["ask", "ask_company"])
def test_notice_says_what_rules_may_decide(api, request, asker):
    report_id = request.getfixturevalue(asker)().report_id
    for mode in (None, "PROPOSE", "DECIDE"):
        if mode:
            switch_on(api, DECLINE_HIGH, mode=mode)
        for language, words in DECISIONS.items():
            notice = notice_for(Consent.objects.get(report=report_id), language)

            said = [one for one in words if one in notice.text]
            true = [one for one, modes in words.items() if mode in modes]
            assert said == true
            assert notice.automated is (mode == "DECIDE")
            has_right = "35" in notice.text
            assert has_right is (mode == "DECIDE" and asker == "ask")


@pytest.mark.django_db
def test_notice_counts_only_rules_that_are_switched_on(api, live_api, ask):
    switch_on(live_api, DECLINE_HIGH)
    draft_policy(api, DECLINE_HIGH)

    assert not notice_for(ask().consent, "en").automated


@pytest.mark.django_db
def test_other_countries_have_a_text_as_well(api, ask):
    consent = ask(subject={"country": "TZ"}, consent=HOSTED).consent

    assert notice_for(consent, "en").version == DEFAULT_VERSION


@pytest.mark.django_db
@pytest.mark.parametrize("language", LANGUAGES)
def test_sandbox_notice_says_that_no_source_is_asked(ask, language):
    notice = notice_for(ask(checksRequested=CHECKS, subject=REFEREE).consent, language)

    words = source(DEFAULT_VERSION, language)
    assert words["facts"]["test_text"] in notice.text
    assert words["abroad"]["test"] in notice.text
    assert not any(check.sent for check in notice.checks)
    assert notice.sources == {name: [] for name in CHECKS}
    assert "Smile" not in notice.text


@pytest.fixture
def live_sources(settings, monkeypatch):
    """Configure every live source, as in the built-in routes."""
    for variables in CREDENTIALS.values():
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
    registry.configure(live_providers(), source_routes())
    yield monkeypatch
    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


def sent(notice):
    """Return the text about the data sent and its recipient, by check."""
    names = notice.sources
    return dict(zip(names, [check.sent for check in notice.checks], strict=True))


@pytest.mark.django_db
def test_notice_names_every_source_that_the_routes_ask(live_sources, live_ask):
    notice = notice_for(live_ask(checksRequested=CHECKS, subject=REFEREE).consent, "en")

    register = "which asks the national register of persons (IPRS)"
    smile = f"Smile Identity, Inc. (the United States), {register}"
    assert sent(notice)["IDENTITY"] == (
        "Sent: your ID number. "
        f"To: {smile}, and is also sent your name, your e-mail address or phone "
        "number, and when and how you agreed. "
        f"If there is no answer, to: {smile}. "
        f"If there is no answer, to: Prembly (Identitypass) (Nigeria), {register}."
    )
    assert sent(notice)["CRB_SCORE"] == (
        "Sent: your ID number. To: Metropol Credit Reference Bureau Limited (Kenya)."
    )
    assert (
        "To: the referee whom Acacia Lenders named."
        in (sent(notice)["EMPLOYER_VERIFICATION"])
    )
    assert notice.sources["KRA_PIN"] == ["kra", "smile_id", "prembly"]
    assert notice.sources["EMPLOYER_VERIFICATION"] == []
    abroad = {point.heading: point.text for point in notice.full}["Other countries"]
    assert abroad.count("Smile Identity, Inc. is in the United States.") == 1
    assert "Nigeria Data Protection Act, 2023" in abroad
    assert "contract with Verification reports" in abroad
    assert "Metropol" not in abroad
    assert "may be less protected" in abroad


@pytest.mark.django_db
def test_notice_names_the_details_for_the_referee(live_ask):
    words = {"checksRequested": ["EMPLOYER_VERIFICATION"], "subject": REFEREE}
    notice = notice_for(live_ask(**words).consent, "en")

    full = {point.heading: point.text for point in notice.full}
    assert (
        "who asks and why, and that you agreed"
        in (sent(notice)["EMPLOYER_VERIFICATION"])
    )
    assert "No source above is outside Kenya" not in notice.text
    assert "The referee may be outside Kenya" in full["Other countries"]
    assert "may travel without encryption" in full["How your details are protected"]
    others = notice_for(live_ask(checksRequested=["IDENTITY"]).consent, "en")
    assert "referee" not in others.text


@pytest.mark.django_db
def test_notice_in_kiswahili_names_the_sources(live_sources, live_ask):
    notice = notice_for(live_ask(checksRequested=["IDENTITY"]).consent, "sw")

    assert "Kwa: Smile Identity, Inc. (Marekani), ambayo huuliza sajili" in notice.text
    assert "Nijeria" in notice.text


@pytest.mark.django_db
def test_watch_lists_of_the_service_send_nothing(live_sources, live_ask):
    live_sources.setenv("OPENSANCTIONS_URL", "https://yente.operator.test")
    live_sources.setenv("SOURCES_AML_SCREENING_OTHERS", "opensanctions")
    registry.configure(live_providers(), source_routes())
    CheckDefinition.objects.update(active=True)
    notice = notice_for(live_ask(checksRequested=["AML_SCREENING"]).consent, "en")

    assert sent(notice) == {
        "AML_SCREENING": "To: nobody. Verification reports keeps the lists itself."
    }
    assert "No source above is outside Kenya." in notice.text


@pytest.mark.django_db
def test_every_source_has_its_name_and_country_in_each_language(live_sources):
    with registry.RECIPIENTS.open("rb") as file:
        told = tomllib.load(file)

    assert set(told["sources"]) | {registry.LOCAL_SOURCE} == set(checks_by_source())
    for name in told["sources"]:
        assert registry.provider_named(name)
        for check in checks_by_source()[name]:
            for language in LANGUAGES:
                one = registry.recipient(name, check, language)
                assert one
                assert one.name
                assert one.country
                assert bool(one.safeguards) == one.is_abroad


@pytest.mark.django_db
def test_notice_says_that_a_check_without_sources_sends_nothing(live_ask):
    consent = live_ask(checksRequested=["CRB_SCORE"]).consent
    registry.configure({}, {})

    notice = notice_for(consent, "en")

    assert sent(notice)["CRB_SCORE"] == (
        "To: nobody. No source can be asked at present."
    )
