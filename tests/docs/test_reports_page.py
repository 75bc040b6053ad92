"""The figures of `docs/client/reports.md` are true."""

from tests.docs.guides import read_guide
from tests.world.clients import Api, person
from verification.development.demo import offer_packages

PAGE = read_guide("docs/client/reports.md")


def test_page_has_the_shares_of_a_package(api: Api):
    offer_packages()
    item = person(idNumber="12345678") | {"package": "loan-applicant"}
    del item["checksRequested"]

    quoted = api.post("/reports/quote", {"reports": [item]}).json()

    shares = [check["price"]["amount"] for check in quoted["reports"][0]["checks"]]
    assert "has the shares {:.0f}, {:.0f} and {:.0f}.".format(*shares) in PAGE
    assert quoted["total"]["amount"] == 200
