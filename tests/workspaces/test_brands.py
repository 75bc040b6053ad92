"""A client's logo, colour and contact line, and the hosts its pages lead back to."""

import re
from uuid import UUID

import pytest
from django.contrib.staticfiles import finders
from django.db import IntegrityError, transaction
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.world.brands import HOST, logo, save_brand
from tests.world.clients import approve_workspace
from tests.world.members import create_member
from verification.values.colours import (
    EDGE_RATIO,
    TEXT_RATIO,
    contrast,
    least_contrast,
)
from workspaces import brands
from workspaces.brands import (
    AddressRefused,
    BrandFault,
    InvalidBrand,
    bar_brand,
    read_address,
    return_link,
    shown_brand,
)
from workspaces.members import NotAllowed
from workspaces.models import Brand, Member

pytestmark = pytest.mark.django_db
# The dark backgrounds of `hosted.css`: the page, cards and notes.
DARK = ("#131b19", "#0c1211", "#12302d")
ID = UUID("01900000-0000-7000-8000-000000000001")


@pytest.fixture
def workspace(api):
    return api.workspace


def refused(workspace, **fields) -> InvalidBrand:
    with pytest.raises(InvalidBrand) as e:
        save_brand(workspace, **fields)
    return e.value


def test_backgrounds_are_those_of_the_stylesheet():
    with open(finders.find("verification/hosted.css")) as file:
        css = file.read()
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]

    for known, section in ((brands.LIGHT, light), (DARK, dark)):
        colours = dict(re.findall(r"--(\w+): (#\w+);", section))
        assert set(known) == {colours[name] for name in ("surface", "canvas", "soft")}


@given(st.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}"))
def test_buttons_labels_and_links_are_readable_in_every_colour(colour):
    assume(brands.is_visible(colour))

    for palette, backgrounds in (
        (brands.light_palette(colour), brands.LIGHT),
        (brands.dark_palette(colour), DARK),
    ):
        assert contrast(palette.label, palette.button) >= TEXT_RATIO
        assert least_contrast(palette.button, backgrounds) >= EDGE_RATIO
        # The outline of what has the focus has this colour, too.
        assert least_contrast(palette.link, backgrounds) >= TEXT_RATIO


def test_colour_is_saved_as_it_was_chosen(workspace):
    assert save_brand(workspace, colour="0A7A3C").colour == "#0a7a3c"


def test_faint_colour_is_refused_with_its_contrast(workspace):
    for colour, ratio in [
        ("#ffffff", "1.0:1"),
        ("#ffd100", "1.2:1"),
        ("#0f7f6e", "4.2:1"),
    ]:
        error = refused(workspace, colour=colour)

        assert error.faults == {"colour": BrandFault.FAINT}
        assert error.details == {"colour": ratio}


def test_faint_colour_of_an_earlier_rule_stays(workspace):
    save_brand(workspace)
    Brand.objects.update(colour="#0f7f6e")

    saved = save_brand(workspace, colour="#0f7f6e", contact_line="Kimathi Street 12")

    assert saved.colour == "#0f7f6e"


GOOD_LINES = [
    "Monday to Friday, 8 a.m. to 5 p.m., Kimathi Street 12, Nairobi",
    "Ask for Ann O'Neill at 0712 345 678 till 5 pm",
    "Jumatatu hadi Ijumaa, saa 2.00 hadi saa 11.00",
    "Open 24/7; B&B (Acacia) +254 712 345 678",
    "Acacia Co. Ltd, P.O. Box 123. Green Dot House \N{MIDDLE DOT} Nairobi",
]


def test_contact_line_is_saved(workspace):
    for line in GOOD_LINES:
        assert save_brand(workspace, contact_line=line).contact_line == line


TRICKS = [
    ("x" * 121, BrandFault.TOO_LONG),
    ("See https://acacia.example", BrandFault.LINK),
    ("See acacia.example", BrandFault.LINK),
    ("See WWW.acacia", BrandFault.LINK),
    ("wa.me/254712345678", BrandFault.LINK),
    ("help@acacia", BrandFault.LINK),
    ("\N{FULLWIDTH LATIN SMALL LETTER A}cacia\N{FULLWIDTH FULL STOP}com", "link"),
    ("acacia . com", BrandFault.LINK),
    ("acacia. com", BrandFault.LINK),
    ("acacia dot com", BrandFault.LINK),
    ("acacia (nukta) co (nukta) ke", BrandFault.LINK),
    ("a c a c i a . c o m", BrandFault.LINK),
    ("acacia\N{MIDDLE DOT}com", BrandFault.LINK),
    ("acacia\N{IDEOGRAPHIC FULL STOP}com", BrandFault.SIGNS),
    ("acacia\N{ZERO WIDTH SPACE}.com", BrandFault.SIGNS),
    ("Call \N{RIGHT-TO-LEFT OVERRIDE}2170", BrandFault.SIGNS),
    ("Have your \N{CYRILLIC CAPITAL LETTER ER}IN ready", BrandFault.SIGNS),
    ("\N{HEAVY CHECK MARK} Approved by the Central Bank", BrandFault.SIGNS),
    ("<b>Acacia</b>", BrandFault.SIGNS),
    ("P I N please", BrandFault.WARY),
    ("Your O.T.P. please", BrandFault.WARY),
    ("Send your PIN to 0712 345 678", BrandFault.WARY),
    ("Have your one-time code ready", BrandFault.WARY),
    ("Tupigie na nywila yako", BrandFault.WARY),
    ("Pay by M-PESA to 0712 345 678", BrandFault.WARY),
    ("Paybill 123456", BrandFault.WARY),
    ("Lipa kwa 0712 345 678", BrandFault.WARY),
]


def test_line_with_a_trick_is_refused(workspace):
    for line, fault in TRICKS:
        lines = {"contact_line": line, "contact_line_sw": line}
        assert refused(workspace, **lines).faults == dict.fromkeys(lines, fault)


HOSTS = [
    ("apply.acacia.example", "apply.acacia.example"),
    (" APPLY.acacia.example. ", "apply.acacia.example"),
    (
        "b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example",
        "xn--bcher-kva.example",
    ),
    # Cyrillic letters that look like "acacia": the page shows this form.
    ("\u0430\u0441\u0430\u0441ia.example", "xn--ia-6kca8fb.example"),
]


def test_host_is_saved_as_dns_writes_it(workspace):
    for typed, host in HOSTS:
        assert save_brand(workspace, return_hosts=[typed]).return_hosts == [host]


NO_HOSTS = [
    "https://acacia.example",
    "acacia.example/x",
    "acacia.example:8443",
    "acacia.example:443",
    "*.acacia.example",
    "user@acacia.example",
    "localhost",
    "intranet",
    "printer.local",
    "10.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "[::1]",
    "acacia.example\\.evil.example",
    "-x.example",
]


def test_what_is_no_public_host_is_refused(workspace):
    for host in NO_HOSTS:
        assert "return_hosts" in refused(workspace, return_hosts=[host]).faults


def test_workspace_lists_at_most_10_hosts(workspace):
    hosts = [f"a{number}.example" for number in range(11)]

    assert refused(workspace, return_hosts=hosts).faults == {
        "return_hosts": BrandFault.TOO_MANY_HOSTS
    }


ELSEWHERE = [
    "http://apply.acacia.example/",
    "javascript:alert(1)//apply.acacia.example",
    "//apply.acacia.example/",
    "/done",
    "https://apply.acacia.example@evil.example/",
    "https://a:b@apply.acacia.example/",
    "https://evil.example\\@apply.acacia.example/",
    "https://apply.acacia.example:8443/",
    "https://apply.acacia.example:444/",
    "https://evil.example/apply.acacia.example",
    "https://evil.apply.acacia.example/",
    "https://apply.acacia.example.evil.example/",
    "https://acacia.example/",
    "https://apply.acacia.example/#top",
    "https://apply.acacia.example/\n",
    "https://apply.acacia.example/ x",
    "https://\N{FULLWIDTH LATIN SMALL LETTER E}vil.example/",
    f"https://apply.acacia.example/{'x' * 500}",
]


def test_address_elsewhere_is_refused():
    for address in ELSEWHERE:
        with pytest.raises(AddressRefused):
            read_address(address, [HOST])


def test_address_is_written_plainly():
    read = read_address(
        "HTTPS://APPLY.acacia.example.:443/a b".replace(" ", ""), [HOST]
    )

    assert read == "https://apply.acacia.example/ab"


def test_return_link_adds_the_id_of_the_report_and_nothing_else(workspace):
    brand = save_brand(workspace, return_url=f"https://{HOST}/done")

    assert return_link(brand, None, ID) == f"https://{HOST}/done?report={ID}"
    own = f"https://{HOST}/x?step=2"
    assert return_link(brand, own, ID) == f"https://{HOST}/x?step=2&report={ID}"


def test_default_address_needs_a_listed_host(workspace):
    error = refused(workspace, return_url="https://elsewhere.example/")

    assert error.faults == {"return_url": BrandFault.NOT_LISTED}


def test_host_that_was_removed_is_not_followed(workspace):
    brand = save_brand(workspace, return_url=f"https://{HOST}/")
    assert return_link(brand, None, ID)
    # Another process changed the list after the address was saved.
    Brand.objects.update(return_hosts=["other.example"])

    brand.refresh_from_db()

    assert return_link(brand, None, ID) == ""
    assert return_link(brand, f"https://{HOST}/own", ID) == ""


def test_production_shows_brands_of_live_workspaces_only(workspace):
    save_brand(workspace, colour="#0a7a3c")
    assert shown_brand(workspace.pk, "sandbox")
    assert shown_brand(workspace.pk, "production") is None

    approve_workspace(workspace)

    assert shown_brand(workspace.pk, "production")


def test_barred_brand_is_shown_nowhere(workspace):
    save_brand(workspace, logo(), contact_line="Kimathi Street 12")

    bar_brand(workspace.pk, "It is the logo of a bank")

    barred = Brand.objects.get()
    assert barred.logo is None
    assert barred.contact_line == ""
    assert shown_brand(workspace.pk, "sandbox") is None
    assert brands.return_hosts_of(workspace.pk) == frozenset()
    assert refused(workspace, logo=logo()).faults == {"logo": BrandFault.BARRED}
    assert refused(workspace, contact_line="Here").faults


def test_too_narrow_logo_is_refused(workspace):
    assert refused(workspace, logo=logo((4000, 20))).faults == {
        "logo": BrandFault.SMALL_LOGO
    }


def test_logo_stays_until_it_is_replaced_or_dropped(workspace):
    save_brand(workspace, logo())
    kept = save_brand(workspace, colour="#0a7a3c")
    assert kept.logo_digest

    member = create_member(workspace, "ADMIN", "admin")
    new = brands.NewBrand("", "", "", [], "")
    brands.change_brand(member, new, None, drop_logo=True)

    assert Brand.objects.get().logo is None


def test_member_who_lost_the_role_changes_nothing(workspace):
    save_brand(workspace)
    member = create_member(workspace, "ADMIN", "admin")
    Member.objects.filter(pk=member.pk).update(role="VIEWER")

    with pytest.raises(NotAllowed):
        brands.change_brand(member, brands.NewBrand("#0a7a3c", "", "", [], ""), None)


BROKEN = [
    ({"colour": "red"}, "brand_colours_are_well_formed"),
    ({"logo": b"x"}, "brand_logos_are_whole"),
    ({"logo_digest": "0" * 64}, "brand_logos_are_whole"),
    ({"barred_reason": "Because"}, "barred_brands_say_why_and_show_nothing"),
]


def test_database_refuses_broken_brands(workspace):
    save_brand(workspace)
    for broken, constraint in BROKEN:
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            Brand.objects.update(**broken)
