"""Read the published files of sanctions lists, entry by entry.

    UN     consolidated.xml         https://scsanctions.un.org/consolidated/
    OFAC   SDN.XML, CONSOLIDATED.XML    https://sanctionslist.ofac.treas.gov
    UK     UK-Sanctions-List.xml    https://www.gov.uk/government/publications/the-uk-sanctions-list
    EU     xmlFullSanctionsList_1_1    https://webgate.ec.europa.eu/fsd/fsf

Publishers use similar file names, so the root element and its namespace identify a
file. A file that declares entities is refused: they could read other files or grow
without limit. Ships and aircraft are left out, because no check is about them.

Countries become ISO codes of two letters; one that cannot be read is left out. A date
that cannot be read becomes ANY_YEAR, so that the entry's other dates exclude nobody.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from typing import IO
from xml.etree.ElementTree import Element, ParseError

import pycountry
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from verification.watchlists.matching import ANY_YEAR
from verification.watchlists.models import EntryKind, ListName

# Country names of the lists that ISO 3166 writes otherwise.
COUNTRY_NAMES = {
    "burma": "MM",
    "congo, democratic republic of the": "CD",
    "cote d ivoire": "CI",
    "democratic republic of the congo": "CD",
    "iran (islamic republic of)": "IR",
    "ivory coast": "CI",
    "korea, north": "KP",
    "korea, south": "KR",
    "kosovo": "XK",
    "north korea": "KP",
    "occupied palestinian territories": "PS",
    "palestinian": "PS",
    "russia": "RU",
    "turkey": "TR",
    "west bank": "PS",
}


def country_codes(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(code for name in names if (code := _code(name))))


@cache
def _code(name: str) -> str:
    plain = " ".join(name.replace("'", " ").split()).casefold()
    if found := COUNTRY_NAMES.get(plain):
        return found
    try:
        return str(pycountry.countries.lookup(name.strip()).alpha_2)
    except LookupError:
        return ""


# "01/03/1958" and "dd/mm/1945" (UK), "07 Dec 1960" and "Dec 1960" (OFAC).
LOCAL = re.compile(r"(\d\d|dd)/(\d\d|mm)/(\d{4})")
# "1975 to 1978" and "01 Jan 1978 to 31 Dec 1979" (OFAC).
SPAN = re.compile(r"(\d{4}) to .*?(\d{4})")
ABOUT = re.compile(r"(circa|approximately|about|ca?\.)\s*", re.IGNORECASE)
WRITTEN = {"%d %b %Y": "%Y-%m-%d", "%b %Y": "%Y-%m"}


def birth_dates(
    text: str | None,
    *,
    first: str | None = None,
    last: str | None = None,
    about: bool = False,
) -> list[str]:
    """Return dates as YYYY-MM-DD, YYYY-MM, YYYY, 1960/1965 or ANY_YEAR.

    `about` widens a date to the year before and the year after.
    """
    if first or last:
        low, high = _year(first or last), _year(last or first)
        return [f"{low}/{high}" if low and high and low <= high else ANY_YEAR]
    written = " ".join((text or "").split())
    if not written:
        return []
    plain = ABOUT.sub("", written)
    if span := SPAN.search(plain):
        return [f"{span[1]}/{span[2]}"]
    found = _date(plain)
    if found and (about or plain != written):
        year = int(found[:4])
        return [f"{year - 1}/{year + 1}"]
    return [found or ANY_YEAR]


def _date(text: str) -> str | None:
    if re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", text) and _year(text):
        return text
    if iso := re.match(r"\d{4}-\d\d-\d\d", text):
        return iso[0]
    if local := LOCAL.fullmatch(text.casefold()):
        parts = [local[3], local[2], local[1]]
        known = parts[: next((i for i, p in enumerate(parts) if p.isalpha()), 3)]
        return "-".join(known)
    for form, ours in WRITTEN.items():
        try:
            return datetime.strptime(text, form).strftime(ours)  # noqa: DTZ007
        except ValueError:
            continue
    return None


def _year(text: str | None) -> int | None:
    found = re.match(r"\d{4}", (text or "").strip())
    return int(found[0]) if found else None


class UnreadableFile(Exception):
    """The file is another list, or incomplete; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Entry:
    reference: str
    kind: EntryKind
    names: list[str]
    births: list[str] = field(default_factory=list)
    countries: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FileHeader:
    """The file's statements about itself; complete after the last entry."""

    published: date | None = None
    # The number of entries that the file states, and the number read so far.
    stated_count: int | None = None
    read_count: int = 0


@dataclass(frozen=True, slots=True)
class Format:
    # The root element, the elements of entries, and the function that reads an entry.
    root: str
    entries: frozenset[str]
    read: Callable[[Element], Entry | None]
    # The publisher's namespace; the UN and the UK also publish files without one.
    namespace: re.Pattern[str]
    # For years every whole list has had more entries.
    least: int
    # The attribute of the root, or the element, with the day; the one with the count.
    published: str
    count: str = ""
    # The publisher writes the day before the month.
    is_day_first: bool = False

    def publication_date(self, text: str | None) -> date | None:
        """Return the day of publication: ISO, 11/20/2026 (OFAC) or 20/11/2026 (UK)."""
        written = (text or "").strip()[:10]
        for form in ("%Y-%m-%d", "%d/%m/%Y" if self.is_day_first else "%m/%d/%Y"):
            try:
                return datetime.strptime(written, form).date()  # noqa: DTZ007
            except ValueError:
                continue
        return None


def read_entries(file: IO[bytes], name: str, head: FileHeader) -> Iterator[Entry]:
    """Yield the people and companies of a file.

    Raises UnreadableFile, possibly after the last entry.
    """
    format_ = FORMATS[ListName(name)]
    try:
        for element in _elements(file, format_, head):
            head.read_count += 1
            if entry := format_.read(element):
                yield entry
    except (ParseError, DefusedXmlException, ValueError, RecursionError) as e:
        why = f"The file is not XML that can be read safely: {type(e).__name__}."
        raise UnreadableFile(why) from None
    stated, count = head.stated_count, head.read_count
    if stated is not None and stated != count:
        raise UnreadableFile(f"The file says it has {stated} entries, and has {count}.")


def _elements(file: IO[bytes], format_: Format, head: FileHeader) -> Iterator[Element]:
    """Yield the element of each entry, and free it before the next."""
    path: list[Element] = []
    for event, element in iterparse(file, events=("start", "end"), forbid_dtd=True):
        namespace, _, element.tag = str(element.tag).rpartition("}")
        if event == "start":
            if not path:
                _check_root(element, namespace.lstrip("{"), format_, head)
            path.append(element)
            continue
        path.pop()
        if element.tag in format_.entries:
            yield element
            path[-1].remove(element)
        elif element.tag == format_.published:
            head.published = format_.publication_date(element.text)
        elif format_.count and element.tag == format_.count:
            text = (element.text or "").strip()
            head.stated_count = int(text) if text.isdecimal() else None


def _check_root(
    element: Element, namespace: str, format_: Format, head: FileHeader
) -> None:
    publisher = _publisher(element.tag, namespace)
    if publisher is None or FORMATS[publisher] is not format_:
        origin = f"is that of {publisher.label}" if publisher else "is of no publisher"
        begins = f"begins with {element.tag[:40]!r}, and not {format_.root!r}"
        if element.tag == format_.root:
            begins = f"begins with {element.tag!r} of {namespace[:80]!r}"
        raise UnreadableFile(f"The file {origin}: it {begins}.")
    head.published = format_.publication_date(element.get(format_.published))


def _publisher(root: str, namespace: str) -> ListName | None:
    for name, each in FORMATS.items():
        if each.root == root and each.namespace.search(namespace):
            return name
    return None


def _un(node: Element) -> Entry | None:
    person = node.tag == "INDIVIDUAL"
    parts = ("FIRST_NAME", "SECOND_NAME", "THIRD_NAME", "FOURTH_NAME")
    alias = "INDIVIDUAL_ALIAS" if person else "ENTITY_ALIAS"
    # One element may hold several aliases: "A; B".
    others = [
        each for text in _texts(node, f"{alias}/ALIAS_NAME") for each in text.split(";")
    ]
    births = [
        birth_dates(
            _text(one, "DATE") or _text(one, "YEAR") or _text(one, "NOTE"),
            first=_text(one, "FROM_YEAR"),
            last=_text(one, "TO_YEAR"),
            about="APPROX" in _text(one, "TYPE_OF_DATE").upper(),
        )
        for one in node.findall("INDIVIDUAL_DATE_OF_BIRTH")
    ]
    return _entry(
        _text(node, "REFERENCE_NUMBER") or _text(node, "DATAID"),
        is_person=person,
        names=[_joined(node, parts), _text(node, "NAME_ORIGINAL_SCRIPT"), *others],
        births=[each for found in births for each in found],
        countries=[
            *_texts(node, "NATIONALITY/VALUE"),
            *([] if person else _texts(node, "ENTITY_ADDRESS/COUNTRY")),
        ],
    )


def _ofac(node: Element) -> Entry | None:
    kind = _text(node, "sdnType")
    if kind not in {"Individual", "Entity"}:
        return None
    parts = ("firstName", "lastName")
    births = _texts(node, "dateOfBirthList/dateOfBirthItem/dateOfBirth")
    places = [
        "nationalityList/nationality/country",
        "citizenshipList/citizenship/country",
    ]
    if kind == "Entity":
        places = ["addressList/address/country"]
    return _entry(
        _text(node, "uid"),
        is_person=kind == "Individual",
        names=[
            _joined(node, parts),
            *(_joined(aka, parts) for aka in node.findall("akaList/aka")),
        ],
        births=[each for text in births for each in birth_dates(text)],
        countries=[each for place in places for each in _texts(node, place)],
    )


def _uk(node: Element) -> Entry | None:
    kind = _text(node, "IndividualEntityShip").casefold()
    if kind not in {"individual", "entity"}:
        return None
    parts = tuple(f"Name{nth}" for nth in range(1, 7))
    births = _texts(node, "IndividualDetails/Individual/DOBs/DOB")
    person = "IndividualDetails/Individual/Nationalities/Nationality"
    place = person if kind == "individual" else "Addresses/Address/AddressCountry"
    listed = node.findall("Names/Name")
    # Findings show the first name, so the primary name comes first.
    listed.sort(key=lambda one: _text(one, "NameType").casefold() != "primary name")
    return _entry(
        _text(node, "UniqueID"),
        is_person=kind == "individual",
        names=[
            *(_joined(one, parts) for one in listed),
            *_texts(node, "NonLatinNames/NonLatinName/NameNonLatinScript"),
        ],
        births=[each for text in births for each in birth_dates(text)],
        countries=_texts(node, place),
    )


def _eu(node: Element) -> Entry | None:
    kinds = node.findall("subjectType")
    word = kinds[0].get("code", "") if kinds else ""
    if word not in {"person", "enterprise"}:
        return None
    births = [
        birth_dates(
            one.get("birthdate") or one.get("year"),
            first=one.get("yearRangeFrom"),
            last=one.get("yearRangeTo"),
            about=one.get("circa") == "true",
        )
        for one in node.findall("birthdate")
    ]
    place = "citizenship" if word == "person" else "address"
    parts = ("firstName", "middleName", "lastName")
    return _entry(
        node.get("euReferenceNumber") or node.get("logicalId") or "",
        is_person=word == "person",
        names=[
            one.get("wholeName") or " ".join(one.get(part, "") for part in parts)
            for one in node.findall("nameAlias")
        ],
        births=[each for found in births for each in found],
        countries=[one.get("countryIso2Code", "") for one in node.findall(place)],
    )


FORMATS = {
    ListName.UN: Format(
        "CONSOLIDATED_LIST",
        frozenset({"INDIVIDUAL", "ENTITY"}),
        _un,
        namespace=re.compile(r"^$|un\.org"),
        least=400,
        published="dateGenerated",
    ),
    ListName.OFAC: Format(
        "sdnList",
        frozenset({"sdnEntry"}),
        _ofac,
        namespace=re.compile(r"ofac|sdnList"),
        least=7_000,
        published="Publish_Date",
        count="Record_Count",
    ),
    ListName.UK: Format(
        "Designations",
        frozenset({"Designation"}),
        _uk,
        namespace=re.compile(r"^$|gov\.uk"),
        least=1_500,
        published="DateGenerated",
        is_day_first=True,
    ),
    ListName.EU: Format(
        "export",
        frozenset({"sanctionEntity"}),
        _eu,
        namespace=re.compile(r"europa"),
        least=2_000,
        published="generationDate",
    ),
}


def _entry(
    reference: str, *, is_person: bool, names: list[str], **more: list[str]
) -> Entry | None:
    """Make the entry, or return None if it has no name to search for."""
    plain = [" ".join(name.split())[:300] for name in names]
    unique = list(dict.fromkeys(name for name in plain if name))
    if not unique:
        return None
    return Entry(
        reference[:60] or "?",
        EntryKind.PERSON if is_person else EntryKind.COMPANY,
        unique,
        list(dict.fromkeys(more["births"])),
        country_codes(more["countries"]),
    )


def _text(node: Element, path: str) -> str:
    return " ".join((node.findtext(path) or "").split())


def _texts(node: Element, path: str) -> list[str]:
    found = [" ".join((each.text or "").split()) for each in node.findall(path)]
    return [text for text in found if text]


def _joined(node: Element, parts: tuple[str, ...]) -> str:
    return " ".join(filter(None, (_text(node, part) for part in parts)))
