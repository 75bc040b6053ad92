from __future__ import annotations

from django.db import models


class BooksCompared(models.Model):
    """Up to which day, in UTC, a provider's books were compared with ours."""

    provider = models.CharField(max_length=20, primary_key=True)
    day = models.DateField()

    def __str__(self) -> str:
        return f"{self.provider} up to {self.day}"
