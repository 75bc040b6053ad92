import json
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from verification.development.demo import demo_workspace, require_embedded_server
from verification.development.local_pages import OWNER, STAFF, login_url, make_person
from workspaces import keys
from workspaces.models import Environment, Workspace


class Command(BaseCommand):
    help = 'Makes the demo workspace; prints {"key", "ownerUrl", "staffUrl"}.'

    def handle(self, *args: Any, **options: Any) -> None:
        require_embedded_server()
        make_person(STAFF, name="Demo staff", username="admin")
        workspace = demo_workspace()
        links = {
            "key": _key_of(workspace),
            "ownerUrl": login_url(OWNER),
            "staffUrl": login_url(STAFF),
        }
        self.stdout.write(json.dumps(links))


def _key_of(workspace: Workspace) -> str:
    """Return the demo's test key, from a file, because the service shows a key once."""
    path = settings.DATA_DIR / "demo_key"
    key = path.read_text() if path.exists() else ""
    if keys.find(key) is None:
        _row, key = keys.issue(
            workspace, environment=Environment.SANDBOX, name=workspace.name
        )
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(key)
    return key
