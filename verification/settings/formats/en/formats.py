"""English as Kiswahili has it: by the settings. Django's own formats have no label."""

from django.conf import settings

DATE_FORMAT = settings.DATE_FORMAT
TIME_FORMAT = settings.TIME_FORMAT
DATETIME_FORMAT = settings.DATETIME_FORMAT
SHORT_DATETIME_FORMAT = settings.SHORT_DATETIME_FORMAT
