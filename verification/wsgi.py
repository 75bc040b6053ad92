import gc
import os
from importlib import import_module

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from verification import tracing

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "verification.settings")

application = get_wsgi_application()
# Load all views before the first request.
import_module(settings.ROOT_URLCONF)
tracing.preload()

# Loaded modules stay, so the garbage collector does not need to scan them again.
gc.collect()
gc.freeze()
