"""Complete the query box of a list: the values of a key that begin with what is typed."""

from django.http import Http404, JsonResponse

from dashboard.completion.lists import LISTS, find_source
from dashboard.completion.sources import SHOWN, Typed, list_examples
from dashboard.form_values import read_whole_number
from dashboard.frame.access import may_open
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists import query_box, query_syntax


def complete(request: HtmxRequest, noun: str) -> JsonResponse:
    """Return up to eight values of a key, each with its number of rows if the list counts them."""
    listed = LISTS.get(noun)
    if listed is None or not may_open(request.user, listed.place):
        raise Http404(f"There is no list “{noun[:20]}”.")
    typed = Typed(
        key=request.GET.get("key", "").lower(),
        prefix=query_box.clean(request.GET.get("prefix", "")).replace('"', ""),
        text=read_rest(request),
        project=requested_project(request),
        person=request.user,
    )
    if typed.key not in listed.keys:
        return JsonResponse({"options": []})
    source = find_source(listed, typed.key) or list_examples
    return JsonResponse({"options": source(typed)[:SHOWN]})


def read_rest(request: HtmxRequest) -> str:
    """Return the terms that a row of the typed value must fit, too."""
    text = request.GET.get("q", "")[: query_box.MAX_CHARACTERS]
    at = read_whole_number(request.GET.get("at", ""))
    return query_syntax.read_beside(text, at) if at is not None else text
