import re
import subprocess
import sys
from functools import cache

from django.conf import settings

from verification.settings.providers import checks_by_source

PAGE = (settings.BASE_DIR / "docs" / "operator" / "configuration.md").read_text()
ROWS = re.findall(r"^\| (`[A-Z].*?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
NAMES = [name for cell, _, _ in ROWS for name in re.findall(r"`([A-Z_0-9]+)`", cell)]
DOCUMENTED = set(NAMES)
READS = (
    r"env\.\w+|os\.environ\.get|_read|optional_secret|header_secret|_secret|_text"
    r"|one_line|web_address|_address|host_names?"
)
READS_SECRET = r"_read|optional_secret|header_secret|_secret"
# One for each source; `SOURCES_` is the beginning of a name.
LIMITS = ("AT_ONCE", "A_MINUTE", "PAID_AGAIN")
PER_SOURCE = re.compile(rf"\w+_({'|'.join(LIMITS)})|SOURCES_")


def test_page_documents_the_settings_that_the_code_reads():
    read = _found(READS)
    documented = {name for name in DOCUMENTED if not PER_SOURCE.fullmatch(name)}

    assert len(read) > 90
    assert documented == read


def test_page_documents_the_limits_of_all_sources():
    limits = {
        f"{name.upper()}_{limit}" for name in checks_by_source() for limit in LIMITS
    }
    documented = {name for name in DOCUMENTED if PER_SOURCE.fullmatch(name)}

    assert {name for name in limits if "PAID_AGAIN" not in name} < documented
    assert documented - limits == {"SOURCES_"}


def test_page_documents_each_setting_once_in_sentences():
    assert sorted(NAMES) == sorted(DOCUMENTED)
    assert [text for _, _, text in ROWS if not re.fullmatch(r"[A-Z].+[.]", text)] == []


def test_page_marks_the_secrets_that_files_can_hold():
    marked = {cell.split("`")[1] for cell, _, _ in ROWS if cell.endswith("*secret*")}

    assert marked == _found(READS_SECRET)


def _found(pattern: str) -> set[str]:
    """Return the names that the product's code gives to functions of this pattern."""
    return {name for called, name in _calls() if re.search(rf"\b({pattern})$", called)}


@cache
def _calls() -> set[tuple[str, str]]:
    """Return the calls with a name in capitals: what is called, and the name."""
    return {
        call
        for package in ("verification", "workspaces", "monitoring", "webhooks")
        for file in (settings.BASE_DIR / package).rglob("*.py")
        for call in re.findall(r'([\w.]+)\(\s*"([A-Z_0-9]+)"', file.read_text())
    }


def test_commands_make_usable_secrets():
    commands = re.findall(r'^python3 -c "(.*)" +# (\w+)$', PAGE, re.MULTILINE)

    made = {name: _printed(code) for code, name in commands}

    assert set(made) == {"SECRET_KEY", "FIELD_KEYS", "LOOKUP_KEY"}
    assert len(made["SECRET_KEY"]) >= 50
    assert re.fullmatch(r"k1:[A-Za-z0-9+/]{43}=", made["FIELD_KEYS"])
    assert re.fullmatch(r"[A-Za-z0-9+/]{43}=", made["LOOKUP_KEY"])


def _printed(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
