from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

KEEP = """
UPDATE payments_checkout SET doubts = ARRAY[doubt] WHERE doubt <> ''
"""
KEPT_BEFORE = """
UPDATE payments_checkout SET doubt = coalesce(doubts[1], '')
"""


class Migration(migrations.Migration):
    dependencies = [("payments", "0004_looked_at")]

    operations = [
        migrations.AddField(
            model_name="checkout",
            name="doubts",
            field=ArrayField(
                base_field=models.CharField(
                    choices=[
                        (
                            "OTHER_AMOUNT",
                            "Another amount or currency was paid than asked",
                        ),
                        ("CONTRADICTED", "The provider now says that it is not paid"),
                        ("DISPUTED", "The payer disputes it at their bank"),
                        ("REFUND_FAILED", "Money could not be given back"),
                        ("BOOKS_DIFFER", "The provider's books say something else"),
                    ],
                    max_length=20,
                ),
                blank=True,
                default=list,
                size=None,
            ),
        ),
        migrations.RunSQL(KEEP, KEPT_BEFORE),
        migrations.RemoveIndex(model_name="checkout", name="doubts"),
        migrations.RemoveField(model_name="checkout", name="doubt"),
        migrations.AddIndex(
            model_name="checkout",
            index=models.Index(
                condition=models.Q(("doubts", []), _negated=True),
                fields=["id"],
                name="doubts",
            ),
        ),
        migrations.AddIndex(
            model_name="checkout",
            index=models.Index(
                condition=models.Q(("transaction", ""), _negated=True),
                fields=["provider", "transaction"],
                name="checkouts_by_transaction",
            ),
        ),
    ]
