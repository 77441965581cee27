"""Sign the bodies of webhooks as Standard Webhooks defines it (pure)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sign(body: bytes, *, message_id: str, timestamp: int, secret: str) -> str:
    """Return one signature: `v1,` and the HMAC of id, timestamp and body.

    >>> sign(b"{}", message_id="evt-1", timestamp=1, secret="whsec_c2VjcmV0")
    'v1,KFIuAHWS6UE32pANmDrPOgJYbzGUKMyNe2E/XM1t4X0='
    """
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def headers_of(
    body: bytes, *, message_id: str, timestamp: int, signing_secrets: Iterable[str]
) -> dict[str, str]:
    signatures = (
        sign(body, message_id=message_id, timestamp=timestamp, secret=secret)
        for secret in signing_secrets
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
