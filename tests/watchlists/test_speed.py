import time

import pytest

from tests.providers.inquiries import inquiry
from tests.watchlists.lists import Lists
from verification.watchlists.models import ListEntry
from verification.watchlists.source import WatchLists

# Several times the duration on two cores.
MOST_SECONDS = 30


@pytest.mark.slow
def test_screening_of_a_thousand_names_is_fast(load):
    lists = Lists(seed=7)
    load("EU", lists.file(people=15_400, companies=6_600))
    assert ListEntry.objects.count() == 22_000
    names = lists.kenyan.person
    people = [inquiry("AML_SCREENING", fullName=names()) for _ in range(800)]
    companies = [
        inquiry("AML_SCREENING", fullName=lists.company(), subjectType="COMPANY")
        for _ in range(200)
    ]
    source = WatchLists(["EU"])

    # Processor time, because the machine may be busy.
    begun = time.process_time()
    found = [source.ask(each) for each in people + companies]
    took = time.process_time() - begun

    assert any(each.flags for each in found)
    assert took < MOST_SECONDS
