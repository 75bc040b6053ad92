import gc
import os
from importlib import import_module

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "verification.settings")

application = get_wsgi_application()
# Here, and not in the first request.
import_module(settings.ROOT_URLCONF)

# What is loaded by now stays: the collector need not look through it again.
gc.collect()
gc.freeze()
