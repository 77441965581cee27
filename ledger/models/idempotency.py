"""Stored responses by Idempotency-Key."""

from django.db import models

from ledger.models.token import Token


class IdempotencyKey(models.Model):
    """Written in the transaction of the request, so that both exist or neither."""

    id = models.BigAutoField(primary_key=True)
    token = models.ForeignKey(Token, models.CASCADE, db_index=False)
    key = models.CharField(max_length=255)
    fingerprint = models.BinaryField(max_length=32)
    status = models.SmallIntegerField(null=True)
    body = models.TextField(default="")
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token", "key"], name="idempotency_key_unique"),
        ]

    def __str__(self) -> str:
        return self.key
