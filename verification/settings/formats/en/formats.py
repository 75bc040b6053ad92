"""Date formats for English, from the settings.

Kiswahili uses these settings too, because Django has no formats for it.
"""

from django.conf import settings

DATE_FORMAT = settings.DATE_FORMAT
TIME_FORMAT = settings.TIME_FORMAT
DATETIME_FORMAT = settings.DATETIME_FORMAT
SHORT_DATETIME_FORMAT = settings.SHORT_DATETIME_FORMAT
