"""Show what an attempt has printed: as text, and for a script the pieces that are new."""

from uuid import UUID

from django.http import Http404, HttpResponse, JsonResponse

from dashboard.form_values import read_whole_number
from dashboard.frame.access import TEXT
from dashboard.frame.rendering import HtmxRequest, wants_part
from ledger.models import Attempt
from retries.live_output.storing import join_pieces, next_place, read_all, read_output


def read(request: HtmxRequest, task_id: UUID, number: int) -> HttpResponse:
    rows = Attempt.objects.filter(task_id=task_id, number=number)
    attempt = rows.only("ended_at", "last_output").first()
    if attempt is None:
        raise Http404(f"The task {task_id} has no attempt {number}.")
    if wants_part(request):
        start = read_whole_number(request.GET.get("from", ""), digits=15) or 0
        size = read_whole_number(request.GET.get("size", ""), digits=15) or 0
        pieces = read_output(attempt.pk, start=start)
        # Printed bytes change no more, so the page has a text whose place and size it names.
        known = [(start, size)] if size else []
        if attempt.ended_at is None and [(piece.at, piece.size) for piece in pieces] == known:
            return HttpResponse(status=204)
        body = {
            "data": [piece._asdict() for piece in pieces],
            "next": next_place(pieces, start=start),
            "is_live": attempt.ended_at is None,
        }
        return JsonResponse(body)
    text = join_pieces(read_all(attempt.pk)) or attempt.last_output
    response = HttpResponse(text, content_type=TEXT)
    if "download" in request.GET:
        name = f"attempt-{number}-of-{str(task_id)[-8:]}.txt"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
