"""Who is asked what: for each check and country an ordered list of sources.

    SOURCES_KRA_PIN=kra,smile_id         subjects in Kenya
    SOURCES_KRA_PIN_UG=smile_id          subjects in Uganda
    SOURCES_KRA_PIN_OTHERS=              everybody else: nobody is asked

Another source than the first is asked only where those before it cannot be, or do not
answer. What is not set stays as it is built in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from environs import Env

# Check -> country, or EVERYWHERE else -> sources.
Routes = dict[str, dict[str, tuple[str, ...]]]

HOME, EVERYWHERE, OTHERS = "KE", "*", "OTHERS"
ORDER: Routes = {
    "IDENTITY": {HOME: ("smile_id_v3", "smile_id", "prembly")},
    # Smile ID does not know whether a PIN is active; Prembly finds none by an ID.
    "KRA_PIN": {HOME: ("kra", "smile_id", "prembly")},
    "BUSINESS_VERIFICATION": {
        HOME: ("smile_id", "prembly"),
        "GB": ("companies_house", "gleif"),
        EVERYWHERE: ("gleif",),
    },
    "CRB_SCORE": {HOME: ("metropol",)},
    "CRB_STANDARD": {HOME: ("metropol",)},
    "CRB_FULL": {HOME: ("metropol",)},
    "CREDITBUREAU_SCORE": {HOME: ("metropol",)},
    "CREDITBUREAU_STATUS": {HOME: ("metropol",)},
    "CREDITBUREAU_COMP": {HOME: ("metropol",)},
    "AML_SCREENING": {EVERYWHERE: ("opensanctions", "watchlists")},
}
PREFIX = "SOURCES_"
# Calls to one source at once, over all clusters.
AT_ONCE = 128


@dataclass(frozen=True, slots=True)
class Limit:
    """Calls to one source, over all clusters: at once, and begun in a minute; and how
    often one is made again for a check that has no answer and may be charged."""

    at_once: int = AT_ONCE
    a_minute: int | None = None
    paid_again: int = 1


# Of sources that say how often they may be asked.
LIMITS = {
    # 600 requests in 5 minutes, and up to 4 for one company.
    "companies_house": Limit(a_minute=30),
    # 60 requests a minute, and up to 2 for one company.
    "gleif": Limit(a_minute=30),
}


def routes(env: Env) -> Routes:
    found = {check: dict(by_country) for check, by_country in ORDER.items()}
    for variable, names in _given(env).items():
        if place := _place(variable):
            check, country = place
            found[check][country] = names
    return found


def limits(env: Env) -> dict[str, Limit]:
    """`SMILE_ID_AT_ONCE` and `SMILE_ID_A_MINUTE`, and so for every source;
    `METROPOL_PAID_AGAIN` for those that have to be paid again."""
    found = {}
    for name in known():
        usual = LIMITS.get(name, Limit())
        found[name] = Limit(
            env.int(f"{name.upper()}_AT_ONCE", usual.at_once),
            env.int(f"{name.upper()}_A_MINUTE", usual.a_minute),
            env.int(f"{name.upper()}_PAID_AGAIN", usual.paid_again),
        )
    return found


def wrong_routes(env: Env) -> list[str]:
    """What is wrong with the variables, a sentence each."""
    wrong = []
    for variable, names in _given(env).items():
        place = _place(variable)
        if place is None:
            checks = ", ".join(sorted(ORDER))
            wrong.append(f"{variable} names no check that sources answer: {checks}.")
            continue
        for name in names:
            if name not in known():
                told = f"no such source; there are {', '.join(sorted(known()))}."
                wrong.append(f"{variable} names {name!r}: {told}")
            elif place[0] not in known()[name]:
                wrong.append(f"{variable}: {name} does not answer {place[0]}.")
        if len(set(names)) < len(names):
            wrong.append(f"{variable} names a source twice.")
    for source, limit in limits(env).items():
        name = source.upper()
        if limit.at_once < 1:
            wrong.append(f"{name}_AT_ONCE must be at least 1.")
        if limit.a_minute is not None and limit.a_minute < 1:
            wrong.append(f"{name}_A_MINUTE must be at least 1.")
        if limit.paid_again < 0:
            wrong.append(f"{name}_PAID_AGAIN must be at least 0.")
    return wrong


def known() -> Mapping[str, set[str]]:
    """Every source there is an adapter for -> the checks that it answers."""
    found: dict[str, set[str]] = {}
    for check, by_country in ORDER.items():
        for names in by_country.values():
            for name in names:
                found.setdefault(name, set()).add(check)
    return found


def _given(env: Env) -> dict[str, tuple[str, ...]]:
    """Variable -> the names in it."""
    given = {}
    for variable in sorted(v for v in os.environ if v.startswith(PREFIX)):
        names = [name.strip() for name in env.str(variable).split(",")]
        given[variable] = tuple(name for name in names if name)
    return given


def _place(variable: str) -> tuple[str, str] | None:
    """(check, country) that a variable is about."""
    text = variable.removeprefix(PREFIX)
    if text in ORDER:
        return text, HOME
    check, _, country = text.rpartition("_")
    if check not in ORDER:
        return None
    if country == OTHERS:
        return check, EVERYWHERE
    return (check, country) if re.fullmatch(r"[A-Z]{2}", country) else None
