"""The ASGI application: Django behind the gateway."""

from verification.wsgi import application as django

# Django is set up by the import above.
from verification.web.bodies import (  # isort: skip
    calls_identity_provider,
    goes_first,
    limit_body,
)
from verification.web.gateway import Gateway  # isort: skip
from verification.web.middleware import refuse_briefly  # isort: skip
from verification.web.request_records import writer  # isort: skip

writer.serve()
application = Gateway(
    django,
    limit_body=limit_body,
    refuse_briefly=refuse_briefly,
    goes_first=goes_first,
    calls_identity_provider=calls_identity_provider,
)
