import pytest

from verification.watchlists.matching import keys_of, names_score, plain, weigh

LISTED = ["Abdalla Testi MFANO", "Abu Testi"]
# What is stated, and how like the entry above it is: at least, at most.
PEOPLE = [
    ("Abdalla Testi Mfano", 1.0, 1.0),
    ("MFANO, Abdalla Testi", 1.0, 1.0),
    ("Mr. Ábdalla bin Testi al-Mfano", 0.95, 1.0),
    ("Abdallah Testy Mfano", 0.9, 1.0),
    ("Abdala Testi Mfanno", 0.9, 1.0),
    ("Abdalla Mfano", 0.9, 0.96),
    ("Abdalla Testi Mfano Juma Hassan", 0.8, 0.95),
    ("A. Testi Mfano", 0.7, 0.95),
    ("A. Mfano", 0.0, 0.69),
    ("Abu Testi", 1.0, 1.0),
    # Others: one name of several, or two of four.
    ("Abdalla", 0.0, 0.65),
    ("Abdalla Hassan Juma", 0.0, 0.65),
    ("Jane Wanjiku Kamau", 0.0, 0.3),
    ("Otieno Odhiambo", 0.0, 0.3),
]


@pytest.mark.parametrize(("stated", "least", "most"), PEOPLE)
def test_how_like_a_persons_name_is(stated, least, most):
    score = names_score(stated, plain(LISTED, is_company=False), is_company=False)

    assert least <= score <= most


@pytest.mark.parametrize(
    ("stated", "least", "most"),
    [
        ("Mfano Shipping Limited", 1.0, 1.0),
        ("Shipping Mfano Co. Ltd", 1.0, 1.0),
        ("Mfanno Shiping Ltd", 0.85, 1.0),
        ("Mfano Hardware Ltd", 0.0, 0.69),
        ("Acacia Tea Limited", 0.0, 0.5),
    ],
)
def test_how_like_a_companys_name_is(stated, least, most):
    score = names_score(
        stated, plain(["MFANO SHIPPING LLC"], is_company=True), is_company=True
    )

    assert least <= score <= most


@pytest.mark.parametrize(
    ("birth", "births", "expected"),
    [
        (None, ["1971-01-02"], 0.9),
        ("1971-01-02", [], 0.9),
        ("1971-01-02", ["1971-01-02"], 1.0),
        ("1971-05-06", ["1971-01-02"], 0.9),
        ("1971-05-06", ["1971"], 0.9),
        ("1962-05-06", ["1960/1965"], 0.9),
        ("1972-05-06", ["1971"], 0.765),
        ("1966-05-06", ["1960/1965"], 0.765),
        ("1990-05-06", ["1971", "1960/1965"], 0.54),
        ("1990-05-06", ["1971", "1990"], 0.9),
    ],
)
def test_what_a_date_of_birth_adds_and_takes(birth, births, expected):
    score = weigh(0.9, birth=birth, births=births, country=None, countries=[])

    assert score == pytest.approx(expected)


@pytest.mark.parametrize(
    ("country", "countries", "expected"),
    [
        ("KE", [], 0.9),
        (None, ["SO"], 0.9),
        ("KE", ["SO", "KE"], 0.9),
        ("KE", ["SO"], 0.85),
    ],
)
def test_another_country_takes_a_little(country, countries, expected):
    score = weigh(0.9, birth=None, births=[], country=country, countries=countries)

    assert score == pytest.approx(expected)


@pytest.mark.parametrize("stated", [row[0] for row in PEOPLE if row[1] >= 0.7])
def test_whatever_is_like_an_entry_is_found_by_its_keys(stated):
    ours, theirs = (
        keys_of([stated], is_company=False),
        keys_of(LISTED, is_company=False),
    )

    assert set(ours) & set(theirs)
