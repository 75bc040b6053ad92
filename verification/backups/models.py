from django.db import models

from verification.values.clock import now


class Backup(models.Model):
    """A backup that `manage.py backup` completed, for figures and checks."""

    made_at = models.DateTimeField(default=now, editable=False, db_index=True)
    rows = models.PositiveBigIntegerField()
    seconds = models.FloatField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.rows} rows, {self.made_at:%Y-%m-%d %H:%M}"


class RestoreDrill(models.Model):
    """A restore drill that began; one that was killed has not succeeded."""

    made_at = models.DateTimeField(default=now, editable=False, db_index=True)
    succeeded = models.BooleanField(default=False)
    seconds = models.FloatField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        ended = "succeeded" if self.succeeded else "did not succeed"
        return f"{self.made_at:%Y-%m-%d %H:%M} {ended}"
