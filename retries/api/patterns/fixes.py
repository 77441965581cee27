"""The fixes of failure patterns over HTTP: everyone but agents reads, people judge them."""

from uuid import UUID

from django.http import HttpResponse
from ninja import Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.responses import json_response
from retries.api.escalations import PersonAuth
from retries.api.patterns.pattern import find_pattern
from retries.failures.fixes import reading as fixes
from retries.failures.fixes import verdicts as fix_verdicts
from retries.schemas.pattern_fixes import FixList, FixOut, JudgeIn
from retries.states import Verdict

router = Router(tags=["patterns"])


@router.get("/patterns/{id}/fixes", auth=PrincipalAuth("events:read"), response=FixList)
def patterns_list_fixes(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """List the fixes that people gave for a pattern's failures, with how often they worked."""
    found = fixes.list_learned_fixes(find_pattern(request, id).pk)
    return json_response({"data": [FixOut.write(each) for each in found]})


@router.post(
    "/patterns/{id}/fixes/promote", auth=PersonAuth("escalations:resolve"), response=FixOut
)
def patterns_promote_fix(request: PrincipalRequest, id: UUID, body: JudgeIn) -> HttpResponse:
    """Promote a fix: the next attempts after such failures get it, whatever its counts."""
    return judge_response(request, id, body, Verdict.PROMOTED)


@router.post("/patterns/{id}/fixes/retire", auth=PersonAuth("escalations:resolve"), response=FixOut)
def patterns_retire_fix(request: PrincipalRequest, id: UUID, body: JudgeIn) -> HttpResponse:
    """Retire a fix: it is no longer offered, and attempts no longer get it."""
    return judge_response(request, id, body, Verdict.RETIRED)


@router.post("/patterns/{id}/fixes/reset", auth=PersonAuth("escalations:resolve"), response=FixOut)
def patterns_reset_fix(request: PrincipalRequest, id: UUID, body: JudgeIn) -> HttpResponse:
    """Take back a person's verdict about a fix; its counts decide again."""
    return judge_response(request, id, body, None)


def judge_response(
    request: PrincipalRequest, id: UUID, body: JudgeIn, verdict: Verdict | None
) -> HttpResponse:
    found = fix_verdicts.judge(
        find_pattern(request, id),
        signature=body.signature,
        key=body.key,
        verdict=verdict,
        note=body.note,
        stamp=stamp_of(request),
    )
    return json_response(FixOut.write(found))
