"""The commands of `docs/client/reports.md` work, and its figures are true."""

import re

from tests.docs.guides import create_test_key, offer_packages, read_guide, run_command
from tests.world.service import Service

PAGE = read_guide("docs/client/reports.md")
COMMANDS = re.findall(r"^```sh\n(curl .*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_commands_about_packages_work(service: Service):
    listing, quote = COMMANDS
    key = create_test_key(service)
    offer_packages(service)

    listed = run_command(listing, service, KEY=key)
    quoted = run_command(quote, service, KEY=key)

    assert "loan-applicant" in [each["name"] for each in listed["content"]]
    shares = [check["price"]["amount"] for check in quoted["reports"][0]["checks"]]
    assert "has the shares {:.0f}, {:.0f} and {:.0f}.".format(*shares) in PAGE
    assert quoted["total"]["amount"] == 200
