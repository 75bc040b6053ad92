from pathlib import Path

from verification.settings.providers import DEFAULT_ROUTES, EVERYWHERE, HOME_COUNTRY

DOCS = Path(__file__).parents[2] / "docs"
PLACES = {HOME_COUNTRY: {"Kenya"}, "GB": {"the United Kingdom"}, EVERYWHERE: {"all"}}
PLACES[EVERYWHERE] |= {"all others"}


def test_page_lists_all_default_routes():
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in (DOCS / "operator" / "providers.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    listed = {
        (check, place): names.strip("`").split("`, `")
        for checks, place, names in (row for row in rows if len(row) == 3)
        for check in checks.split(", ")
    }

    for check, by_country in DEFAULT_ROUTES.items():
        for country, names in by_country.items():
            (row,) = (listed[check, p] for p in PLACES[country] if (check, p) in listed)
            assert row == list(names)
