import pytest

from tests.fakes.africastalking import sms_gateway as sms_gateway
from tests.fakes.smtp import mail_server as mail_server
from tests.world.logs import log_lines as log_lines


@pytest.fixture
def no_attachments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verification.notifications.templates.ATTACHMENTS", {})
