"""Serve the floor's endpoint with bare Django and ninja, in one prepared statement."""

import hashlib
from typing import Any

from django.db import connection
from django.http import HttpRequest
from django.urls import path
from ninja import NinjaAPI, Schema
from ninja.errors import HttpError
from ninja.security import HttpBearer

from bench.floor import sql


class AckIn(Schema):
    id: int
    outcome: str = "done"


class AckOut(Schema):
    id: int
    attempt: int
    state: str


class Digest(HttpBearer):
    """Hash the token; the endpoint's statement looks it up."""

    def authenticate(self, request: HttpRequest, token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()


api = NinjaAPI(docs_url=None, openapi_url=None)


@api.post("/ack", auth=Digest(), response=AckOut)
def ack(request: Any, body: AckIn) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql.ACK, [request.auth, body.id])
        row = cursor.fetchone()
    if row is None:
        raise HttpError(409, "not claimed")
    return {"id": row[0], "attempt": row[1], "state": "done"}


urlpatterns = [path("", api.urls)]
