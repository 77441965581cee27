"""Read plans from XML, and from Markdown that contains tasks as XML (pure).

Strict XML is tried first. Most plans in the wild are not well-formed (`List<T>`, `a && b`), so
`markup_scanner` reads line by line whatever the XML parser rejects.
"""

import re
import textwrap
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as safe

from ledger.errors import BadRequest, Invalid
from ledger.planfile.canonical import SEQUENTIAL
from ledger.planfile.fences import mask_fences
from ledger.planfile.front_matter import (
    ONE_PLAN,
    PLAN_ATTRIBUTES,
    names_plan,
    read_front_matter,
    refuse_second_plan,
    split_front_matter,
)
from ledger.planfile.markup_scanner import (
    MOST_PARTS,
    NO_DOCTYPE,
    TASK_START,
    Node,
    TaskElement,
    TaskMarkup,
    mask_code,
    parse_attributes,
    refuse_doctype,
    scan_tasks,
    text_between,
    unescape,
)
from ledger.planfile.model import TASK_REF, TITLE_LENGTH, LineErrors, shorten_title
from ledger.planfile.outline.lines import read_item
from ledger.planfile.outline.parsing import NO_TASKS, read_outline
from ledger.planfile.task_lists import describe_lines
from ledger.planfile.values import RawPlan, normalize_breaks
from ledger.planfile.verification import describe_verification
from ledger.values.text import truncate

HEADING = re.compile(r"^# {1,8}(\S[^\n]{0,400})", re.M)
# A task's tags -> names in the canonical form; several tags may fill one name.
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
NEEDS = ("needs", "depends_on", "depends-on", "dependencies")
TEXTS = (
    "ref",
    "id",
    "type",
    "agent",
    "title",
    "on_exhausted",
    "evidence",
    "retry_on",
    "not_before",
    "budget",
)
NO_REF = ("none", "n/a", "-", "—")
PLAN_ELEMENTS = ("title", "objective", "needs", "depends_on")
BOOLEANS = {"true": True, "false": False}
PLAN_START = re.compile(r"<plan\b([^<>]{0,4000})>", re.I)
AUTOMATED = re.compile(r"</?automated\s{0,20}>", re.I)
INTEGER = re.compile(r"-?[0-9]{1,9}")
MOST_OPTIONS = 50
OPTION_LENGTH = 4000
INTEGERS = ("priority", "max_attempts", "lease_s", "timeout_s")


def read_xml(text: str) -> RawPlan:
    """Read `<plan ref=…><title/><objective/><tasks><task id=… needs="task-1 02-05:task-2">…`."""
    text = normalize_breaks(text)
    refuse_doctype(text.split("\n"))
    warnings = []
    try:
        root = parse_xml(text)
        if (markup := find_tasks(root)) is not None:
            return assemble_plan(read_plan_element(root), markup)
    except (ParseError, RecursionError) as error:
        warnings.append(malformed_warning(error))
    markup = scan_tasks(text)
    markup.warnings = warnings + markup.warnings
    return assemble_plan(scan_plan_element(text, markup), markup)


def read_plan_element(root: Element) -> dict[str, Any]:
    attributes = {local_name(name): value for name, value in root.attrib.items()}
    elements = {
        name: textwrap.dedent(each.text or "").strip()
        for each in reversed(root)
        if (name := local_name(each.tag)) in PLAN_ELEMENTS
    }
    return build_header(attributes, elements)


def scan_plan_element(text: str, markup: TaskMarkup) -> dict[str, Any]:
    opening = PLAN_START.search(text)
    if opening and (second := PLAN_START.search(text, opening.end())):
        line = text.count("\n", 0, second.start()) + 1
        raise Invalid("", f"Line {line} begins a second plan. {ONE_PLAN}")
    # Leave the tasks out: their titles are not the plan's.
    starts = [0, *(task.end for task in markup.tasks)]
    ends = [*(task.start for task in markup.tasks), len(text)]
    outside = "".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    elements = {
        name: textwrap.dedent(unescape(value)).strip()
        for name in PLAN_ELEMENTS
        if (value := text_between(outside, f"<{name}>", f"</{name}>")) is not None
    }
    return build_header(parse_attributes(opening[1]) if opening else {}, elements)


def build_header(attributes: Mapping[str, str], elements: Mapping[str, str]) -> dict[str, Any]:
    header: dict[str, Any] = {
        name: value for name, value in attributes.items() if name in PLAN_ATTRIBUTES
    }
    header |= {name: elements[name] for name in ("title", "objective") if name in elements}
    header["needs"] = [
        ref
        for name in ("needs", "depends_on")
        for ref in split_refs(attributes.get(name) or elements.get(name, ""))
    ]
    return header


def read_markdown(text: str) -> RawPlan:
    """Read YAML front matter, then prose with `<task>` elements, headings, or a checklist."""
    text = normalize_breaks(text)
    front, body = split_front_matter(text)
    header: dict[str, Any] = {}
    warnings: list[str] = []
    if front:
        try:
            header, warnings = read_front_matter(front)
        except (BadRequest, Invalid):
            if names_plan(front):
                raise
            # Two rules across the page, or another tool's notes.
            body, warnings = text, ["The lines between the first two '---' were read as text."]
    before = text[: len(text) - len(body)].count("\n")
    lines = body.split("\n")
    refuse_second_plan(lines, before)
    masked = mask_code(body)
    if heading := HEADING.search(masked):
        title = body[heading.start(1) : heading.end()]
        header.setdefault("title", shorten_title(title.rstrip(" #")))
    if (objective := text_between(body, "<objective>", "</objective>")) is not None:
        header.setdefault("objective", textwrap.dedent(objective).strip())
    if not TASK_START.search(masked):
        return read_outline(lines, header=header, warnings=warnings, skipped=before)
    refuse_doctype(lines, skipped=before)
    markup = scan_tasks(body, skipped=before)
    markup.warnings = check_well_formed(body, markup) + markup.warnings
    if items := find_items_outside(lines, markup, before):
        markup.warnings.append(f"Not imported, outside of the tasks: {describe_lines(items)}.")
    markup.warnings += warnings
    return assemble_plan(header, markup)


def find_items_outside(lines: Sequence[str], markup: TaskMarkup, skipped: int) -> list[int]:
    fenced = mask_fences(lines)
    found, at = [], 0
    tasks = deque(markup.tasks)
    for n, line in enumerate(lines):
        while tasks and tasks[0].end <= at:
            tasks.popleft()
        is_inside = bool(tasks) and tasks[0].start <= at
        item = None if is_inside or fenced[n] else read_item(line)
        if item and item.text and not item.is_done:
            found.append(skipped + n + 1)
        at += len(line) + 1
    return found


def check_well_formed(body: str, markup: TaskMarkup) -> list[str]:
    for task in markup.tasks:
        try:
            parse_xml(body[task.start : task.end])
        except (ParseError, RecursionError, Invalid) as error:
            return [malformed_warning(error, skipped=task.line - 1)]
    return []


def assemble_plan(header: dict[str, Any], markup: TaskMarkup) -> RawPlan:
    if not markup.tasks:
        raise Invalid("/tasks", NO_TASKS)
    for name in (*INTEGERS, "wave"):
        if isinstance(header.get(name), str) and INTEGER.fullmatch(header[name]):
            header[name] = int(header[name])
    if isinstance(exclusive := header.get("exclusive_files"), str):
        header["exclusive_files"] = BOOLEANS.get(exclusive.lower(), exclusive)
    errors, tasks = LineErrors(), []
    for n, element in enumerate(markup.tasks):
        tasks.append(read_task(element, markup.warnings))
        if not tasks[n].get("title"):
            place = f"/tasks/{n}/title"
            detail = "this task needs a title: <name>…</name> with text in it."
            if not element.line:
                raise Invalid(place, f"Task {n + 1}: {detail}")
            errors.add(element.line, detail)
    errors.check()
    return RawPlan(
        header | {"tasks": tasks},
        SEQUENTIAL,
        tuple(dict.fromkeys(markup.warnings)),
        lines=tuple(element.line for element in markup.tasks),
    )


def malformed_warning(error: Exception, *, skipped: int = 0) -> str:
    line = f" (line {error.position[0] + skipped})" if isinstance(error, ParseError) else ""
    return f"The file is not well-formed XML{line}; it was read line by line. Check the result."


# ---- well-formed XML


def parse_xml(text: str) -> Element:
    """Parse a document; raise Invalid for a DOCTYPE or entities, ParseError if malformed."""
    try:
        root: Element = safe.fromstring(text, forbid_dtd=True)
    except DefusedXmlException as error:
        raise Invalid("", f"{NO_DOCTYPE}.") from error
    except ValueError as error:  # for example an encoding declaration in text
        if isinstance(error, ParseError):
            raise
        raise Invalid("", f"The plan can't be parsed as XML: {error}") from error
    return root


def find_tasks(root: Element) -> TaskMarkup | None:
    """Return every `<task>` element, or None if a task contains another one."""
    markup = TaskMarkup()
    found = [each for each in root.iter() if local_name(each.tag) == "task"]
    for task in found:
        if sum(local_name(each.tag) == "task" for each in task.iter()) > 1:
            return None
        parts = []
        if len(task) > MOST_PARTS:
            raise Invalid("/tasks", f"A task must have at most {MOST_PARTS} parts.")
        for part in task:
            attributes = {local_name(name): value for name, value in part.attrib.items()}
            parts.append(Node(local_name(part.tag), attributes, inner_xml(part)))
        # Text outside of the parts is read as part of the action.
        for text in (task.text, *(part.tail for part in task)):
            if text and text.strip():
                parts.append(Node("action", {}, text))
        attributes = {local_name(name): value for name, value in task.attrib.items()}
        markup.tasks.append(TaskElement(attributes, parts))
    return markup


def local_name(tag: str) -> str:
    return tag.rpartition("}")[2].lower()


def inner_xml(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        attributes = "".join(f' {name}="{value}"' for name, value in child.attrib.items())
        parts += [f"<{child.tag}{attributes}>", inner_xml(child), f"</{child.tag}>"]
        parts.append(child.tail or "")
    return "".join(parts)


# ---- tasks


def read_task(element: TaskElement, warnings: list[str]) -> dict[str, Any]:
    # Unknown attributes and parts go into the payload.
    task: dict[str, Any] = {}
    payload: dict[str, Any] = {}
    for name, value in element.attributes.items():
        if name in NEEDS:
            task["needs"] = [*task.get("needs", []), *split_refs(value)]
        elif name in TEXTS:
            task[name] = value
            if name == "id" and not is_plain_id(value):
                payload[name] = value
        elif name in INTEGERS:
            task[name] = int(value) if INTEGER.fullmatch(value) else value
        elif name in ("idempotent", "non_retryable"):
            task[name] = BOOLEANS.get(value.lower(), value)
        else:
            payload[name] = value
    for part in element.parts:
        add_part(task, payload, part)
    if "title" not in task and (title := derive_title(task)):
        task["title"] = title
    if len(task.get("title", "")) > TITLE_LENGTH:
        task["title"] = shorten_title(task["title"])
        warnings.append(f"Shortened a title: '{truncate(task['title'], 40)}'.")
    return task | ({"payload": payload} if payload else {})


def is_plain_id(id: str) -> bool:
    return id.isdigit() or TASK_REF.fullmatch(id.rpartition(":")[2]) is not None


def add_part(task: dict[str, Any], payload: dict[str, Any], part: Node) -> None:
    # A part that occurs twice is added to, never replaced.
    name = NAMES.get(part.tag, part.tag)
    if name == "verify":
        task["verify"] = join_verifications(task.get("verify", {}), read_verify(part))
    elif name == "options":
        task["options"] = [*task.get("options", []), *read_options(part.inner)]
    elif name in NEEDS:
        task["needs"] = [*task.get("needs", []), *split_refs(part.text)]
    elif name == "files":
        task[name] = [*task.get(name, []), *split_paths(part.text)]
    elif name in ("done", "context"):
        task[name] = [*task.get(name, []), *split_bullets(part.text)]
    elif name in ("title", "agent", "type"):
        task[name] = " ".join([*task.get(name, "").split(), *part.text.split()])
    elif name in ("action", "question", "resume_signal"):
        task[name] = "\n\n".join(filter(None, [task.get(name), part.text]))
    else:
        payload[name] = "\n\n".join(filter(None, [payload.get(name), part.text]))


def derive_title(task: Mapping[str, Any]) -> str:
    # Hand-written checkpoints have no name, so the question or action gives the title.
    text = task.get("question") or task.get("action") or ""
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
    return shorten_title(line)


def read_verify(part: Node) -> dict[str, Any]:
    # Only an attribute or `<automated>` declares a command.
    pieces = AUTOMATED.split(part.inner)
    if len(pieces) % 2 == 0 or part.inner.count("</") < len(pieces) // 2:  # a tag is missing
        pieces = [part.inner]
    declared = [part.attributes.get("command", "").strip()]
    declared += [textwrap.dedent(piece).strip() for piece in pieces[1::2]]
    commands = list(filter(None, declared))
    text = textwrap.dedent("".join(pieces).strip("\n")).strip()
    if not commands:
        return describe_verification(text)
    return ({"text": text} if text not in ("", *commands) else {}) | {
        "command": commands[0] if len(commands) == 1 else " && ".join(f"({c})" for c in commands)
    }


def join_verifications(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    if not first:
        return dict(second)
    texts = [each["text"] for each in (first, second) if each.get("text")]
    commands = [each["command"] for each in (first, second) if each.get("command")]
    if not commands:
        return describe_verification("\n\n".join(texts))
    command = commands[0] if len(commands) == 1 else " && ".join(f"({c})" for c in commands)
    return ({"text": "\n\n".join(texts)} if texts else {}) | {"command": command}


def read_options(text: str) -> list[dict[str, str]]:
    options = []
    choices = text.split("<option")[1:]
    if len(choices) > MOST_OPTIONS:
        raise Invalid(
            "/tasks", f"A task must have at most {MOST_OPTIONS} options; one has {len(choices)}."
        )
    for each in choices:
        opening, _, rest = each.partition(">")
        body = rest.partition("</option>")[0][:OPTION_LENGTH]
        # reads at most OPTION_LENGTH characters
        parts = dict(re.findall(r"<(name|pros|cons|description)>(.*?)</\1>", body, re.S))
        title = " ".join(parts.get("name", body if not parts else "").split())
        name = parse_attributes(opening).get("id") or title
        about = [
            f"{label}{' '.join(parts[part].split())}"
            for part, label in (("description", ""), ("pros", "For: "), ("cons", "Against: "))
            if parts.get(part, "").strip()
        ]
        options.append({"name": name, "title": title, "description": " ".join(about)})
    return [{key: value for key, value in each.items() if value} for each in options]


def split_refs(text: str) -> list[str]:
    # A word for "none" is no ref.
    refs = [ref.removeprefix("- ") for ref in re.split(r"[,\n]", text)]
    words = [word for ref in refs for word in ref.split()]
    return [] if len(words) == 1 and words[0].lower() in NO_REF else words


def split_paths(text: str) -> list[str]:
    return [path.strip().removeprefix("- ") for path in re.split(r"[,\n]", text) if path.strip()]


def split_bullets(text: str) -> list[str]:
    # Text without bullets is one item.
    lines = [line for line in text.splitlines() if line.strip()]
    if all(re.match(r"\s*[-*] ", line) for line in lines):
        return [line.strip()[2:].strip() for line in lines]
    return [text] if text else []
