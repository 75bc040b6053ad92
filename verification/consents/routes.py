"""The sources that a check may ask under a consent."""

from __future__ import annotations

from verification.consents.models import Consent
from verification.providers.registry import Route, among, route_for


def route_under(
    consent: Consent | None, check: str, environment: str, country: str
) -> Route:
    """Return the route of the check, less the sources that the subject was not shown.

    A consent that was given before notices named sources has none to show for its
    checks, so no live source is left. An attested consent leaves the whole route: the
    client's own notice names the sources.
    """
    route = route_for(check, environment, country)
    if consent is None or consent.mode != Consent.Mode.SERVICE_HOSTED:
        return route
    return among(route, consent.shown_sources.get(check))
