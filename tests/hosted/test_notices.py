import re
import tomllib

import pytest
from django.conf import settings

from tests.clients import HOSTED
from verification.checks.catalogue import CATALOGUE
from verification.consents.notices import ANYWHERE, FOLDER, VERSIONS, notice_for

LANGUAGES = [code for code, _ in settings.LANGUAGES]
IN_USE = sorted({*VERSIONS.values(), ANYWHERE})


def source(version, language):
    return tomllib.loads((FOLDER / f"{version}.{language}.toml").read_text())


def shape(value):
    """Its members and the values it names, without its words."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in value.items()}
    if isinstance(value, list):
        return [shape(member) for member in value]
    return set(re.findall(r"{\w+}", value))


@pytest.mark.parametrize("version", IN_USE)
def test_a_text_says_the_same_in_every_language(version):
    english, *others = (source(version, language) for language in LANGUAGES)

    for other in others:
        assert shape(other) == shape(english)


@pytest.mark.parametrize("version", IN_USE)
def test_a_text_knows_every_check(version):
    assert {entry.name for entry in CATALOGUE} < set(source(version, "en")["checks"])


@pytest.mark.django_db
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_text_is_whole_and_its_hash_its_own(ask, language):
    consent = ask(purpose="Loan {for} a %s").consent

    notice = notice_for(consent, language)

    assert "Loan {for} a %s" in notice.text
    assert "{client}" not in notice.text
    assert "Acacia Lenders" in notice.title
    assert str(consent.report.workspace.retention_days) in notice.text
    assert len(notice.sha256) == 64


@pytest.mark.django_db
def test_the_contact_is_told_when_there_is_one(ask, settings):
    consent = ask().consent
    assert "Contact" not in notice_for(consent, "en").text

    settings.OPERATOR_CONTACT = "privacy@operator.test"

    assert "Contact: Questions and requests" in notice_for(consent, "en").text


@pytest.mark.django_db
def test_other_countries_have_a_text_as_well(api, ask):
    consent = ask(subject={"country": "UG"}, consent=HOSTED).consent

    assert notice_for(consent, "en").version == ANYWHERE
