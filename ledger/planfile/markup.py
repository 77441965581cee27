"""Plans in XML, and in Markdown with tasks as XML, strict or as they are written by hand (pure).

Strict XML is read first. Most plans in the wild are not well-formed (`List<T>`, `a && b`), so what
fails is scanned by lines: a task's tags stand at the beginnings of lines, and fenced code is code.
"""

import html
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as safe

from ledger.errors import Invalid
from ledger.planfile.canonical import DEFAULTS, SEQUENTIAL
from ledger.planfile.model import MOST_TASKS, PLAN_REF, TASK_REF, TITLE_LENGTH
from ledger.planfile.values import Found, read_yaml_text

FENCE = re.compile(r"\s*(```|~~~)")
TASK = re.compile(r"\s*<task(\s[^<>]*)?>\s*$")
TASK_END = re.compile(r"\s*</task>\s*$")
# Every repeat here is bounded, or ends at the end of its line: hostile text costs no more time.
ATTRIBUTE = re.compile(r"""(?<![\w:.-])([\w:.-]{1,64})\s{0,8}=\s{0,8}(?:"([^"]*)"|'([^']*)')""")
FORBIDDEN = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.I)
FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)
HEADING = re.compile(r"^# {1,8}(\S[^\n]{0,400})", re.M)
FENCED = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)", re.S | re.M)
TICKED = re.compile(r"`([^`\n]+)`")
NUMBERED = re.compile(r"([0-9][0-9A-Za-z.]*)-([0-9][0-9A-Za-z.]*)(?:-.*)?")
PARTS = (
    *("name", "title", "files", "action", "verify", "done", "needs", "context", "read_first"),
    *("acceptance_criteria", "decision", "what-built", "how-to-verify", "instructions"),
    *("options", "resume-signal", "behavior", "implementation", "question", "agent"),
)
CHILD = re.compile(rf"\s*<({'|'.join(PARTS)})((?:\s[^<>]*)?)>")
# how the parts of a task are called in the canonical form; several may make up one
NAMES = {
    "name": "title",
    "decision": "question",
    "what-built": "question",
    "how-to-verify": "action",
    "instructions": "action",
    "resume-signal": "resume_signal",
    "read_first": "context",
    "acceptance_criteria": "done",
}
MOST_PARTS = 200
MOST_OPTIONS = 50
OPTION_LENGTH = 4000
WHOLE = ("priority", "max_attempts", "lease_s", "timeout_s")
PLAN_ATTRIBUTES = ("ref", "title", "order", *DEFAULTS)


@dataclass(frozen=True, slots=True)
class Node:
    """A tag with its attributes and all that stands between its ends, as text."""

    tag: str
    attributes: Mapping[str, str]
    inner: str

    @property
    def text(self) -> str:
        return textwrap.dedent(self.inner.strip("\n")).strip()


@dataclass(slots=True)
class Marked:
    """The tasks of a text, each with its parts, and what to tell about how they were read."""

    tasks: list[tuple[Node, list[Node]]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_xml(text: str) -> Found:
    """`<plan ref=…><title/><objective/><tasks><task id=… needs="task-1 02-05:task-2">…`."""
    refuse_doctype(text.splitlines())
    head: dict[str, Any] = {}
    try:
        root = parsed(text)
        marked = Marked(tasks_in(root))
        head = {name: value for name, value in root.attrib.items() if name in PLAN_ATTRIBUTES}
        head["needs"] = (
            (root.get("needs") or root.findtext("needs") or "").replace(",", " ").split()
        )
        for name in ("title", "objective"):
            if (found := root.findtext(name)) is not None:
                head[name] = textwrap.dedent(found).strip()
    except (ParseError, RecursionError) as error:
        lines = text.splitlines()
        marked = scanned(lines)
        marked.warnings.insert(0, not_strict(error))
        opening = re.search(r"<plan\b([^<>]*)>", text)
        found_in = attributes(opening[1]) if opening else {}
        head = {name: value for name, value in found_in.items() if name in PLAN_ATTRIBUTES}
        first, last = section(lines)
        own = "\n".join([*lines[:first], *lines[last:]])  # what its tasks say is not its own
        told = {
            name: unescaped(found)
            for name in ("title", "objective", "needs")
            if (found := between(own, f"<{name}>", f"</{name}>")) is not None
        }
        needs = found_in.get("needs") or told.pop("needs", "")
        head |= {name: textwrap.dedent(each).strip() for name, each in told.items()}
        head["needs"] = needs.replace(",", " ").split()
    return found_of(head, marked)


def read_markdown(text: str) -> Found:
    """Front matter in YAML, then prose with `<task>`s in it."""
    front = FRONT.match(text)
    head, warnings = head_of(front[1]) if front else ({}, [])
    body = text[front.end() :] if front else text
    before = text[: len(text) - len(body)].count("\n")
    lines = body.splitlines()
    refuse_doctype(lines, skipped=before)
    if heading := HEADING.search(body):
        head.setdefault("title", heading[1].rstrip(" #")[:TITLE_LENGTH])
    if (objective := between(body, "<objective>", "</objective>")) is not None:
        head.setdefault("objective", textwrap.dedent(objective).strip())
    first, last = section(lines)
    try:
        marked = Marked(tasks_in(parsed("\n".join(["<tasks>", *lines[first:last], "</tasks>"]))))
    except (ParseError, RecursionError) as error:
        marked = scanned(lines[first:last])
        marked.warnings.insert(0, not_strict(error, skipped=before + first - 1))
    marked.warnings += warnings
    return found_of(head, marked)


def found_of(head: dict[str, Any], marked: Marked) -> Found:
    if not marked.tasks:
        raise Invalid(
            "/tasks", "There is no task in it: each begins with <task …> on a line alone."
        )
    for name in (*WHOLE, "wave"):
        if isinstance(head.get(name), str) and re.fullmatch(r"-?[0-9]{1,9}", head[name]):
            head[name] = int(head[name])
    names = {
        node.attributes["id"]: f"task-{n + 1}"
        for n, (node, _) in enumerate(marked.tasks)
        if not own_ref(node.attributes.get("id", "task-1"))
    }
    tasks = [task_of(node, parts, names, marked.warnings) for node, parts in marked.tasks]
    return Found(head | {"tasks": tasks}, SEQUENTIAL, tuple(dict.fromkeys(marked.warnings)))


def not_strict(error: Exception, *, skipped: int = 0) -> str:
    line = f" in line {error.position[0] + skipped}" if isinstance(error, ParseError) else ""
    return f"It is not well-formed XML{line}: it was read by its lines. Look at what was found."


# ---- strict


def parsed(text: str) -> Element:
    try:
        root: Element = safe.fromstring(text, forbid_dtd=True)
    except DefusedXmlException as error:
        raise Invalid("", "A plan has no DOCTYPE and no entities of its own.") from error
    except ValueError as error:  # a declared encoding, in a text
        if isinstance(error, ParseError):
            raise
        raise Invalid("", f"The plan can't be read as XML: {error}") from error
    return root


def tasks_in(root: Element) -> list[tuple[Node, list[Node]]]:
    return [
        (Node("task", task.attrib, ""), [Node(part.tag, part.attrib, inner(part)) for part in task])
        for task in root.iter("task")
    ]


def inner(element: Element) -> str:
    """What stands between the tags, with the tags that stand there."""
    parts = [element.text or ""]
    for child in element:
        said = "".join(f' {name}="{value}"' for name, value in child.attrib.items())
        parts += [f"<{child.tag}{said}>", inner(child), f"</{child.tag}>", child.tail or ""]
    return "".join(parts)


# ---- by lines


def refuse_doctype(lines: Sequence[str], *, skipped: int = 0) -> None:
    fenced = fences(lines)
    for n, line in enumerate(lines):
        if not fenced[n] and FORBIDDEN.search(line):
            at = skipped + n + 1
            raise Invalid("", f"A plan has no DOCTYPE and no entities of its own: line {at}.")


def fences(lines: Sequence[str]) -> list[bool]:
    """Which lines are fenced code, the fences among them."""
    inside, found = "", []
    for line in lines:
        fence = FENCE.match(line)
        found.append(bool(inside or fence))
        if fence and (not inside or fence[1] == inside):
            inside = "" if inside else fence[1]
    return found


def section(lines: Sequence[str]) -> tuple[int, int]:
    """Where the lines between `<tasks>` and `</tasks>` begin and end; all where there are none."""
    fenced = fences(lines)
    plain = [(n, line.strip()) for n, line in enumerate(lines) if not fenced[n]]
    first = next((n + 1 for n, line in plain if line == "<tasks>"), 0)
    last = next((n for n, line in reversed(plain) if line == "</tasks>"), len(lines))
    if not first:
        first = next((n for n, line in plain if TASK.match(line)), 0)
        ends = [n + 1 for n, line in plain if TASK_END.match(line)]
        last = ends[-1] if ends else len(lines)
    return first, max(first, last)


def scanned(lines: Sequence[str]) -> Marked:
    """The tasks whose tags stand on lines alone, and their parts."""
    fenced, marked = fences(lines), Marked()
    starts = [n for n, line in enumerate(lines) if not fenced[n] and TASK.match(line)]
    if len(starts) > MOST_TASKS:
        raise Invalid("/tasks", f"A plan has 1 to {MOST_TASKS} tasks; this one has {len(starts)}.")
    for start, following in pairwise([*starts, len(lines)]):
        ends = [n for n in range(start, following) if not fenced[n] and TASK_END.match(lines[n])]
        opening = TASK.match(lines[start])
        said = attributes(opening[1] or "") if opening else {}
        end = ends[-1] if ends else following
        parts = parts_in(lines[start + 1 : end], fenced[start + 1 : end])
        marked.tasks.append((Node("task", said, ""), parts))
    return marked


def parts_in(lines: Sequence[str], fenced: Sequence[bool]) -> list[Node]:
    """The known parts of a task: each ends with its last end tag before the next one begins."""
    openings = {
        n: found for n, line in enumerate(lines) if not fenced[n] and (found := CHILD.match(line))
    }
    if len(openings) > MOST_PARTS:
        raise Invalid("/tasks", f"A task has at most {MOST_PARTS} parts.")
    nodes, at = [], 0
    while (start := next((n for n in openings if n >= at), None)) is not None:
        opening = openings[start]
        end, closing = last_line(lines, fenced, start, f"</{opening[1]}>", openings)
        text = "\n".join(lines[start : end + 1])[opening.end() :].rstrip()
        text = text[: -len(closing)] if text.endswith(closing) and closing else text
        nodes.append(Node(opening[1], attributes(opening[2]), unescaped(text)))
        at = end + 1
    return nodes


def last_line(
    lines: Sequence[str], fenced: Sequence[bool], start: int, closing: str, openings: Iterable[int]
) -> tuple[int, str]:
    """Where a part ends, and with what: an end tag that something new follows, or the next part."""
    known = set(openings)
    ends = [
        n for n in range(start, len(lines)) if not fenced[n] and lines[n].rstrip().endswith(closing)
    ]
    for n in ends:
        after = next((m for m in range(n + 1, len(lines)) if lines[m].strip()), len(lines))
        if after == len(lines) or after in known:
            return n, closing
    if ends:
        return ends[-1], closing
    following = next((n for n in sorted(known) if n > start), len(lines))
    return following - 1, ""


def unescaped(text: str) -> str:
    """As XML would read it: CDATA as it is, the rest with its entities resolved."""
    plain, opening, rest = text.partition("<![CDATA[")
    parts = [html.unescape(plain)]
    while opening:
        quoted, _, rest = rest.partition("]]>")
        plain, opening, rest = rest.partition("<![CDATA[")
        parts += [quoted, html.unescape(plain)]
    return "".join(parts)


def between(text: str, opening: str, closing: str) -> str | None:
    """What stands between the first two of these; None where they do not stand there."""
    _, found, rest = text.partition(opening)
    inside, ended, _ = rest.partition(closing)
    return inside if found and ended else None


def attributes(text: str) -> dict[str, str]:
    return {
        name: html.unescape(double or single) for name, double, single in ATTRIBUTE.findall(text)
    }


# ---- what it means


def head_of(front: str) -> tuple[dict[str, Any], list[str]]:
    """The plan's own values from its front matter, and what could not be read of it."""
    values, texts = read_yaml_text(front)
    if not isinstance(values, dict):
        raise Invalid("", "The front matter is a list of 'name: value'.")
    named = (*PLAN_ATTRIBUTES, "objective", "wave")
    head = {name: values[name] for name in named if values.get(name) is not None}
    phase = str(texts.get("phase", ""))
    if "ref" in texts or "plan" in texts:
        head["ref"] = str(texts.get("ref") or ref_of(str(texts["plan"]), phase))
    needs, warnings = [], []
    for name in ("needs", "depends_on"):
        asked = texts.get(name) or []
        for need in [asked] if isinstance(asked, str) else asked:
            ref = str(need).strip() if ":" in str(need) else ref_of(str(need), phase)
            if ":" in ref or PLAN_REF.fullmatch(ref):
                needs.append(ref)
            else:
                warnings.append(f"It does not wait for '{str(need)[:80]}': that names no plan.")
    return head | {"needs": needs}, warnings


def ref_of(text: str, phase: str) -> str:
    """The ref of a plan as front matter has it: `01` of phase `03-ids`, `03-01`, `03-01-setup`.

    >>> ref_of("01", "03-ids"), ref_of("02-05-errors", "03-ids"), ref_of("ids-01-setup", "ids")
    ('03-01', '02-05', 'ids-01')
    """
    text = text.strip().removesuffix(".md").removesuffix("-PLAN")
    if phase and text.startswith(f"{phase}-"):
        text = text[len(phase) + 1 :].partition("-")[0]
    elif found := NUMBERED.fullmatch(text):
        return f"{found[1]}-{found[2]}"
    numbered = re.match(r"[0-9][0-9A-Za-z.]*", phase)
    short = numbered[0] if numbered else re.sub(r"[^A-Za-z0-9.]+", ".", phase)
    return f"{short}-{text}" if short else text


def own_ref(id: str) -> bool:
    """Whether an id is a ref as ours are; another one stands for the task's place."""
    return id.isdigit() or TASK_REF.fullmatch(id.rpartition(":")[2]) is not None


def task_of(
    node: Node, parts: Sequence[Node], names: Mapping[str, str], warnings: list[str]
) -> dict[str, Any]:
    """The canonical form of one task; what it does not know goes into the payload.

    `names` are the refs for ids of another form.
    """
    task: dict[str, Any] = {}
    payload: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if name == "ref" or (name == "id" and own_ref(value)):
            task["ref"] = f"task-{value}" if value.isdigit() else value
        elif name == "needs":
            task["needs"] = value.replace(",", " ").split()
        elif name in ("type", "agent", "title", "on_exhausted"):
            task[name] = value
        elif name in WHOLE and value.isdigit():
            task[name] = int(value)
        else:
            payload[name] = value
    for part in parts:
        name = NAMES.get(part.tag, part.tag)
        if name == "verify":
            task["verify"] = verify_of(part)
        elif name == "options":
            task["options"] = options_of(part.inner)
        elif name in ("files", "needs"):
            task[name] = [*task.get(name, []), *words(part.text)]
        elif name in ("done", "context"):
            task[name] = [*task.get(name, []), *bullets(part.text)]
        elif name in ("title", "agent"):
            task[name] = " ".join(part.text.split())
        elif name in ("action", "question", "resume_signal"):
            task[name] = "\n\n".join(filter(None, [task.get(name), part.text]))
        else:
            payload[name] = part.text
    if not task.get("title") and (asked := first_line(task)):
        task["title"] = asked
    if "needs" in task:
        task["needs"] = [names.get(need, need) for need in task["needs"]]
    if len(task.get("title", "")) > TITLE_LENGTH:
        warnings.append(f"A title was cut: '{task['title'][:40]}…'.")
        task["title"] = task["title"][: TITLE_LENGTH - 1] + "…"
    return task | ({"payload": payload} if payload else {})


def first_line(task: Mapping[str, Any]) -> str:
    """What a task without a name asks, or has done: checkpoints as they are written have none."""
    text = task.get("question") or task.get("action") or ""
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1]}…"


def verify_of(part: Node) -> dict[str, Any]:
    """How a task is proved. A command in prose is only proposed: nobody has said to run it."""
    declared = part.attributes.get("command", "")
    if (found := between(part.inner, "<automated>", "</automated>")) is not None:
        declared = declared or textwrap.dedent(found).strip()
    text = re.sub(r"</?automated>", "", part.text)
    verify: dict[str, Any] = {"text": text} if text and text != declared else {}
    if declared:
        return verify | {"command": declared}
    fenced, ticked = FENCED.findall(text), TICKED.findall(text)
    if len(fenced) == 1:
        return verify | proposed(textwrap.dedent(fenced[0]).strip())
    if not fenced and len(ticked) == 1 and "\n" not in text:
        return verify | proposed(ticked[0])
    return verify


def proposed(command: str) -> dict[str, str]:
    return {"proposed_command": command, "source": "proposed"} if command else {}


def options_of(text: str) -> list[dict[str, str]]:
    options = []
    for each in text.split("<option")[1 : MOST_OPTIONS + 1]:
        said, _, rest = each.partition(">")
        body = rest.partition("</option>")[0][:OPTION_LENGTH]
        parts = dict(re.findall(r"<(name|pros|cons|description)>(.*?)</\1>", body, re.S))
        title = " ".join(parts.get("name", body if not parts else "").split())
        name = attributes(said).get("id") or title
        about = [
            f"{word}{' '.join(parts[part].split())}"
            for part, word in (("description", ""), ("pros", "For: "), ("cons", "Against: "))
            if parts.get(part, "").strip()
        ]
        options.append({"name": name, "title": title, "description": " ".join(about)})
    return [{key: value for key, value in each.items() if value} for each in options]


def words(text: str) -> list[str]:
    """Paths, with commas or on lines."""
    return [word.strip().removeprefix("- ") for word in re.split(r"[,\n]", text) if word.strip()]


def bullets(text: str) -> list[str]:
    """The points of a list, or the text as one."""
    lines = [line for line in text.splitlines() if line.strip()]
    if all(re.match(r"\s*[-*] ", line) for line in lines):
        return [line.strip()[2:].strip() for line in lines]
    return [text] if text else []
