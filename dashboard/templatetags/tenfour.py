"""Template tags and filters for icons, states, times and durations."""

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cache, lru_cache
from html import escape
from typing import Any

from django import template
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from dashboard.actions import list_allowed
from dashboard.agents.presence import describe_counts, trip_badge
from dashboard.charts import dependencies
from dashboard.completion.lists import LISTS
from dashboard.escalations.calls.call import Segment
from dashboard.frame import toasts
from dashboard.frame.access import describe_missing, may_use
from dashboard.frame.navigation import Scope, querystring
from dashboard.lists import query_box
from dashboard.notifications.sentences import Part
from dashboard.patterns import queries as pattern_queries
from dashboard.plans import rows as plan_rows
from dashboard.sentences import tasks as sentences_tasks
from dashboard.sessions.inline_text import render_inline
from dashboard.settings_column import ColumnGroup, list_groups
from dashboard.tasks import attempt_dots
from dashboard.wording import badges, formatting
from dashboard.wording.status_text import StatusText
from ledger.models import Attempt, Failure, Instruction, Project
from ledger.search_words import PART
from ledger.states import InstructionState, proof_of
from retries.escalations.message import describe_status
from retries.failures.fixes import suggestions
from retries.failures.grouping import split_at_headline
from retries.verbs import instructions as instruction_verbs
from retries.verbs.verb import Verb

register = template.Library()

register.filter("duration", formatting.duration)
register.filter("whole_duration", formatting.whole_duration)
register.filter("latency", formatting.latency)
register.filter("percent", formatting.percent_text)
register.filter("monogram", formatting.monogram)
register.filter("initials", formatting.initials)
register.filter("capped", formatting.capped)
register.filter("trip_badge", trip_badge)
register.filter("describe_counts", describe_counts)
register.filter("instruction_verbs", lambda row: list_allowed(instruction_verbs.PAGE, row))
register.filter("toast_links", toasts.read_links)
register.filter("key_of", dependencies.key_of)
register.filter("split_marks", pattern_queries.split_marks)
register.filter("wordy", describe_status)
register.filter("suggested", suggestions.suggest)
register.filter("inline", render_inline)
register.filter("params_of", Scope.params_of)
register.filter("may_use", may_use)
register.simple_tag(querystring, takes_context=True)


@register.simple_tag(takes_context=True)
def page_link(context: template.Context, page: str, id: object, text: object) -> SafeString:
    """Render a link to a row's page that keeps the chosen project."""
    url = f"{reverse(f'dashboard:{page}', args=[id])}{context['shell'].scope.query}"
    return format_html('<a class="link" href="{}"><bdi>{}</bdi></a>', url, text)


@register.filter
def answer_or_open(request: HttpRequest) -> str:
    """Return the text of a link to an open escalation for this person."""
    return "Answer" if may_use(request, "escalation_answer") else "Open"


@register.simple_tag(takes_context=True)
def read_only(context: template.Context, *names: str) -> SafeString | str:
    """Render one line about the forbidden actions of a page, and who can change that."""
    missing = describe_missing(context["request"].user, names)
    form = '<p class="dim read-only" id="read-only">{}<span>{}</span></p>'
    return format_html(form, icon("info", "ic--sm"), missing) if missing else ""


@register.simple_tag(takes_context=True)
def settings_column(context: template.Context) -> list[ColumnGroup]:
    """Return the groups of the column beside the settings."""
    return list_groups(context["request"], context["shell"].scope, now=context["now"])


@register.simple_tag
def sentence(parts: Iterable[Part]) -> SafeString:
    """Render the parts of a rule's sentence, with what the rule decides in bold."""
    shown = (("<b><bdi>{}</bdi></b>" if part.is_strong else "{}", part.text) for part in parts)
    return SafeString("".join(format_html(form, text) for form, text in shown))


LINK = re.compile(r"\[([^]\[]+)\]\([^)(]+\)")


@register.filter
def ticked(text: str) -> SafeString:
    """Render the text between backticks as code, and links by their words."""
    parts = enumerate(conditional_escape(part) for part in LINK.sub(r"\1", text).split("`"))
    return SafeString("".join(f"<code>{part}</code>" if n % 2 else part for n, part in parts))


@register.simple_tag
def marked_output(output: str, failure: Failure) -> SafeString:
    """Render a failure's output; the line that its headline comes from is marked."""
    before, line, after = split_at_headline(output, failure)
    rest = format_html('<mark dir="auto">{}</mark><bdi>{}</bdi>', line, after) if line else ""
    return format_html("<bdi>{}</bdi>{}", before, rest)


@register.simple_tag
def segments(parts: Iterable[Segment]) -> SafeString:
    """Render the pieces of a text, those with a CSS class marked."""
    shown = (
        format_html('<mark class="{}">{}</mark>', each.css, each.text)
        if each.css
        else conditional_escape(each.text)
        for each in parts
    )
    return SafeString("".join(shown))


@register.simple_tag
def marked(text: object, words: Iterable[str]) -> SafeString:
    """Render a text with the places marked where a word of it begins with one of `words`."""
    if not words:
        return conditional_escape(str(text))
    # the search takes everything but letters and digits as a space, and so an underscore
    parts = "|".join(filter(None, (r"[\W_]+".join(PART.findall(word)) for word in words)))
    if not parts:
        return conditional_escape(str(text))
    split = re.split(rf"((?<![^\W_])(?:{parts}))", str(text), flags=re.IGNORECASE)
    pairs = (("<mark>{}</mark>" if n % 2 else "{}", part) for n, part in enumerate(split))
    return SafeString("".join(format_html(form, part) for form, part in pairs))


@register.simple_tag
@cache
def icon(name: str, css: str = "", *, label: str = "") -> SafeString:
    """Render a symbol of icons.svg, hidden from screen readers unless it has a label."""
    said = format_html('role="img" aria-label="{}"', label) if label else 'aria-hidden="true"'
    return format_html(
        '<svg class="{}" {}><use href="{}#{}"/></svg>',
        f"ic {css}".strip(),
        SafeString(said),
        static("tenfour/icons.svg"),
        name,
    )


@register.simple_tag
@cache
def stylesheets(*names: str) -> SafeString:
    """Render links to stylesheets, in the order of their precedence."""
    links = ((static(f"tenfour/css/{name}.css"),) for name in names)
    return format_html_join("\n  ", '<link rel="stylesheet" href="{}">', links)


@register.simple_tag
@cache
def shortcut(label: str, *keys: str) -> SafeString:
    """Render a line of the keyboard shortcuts."""
    return format_html("<div><dt>{}</dt><dd>{}</dd></div>", label, render_keys(keys))


@register.simple_tag
@cache
def key_hints(*hints: str) -> SafeString:
    """Render hints such as "G,T all tasks": keys with commas between them, and what they do."""
    return SafeString("\n      ".join(render_hint(*hint.split(" ", 1)) for hint in hints))


def render_hint(keys: str, does: str) -> SafeString:
    return format_html("<span>{} {}</span>", render_keys(keys.split(",")), does)


def render_keys(keys: Iterable[str]) -> SafeString:
    signs = ((icon("enter", label=key) if key == "Enter" else key,) for key in keys)
    return format_html_join("", '<kbd class="kbd">{}</kbd>', signs)


def register_badge(name: str, find: Callable[[str], badges.Badge]) -> None:
    """Register a tag that renders a state as its icon and its label."""

    @cache
    def render(state: str) -> SafeString:
        badge = find(state)
        sign = icon(badge.icon)
        return format_html('<span class="st {}">{}{}</span>', badge.css, sign, badge.label)

    register.simple_tag(render, name=name)


for name, find in {
    "state": badges.state_badge,
    "task_state": badges.task_badge,
    "delivery_state": badges.delivery_badge,
    "plan_state": badges.plan_badge,
    "rule_state": badges.rule_badge,
    "pattern_state": badges.pattern_badge,
    "session_state": badges.session_badge,
    "batch_state": badges.batch_badge,
}.items():
    register_badge(name, find)


@register.simple_tag
@cache
def proof_chip(state: str, proof: str | None) -> SafeString | str:
    """Render what a done task rests on; nothing for another task."""
    found = proof_of(state, proof)
    if found is None:
        return ""
    badge = badges.proof_badge(found)
    css = f"chip {badge.css}".strip()
    return format_html('<span class="{}">{}{}</span>', css, icon(badge.icon), badge.label)


@register.simple_tag
@cache
def failure_type(name: str) -> SafeString:
    return format_html('<span class="chip">{}{}</span>', icon(badges.failure_icon(name)), name)


@register.simple_tag
@cache
def failure_sign(name: str) -> SafeString:
    return icon(badges.failure_icon(name), label=name)


@register.filter
def took(attempt: Attempt) -> timedelta:
    """Return the duration of an ended attempt."""
    return (attempt.ended_at or attempt.started_at) - attempt.started_at


@register.simple_tag
def pips(task: Any) -> SafeString:
    """Render a task's attempts as a row of dots and as numbers; `task` has `outcomes`."""
    dots = "".join(
        f'<i class="{css}"></i>' if css else "<i></i>" for css in attempt_dots.attempt_dots(task)
    )
    return SafeString(
        f'<span class="pips" aria-hidden="true">{dots}</span><span class="num">'
        f'<span class="vh">attempt </span>{task.attempts}/{task.attempt_limit}</span>'
    )


@register.simple_tag
def progress_bar(bar: Any) -> SafeString:
    """Render a plan's tasks by state as parts of a bar."""
    parts = "".join(
        f'<rect class="p-{part.state}" x="{part.x}%" width="{part.width}%" height="100%"/>'
        for part in bar.segments
    )
    return SafeString(
        f'<svg class="progress" role="img" aria-label="{escape(bar.summary)}"'
        f' data-tip="{escape(bar.tip)}">'
        f'<rect class="p-rest" width="100%" height="100%"/>{parts}</svg>'
    )


@register.simple_tag
def state_counts(counts: Iterable[Any]) -> SafeString:
    """Render the number of tasks in each state, with the state's icon."""
    return SafeString(
        "".join(
            f'<span class="st {each.css}" title="{each.label}">{icon(each.icon)}'
            f'<span class="num">{each.n}</span><span class="vh"> {each.label}</span></span>\n'
            for each in counts
        )
    )


@register.simple_tag
@lru_cache(1_000)
def agent_name(name: str, plain: bool = False) -> SafeString:
    return format_html(
        '<span class="agent{}">\n  <span class="agent__mono" aria-hidden="true">{}</span>\n'
        "  <bdi{}>{}</bdi>\n</span>",
        " agent--plain" if plain else "",
        formatting.monogram(name),
        SafeString(' class="trunc"') if plain else "",
        name,
    )


@register.simple_tag
def monograms(names: Iterable[str]) -> SafeString:
    """Render the squares of agents side by side."""
    said = ((escape(name), escape(formatting.monogram(name))) for name in names)
    return SafeString(
        "".join(
            f'<span class="agent__mono agent__mono--row" title="{name}" role="img"'
            f' aria-label="{name}">{letters}</span>'
            for name, letters in said
        )
    )


@register.simple_tag(takes_context=True)
def status_text(context: template.Context, status: StatusText) -> SafeString:
    """Render a status in the last column of a list, with its bar, its countdown or its age."""
    text = escape(status.text)
    if status.bar is not None:
        css = ' class="w"' if status.slow else ""
        return SafeString(
            '<span class="lat"><svg width="64" height="6" aria-hidden="true">'
            '<rect class="t" width="64" height="6" rx="1"/>'
            f'<rect{css} width="{status.bar}" height="6" rx="1"/></svg> '
            f'<span class="num">{text}</span></span>'
        )
    sign = f"{icon(status.icon)} " if status.icon else ""
    if status.countdown is not None:
        left = formatting.whole_duration(status.countdown)
        number = f'<span class="num" data-countdown="{status.countdown}">{left}</span>'
        text = f"<span>{text} {number}</span>"
    if status.since is not None:
        text = f"<span>{text} {running_since(status.since, context['now'])}</span>"
    return SafeString(f'<span class="{status.css}">{sign}{text}</span>')


@register.simple_tag
def urgency(row: Instruction, *, worded: bool = False) -> SafeString:
    """Render the urgency of the last delivery and the number of retries."""
    badge = badges.urgency_badge(row.retry_count, gave_up=row.state == InstructionState.FAILED)
    if row.retry_count == 0:
        said = format_html('<span class="{}">{}</span>', "" if worded else "vh", badge.label)
    else:
        said = format_html(
            '{} <span class="mute num">{}/{}</span>', badge.label, row.retry_count, row.max_retries
        )
    return format_html('<span class="urg {}">{}{}</span>', badge.css, icon(badge.icon), said)


@register.simple_tag
def urgency_level(level: int) -> SafeString:
    """Render the heading of a level of urgency."""
    badge = badges.urgency_badge(level)
    return format_html('<span class="rung__t">{}{}</span>', icon(badge.icon), badge.label)


@register.simple_tag
def moment(at: datetime | None, now: datetime) -> SafeString | str:
    """Render a time, which times.js converts to the reader's time zone."""
    if at is None:
        return "–"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(timespec="milliseconds"),
        f"{localtime(at):%Y-%m-%d %H:%M:%S %Z}",
        formatting.clock_time(localtime(at), now=localtime(now)),
    )


@register.simple_tag
def log_moment(at: datetime, now: datetime) -> SafeString:
    """Render a time of the log, to the millisecond."""
    return format_html(
        '<time datetime="{}" data-log title="{}">{}</time>',
        at.isoformat(timespec="milliseconds"),
        f"{localtime(at):%Y-%m-%d %H:%M:%S %Z}",
        formatting.log_time(localtime(at), now=localtime(now)),
    )


@register.filter
def requires_reason(verb: Verb, project: Project) -> bool:
    return verb.name in project.reason_verbs


@register.filter
def short(id: Any) -> str:
    """Return the end of an id, as ids of the same time begin alike."""
    return f"…{str(id)[-8:]}"


@register.filter
def short_of(ref: str, plan: str) -> str:
    return dependencies.short_of(ref, plan=plan)


@register.simple_tag
def needs(needed: Iterable[plan_rows.NeedLabel], query: str) -> SafeString:
    """Render a task's needs as links.

    A template would take longer for a large plan's needs than for the rest of its page.
    """
    tasks, query = reverse("dashboard:tasks"), escape(query)
    made = []
    for each in needed:
        css = f' class="{each.css}"' if each.css else ""
        said = f'title="{escape(each.tip)}"{css}><bdi>{escape(each.label)}</bdi>'
        made.append(
            f'<a href="{tasks}{each.id}/{query}" {said}</a>' if each.id else f"<span {said}</span>"
        )
    return SafeString(", ".join(made))


@register.filter
def count(number: int) -> str:
    return f"{number:,}"


@register.filter
def capped(number: int) -> str:
    """Format a number that was counted up to 10,000."""
    return formatting.capped(number)


@register.filter
def pretty(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)


@register.filter
def waited_since(at: datetime, now: datetime) -> SafeString:
    """Render how long something has waited; times.js keeps it current."""
    return render_age(at, "wait", formatting.wait_duration((now - at).total_seconds()))


@register.filter
def rough_since(at: datetime, now: datetime) -> SafeString:
    """Render an age with one unit; times.js keeps it current."""
    return render_age(at, "rough", formatting.rough_duration((now - at).total_seconds()))


@register.filter
def running_since(at: datetime, now: datetime) -> SafeString:
    """Render how long something has run; times.js keeps it current."""
    return render_age(at, "whole", formatting.whole_duration((now - at).total_seconds()))


def render_age(at: datetime, style: str, text: str) -> SafeString:
    # no part of it needs to be escaped
    return SafeString(
        f'<time datetime="{at.isoformat(timespec="milliseconds")}" data-age="{style}"'
        f' title="{at.replace(microsecond=0, tzinfo=None)} UTC">{text}</time>'
    )


@register.filter
def rough_until(at: datetime, end: datetime) -> str:
    """Format the time from one event to another with one unit."""
    return formatting.rough_duration((end - at).total_seconds())


@register.filter
def because(reason: str) -> str:
    """Return why a task is blocked or escalated, as a clause."""
    return sentences_tasks.describe_reason({"reason": reason})


@register.simple_tag
def term(key: str, value: str, query: query_box.BoxQuery | None = None) -> str:
    """Return the query for one value, or `query` narrowed to it."""
    found = query_box.term(key, value)
    return query.having(key, found) if query else found


@register.simple_tag
def query_keys(noun: str) -> str:
    """Return the keys of a list's query box, for its completion."""
    return " ".join(LISTS[noun].keys)


@register.filter
def counted(number: int, nouns: str) -> str:
    """Format a number with its noun: `{{ n|counted:"retry,retries" }}` gives "3 retries"."""
    one, _, many = nouns.partition(",")
    return formatting.counted(number, one, many)
