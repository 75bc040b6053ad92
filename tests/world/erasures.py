"""Requests to erase a person, carried out as the job does."""

from __future__ import annotations

from typing import Any

from tests.world.clients import Api
from verification.privacy.erasure import erase_person
from verification.privacy.models import Erasure
from workspaces.models import Scope


def erasing_api(api: Api) -> Api:
    """Return a client with a key that may erase."""
    return Api(api.workspace, api.environment, scopes=list(Scope.values))


def request_erasure(api: Api, report_id: str) -> dict[str, Any]:
    answer = erasing_api(api).delete(f"/reports/{report_id}/subject")
    assert answer.status_code == 202, answer.content
    return answer.json()


def erase(api: Api, report_id: str) -> Erasure:
    """Erase the subject of this report; return the erasure, which has ended."""
    made = request_erasure(api, report_id)
    erase_person(made["id"])
    erasure = Erasure.objects.select_related("request__workspace").get(pk=made["id"])
    assert erasure.ended_at is not None
    return erasure
