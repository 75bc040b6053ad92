import re
import subprocess
import sys

from django.conf import settings

PAGE = (settings.BASE_DIR / "docs" / "configuration.md").read_text()
READ_BY = [
    "settings.py",
    "secret_settings.py",
    "mail_settings.py",
    "payment_settings.py",
    "source_settings.py",
    "document_settings.py",
    "embedded.py",
    "serving.py",
]


def test_every_variable_that_is_read_is_documented():
    names = set()
    for name in READ_BY:
        code = (settings.BASE_DIR / "verification" / name).read_text()
        names |= set(
            re.findall(
                r'(?:env\.\w+|environ\.get|_read|optional_secret)\(\s*"([A-Z_]+)"', code
            )
        )

    assert len(names) > 12
    assert {name for name in names if f"`{name}`" not in PAGE} == set()


def test_the_commands_that_make_secrets_make_usable_ones():
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
