"""Marks in every personal field are found before erasing, and nowhere after it."""

import json
from datetime import timedelta

import pytest
from django.utils.timezone import now

from monitoring.models import Rule
from tests.fakes.kra import kra as kra
from tests.fakes.metropol import metropol as metropol
from tests.fakes.paystack import paystack as paystack
from tests.fakes.smile_id import smile_id as smile_id
from tests.privacy.canaries import Found, everything, find_in
from tests.privacy.planting import World
from tests.privacy.planting import live_source as live_source
from tests.privacy.planting import world as world
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.receiver import authority as authority
from tests.world.receiver import receiver as receiver
from tests.world.refunds import paystack_api as paystack_api
from verification.privacy.retention import erase_expired_reports
from verification.reports.models import Report

pytestmark = pytest.mark.django_db(transaction=True)


def test_retention_erases_every_mark(world: World, log_lines: LogLines):
    world.plant()

    def log() -> str:
        return json.dumps(log_lines())

    def find() -> Found:
        return find_in(world.canaries, everything(log))

    before = find()
    assert world.canaries.fields - world.canaries.not_stored - before.keys() == set()
    assert before.keys() & world.canaries.not_stored == set()
    old = now() - timedelta(days=400)
    Report.objects.update(completed_at=old)
    Rule.objects.update(status="PAUSED", pause_reason="BY_CLIENT", paused_at=old)
    erase_expired_reports()
    assert find() == {}
