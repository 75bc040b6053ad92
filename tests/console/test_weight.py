"""Pages of the console load fast over a slow line: their sizes, compressed."""

import gzip
import random
import re
from datetime import timedelta

from django.contrib.staticfiles import finders
from django.utils.timezone import localdate

from tests.world.clients import Api, person
from verification.console.base import PAGE_SIZE
from verification.figures.models import DailyFigure
from verification.values.local_time import NAIROBI

KB = 1024


def compressed(content: bytes) -> int:
    return len(gzip.compress(content, 6))


def size_of(path: str) -> int:
    found = finders.find(path)
    assert isinstance(found, str)
    with open(found, "rb") as file:
        return compressed(file.read())


def test_style_sheet_and_scripts_are_light(owner):
    html = owner.page("dashboard")
    loaded = re.findall(
        r'<(?:script|link|img)[^>]* (?:src|href)="/static/(?:v-\w+/)?([^"]+)"', html
    )

    scripts = [path for path in loaded if path.endswith(".js")]
    sheets = [path for path in loaded if path.endswith(".css")]
    assert sum(map(size_of, sheets)) < 12 * KB
    assert sum(map(size_of, scripts)) < 20 * KB
    # And the page itself; the drawing of the mark and the icon are one file.
    assert len({*loaded}) + 1 <= 5


def test_pages_are_light(owner, api: Api):
    order = {"fullName": "Wanjiku Achieng Kamau-Otieno"}
    made = [
        api.create({**person(**order), "reference": f"LN-{number}"})["id"]
        for number in range(PAGE_SIZE)
    ]
    names = ("dashboard", "reports", "queue", "figures", "reports-new", "webhooks")
    pages = {"reports-detail": {"report": made[0]}, **{name: {} for name in names}}

    for name, more in pages.items():
        # Kiswahili is longer.
        html = owner.page(name, query={"lang": "sw"}, **more)
        assert compressed(html.encode()) < 12 * KB, name


def test_figures_of_full_days_are_light(owner):
    chance = random.Random(7)
    few = ("partial", "failed", "medium", "high", "declined", "review")
    many = ("ready", "low", "approved", "charged")
    today = localdate(timezone=NAIROBI)
    DailyFigure.objects.bulk_create(
        DailyFigure(
            workspace=owner.workspace,
            environment="sandbox",
            all_packages=True,
            day=today - timedelta(days=days),
            check_name=check,
            created=1000,
            turnaround_buckets=[chance.randrange(20, 60)],
            turnaround_counts=[9],
            decision_buckets=[chance.randrange(90, 120)],
            decision_counts=[9],
            **{name: chance.randrange(40) for name in few},
            **{name: chance.randrange(100, 800) for name in many},
        )
        for days in range(60)
        for check in (None, "IDENTITY", "KRA_PIN", "CRB_SCORE", "EMPLOYER")
    )

    # Kiswahili is longer.
    html = owner.page("figures", query={"lang": "sw"})

    assert compressed(html.encode()) < 12 * KB
