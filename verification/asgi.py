"""What the web server serves: Django behind the gate."""

from verification.wsgi import application as django

# Django is set up by the import above.
from verification.web.gateway import Gateway  # isort: skip

application = Gateway(django)
