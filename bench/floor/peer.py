"""Serve the floor's endpoint with FastAPI and asyncpg in three statements, without Tenfour."""

import contextlib
import hashlib
import os
from collections.abc import AsyncIterator

import asyncpg
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

from bench.floor import sql

bearer = HTTPBearer()


class AckIn(BaseModel):
    id: int
    outcome: str = "done"


class AckOut(BaseModel):
    id: int
    attempt: int
    state: str


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=4, max_size=8) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan, openapi_url=None)


@app.post("/ack")
async def ack(body: AckIn, token: HTTPAuthorizationCredentials = Depends(bearer)) -> AckOut:  # noqa: B008
    digest = hashlib.sha256(token.credentials.encode()).hexdigest()
    async with app.state.pool.acquire() as conn:
        who = await conn.fetchrow(sql.AUTH, digest)
        if who is None:
            raise HTTPException(401)
        async with conn.transaction():
            task = await conn.fetchrow(sql.UPDATE, body.id)
            if task is None:
                raise HTTPException(409)
            await conn.execute(sql.HISTORY, body.id, who["name"])
    return AckOut(id=task["id"], attempt=task["attempt"], state="done")
