"""The command of `docs/client/reports.md` works, and its figures are true."""

import re

from tests.docs.guides import create_test_key, offer_packages, read_guide, run_command
from tests.world.clients import Api, person
from tests.world.service import Service
from verification.development import demo

PAGE = read_guide("docs/client/reports.md")
(LISTING,) = re.findall(r"^```sh\n(curl .*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_command_lists_packages(service: Service):
    key = create_test_key(service)
    offer_packages(service)

    listed = run_command(LISTING, service, KEY=key)

    assert "loan-applicant" in [each["name"] for each in listed["content"]]


def test_page_has_the_shares_of_a_package(api: Api):
    demo.offer_packages()
    item = person(idNumber="12345678") | {"package": "loan-applicant"}
    del item["checksRequested"]

    quoted = api.post("/reports/quote", {"reports": [item]}).json()

    shares = [check["price"]["amount"] for check in quoted["reports"][0]["checks"]]
    assert "has the shares {:.0f}, {:.0f} and {:.0f}.".format(*shares) in PAGE
    assert quoted["total"]["amount"] == 200
