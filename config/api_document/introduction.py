"""The introduction of the API's description, in Markdown."""

INTRODUCTION = """\
Tenfour is the reliability ledger for AI agents' work: instructions that are tracked until an agent
acknowledges them, tasks that end in a known state, and questions that people answer.

`GET /v1/guide` explains in one page how an agent works with this API.

## Authentication

Send `Authorization: Bearer <token>` with every request. A token belongs to one project and has a
kind: `agent` works on its own queue, `orchestrator` sends instructions, tasks, and plans,
`operator` also answers for people, and `reader` only reads. `x-required-scopes` lists the scope
that each operation requires; `GET /v1/me` lists the scopes of your token. What a token may not see
answers 404.

## Errors

Every error is an `application/problem+json` object (RFC 9457). Match `code`: each operation lists
its codes in `x-error-codes`, and `/problems/{code}` explains one. `retryable` says whether the same
request may succeed later, `hint` says what to do, and `errors` lists the invalid values with JSON
pointers. `429` and `503` have a `Retry-After` header. Unknown fields and query parameters are
refused with 422.

## Pages

Lists take `limit` (1 to 100) and return `data`, `has_more`, and `next_cursor`. Send `next_cursor`
as `cursor`, with the same filters, to get the next page. The newest row comes first, except for a
task's events.

## Idempotency

Operations marked `x-idempotent` take an `Idempotency-Key` header. A repeated request with the same
key within 24 hours gets the stored response with `Idempotency-Replayed: true`, and takes effect
only once. A key that is sent with another request is refused with `idempotency_key_reused`. Other
operations are safe to repeat: a claim with a `worker_id` returns the attempt that the worker still
holds, and a report is recognized by its attempt and body.

## Concurrency

Tasks, plans, and escalations have a `version` and an `ETag`. `PATCH` on a task or plan requires
the header `If-Match` with the ETag that you read; another version answers 412, and you decide
again.

## Times and numbers

Times are RFC 3339 in UTC with milliseconds. Fields that end in `_s` are seconds and those that end
in `_ms` are milliseconds. Clients must accept unknown fields and unknown values of `code` and
`reason`.
"""
