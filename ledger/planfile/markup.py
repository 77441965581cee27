"""Read plans from XML, and from Markdown that contains tasks as XML (pure).

Strict XML is tried first. Most plans in the wild are not well-formed (`List<T>`, `a && b`), so
`markup_scanner` reads line by line whatever the XML parser rejects.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as safe

from ledger.errors import Invalid
from ledger.planfile.canonical import DEFAULTS, SEQUENTIAL
from ledger.planfile.markup_scanner import (
    NO_DOCTYPE,
    Node,
    TaskMarkup,
    find_task_section,
    parse_attributes,
    refuse_doctype,
    scan_tasks,
    text_between,
    unescape,
)
from ledger.planfile.model import PLAN_REF, TASK_REF, TITLE_LENGTH
from ledger.planfile.values import RawPlan, read_front_values
from ledger.text import truncate

FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)
HEADING = re.compile(r"^# {1,8}(\S[^\n]{0,400})", re.M)
FENCED = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)", re.S | re.M)
TICKED = re.compile(r"`([^`\n]+)`")
NUMBERED = re.compile(r"([0-9][0-9A-Za-z.]*)-([0-9][0-9A-Za-z.]*)(?:-.*)?")
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
MOST_OPTIONS = 50
OPTION_LENGTH = 4000
INTEGERS = ("priority", "max_attempts", "lease_s", "timeout_s")
PLAN_ATTRIBUTES = ("ref", "title", "order", *DEFAULTS)


def read_xml(text: str) -> RawPlan:
    """Read `<plan ref=…><title/><objective/><tasks><task id=… needs="task-1 02-05:task-2">…`."""
    refuse_doctype(text.splitlines())
    try:
        root = parse_xml(text)
        return assemble_plan(read_plan_element(root), TaskMarkup(find_tasks(root)))
    except (ParseError, RecursionError) as error:
        markup = scan_tasks(text.splitlines())
        markup.warnings.insert(0, malformed_warning(error))
        return assemble_plan(scan_plan_element(text), markup)


def read_plan_element(root: Element) -> dict[str, Any]:
    """Return the plan's own values from a well-formed document."""
    header: dict[str, Any] = {
        name: value for name, value in root.attrib.items() if name in PLAN_ATTRIBUTES
    }
    needs = root.get("needs") or root.findtext("needs") or ""
    header["needs"] = needs.replace(",", " ").split()
    for name in ("title", "objective"):
        if (value := root.findtext(name)) is not None:
            header[name] = textwrap.dedent(value).strip()
    return header


def scan_plan_element(text: str) -> dict[str, Any]:
    """Return the plan's own values from a document that is not well-formed."""
    opening = re.search(r"<plan\b([^<>]*)>", text)
    attributes = parse_attributes(opening[1]) if opening else {}
    header: dict[str, Any] = {
        name: value for name, value in attributes.items() if name in PLAN_ATTRIBUTES
    }
    lines = text.splitlines()
    first, last = find_task_section(lines)
    # Leave the tasks out: their titles are not the plan's.
    outside = "\n".join([*lines[:first], *lines[last:]])
    elements = {
        name: textwrap.dedent(unescape(value)).strip()
        for name in ("title", "objective", "needs")
        if (value := text_between(outside, f"<{name}>", f"</{name}>")) is not None
    }
    needs = attributes.get("needs") or elements.pop("needs", "")
    return header | elements | {"needs": needs.replace(",", " ").split()}


def read_markdown(text: str) -> RawPlan:
    """Read YAML front matter, then prose that contains `<task>` elements."""
    front = FRONT.match(text)
    header, warnings = read_front_matter(front[1]) if front else ({}, [])
    body = text[front.end() :] if front else text
    before = text[: len(text) - len(body)].count("\n")
    lines = body.splitlines()
    refuse_doctype(lines, skipped=before)
    if heading := HEADING.search(body):
        header.setdefault("title", heading[1].rstrip(" #")[:TITLE_LENGTH])
    if (objective := text_between(body, "<objective>", "</objective>")) is not None:
        header.setdefault("objective", textwrap.dedent(objective).strip())
    first, last = find_task_section(lines)
    try:
        root = parse_xml("\n".join(["<tasks>", *lines[first:last], "</tasks>"]))
        markup = TaskMarkup(find_tasks(root))
    except (ParseError, RecursionError) as error:
        markup = scan_tasks(lines[first:last])
        markup.warnings.insert(0, malformed_warning(error, skipped=before + first - 1))
    markup.warnings += warnings
    return assemble_plan(header, markup)


def assemble_plan(header: dict[str, Any], markup: TaskMarkup) -> RawPlan:
    """Combine the plan's own values with its tasks; raise Invalid if there are no tasks."""
    if not markup.tasks:
        raise Invalid(
            "/tasks", "The plan has no tasks. Start each one with <task …> on a line of its own."
        )
    for name in (*INTEGERS, "wave"):
        if isinstance(header.get(name), str) and re.fullmatch(r"-?[0-9]{1,9}", header[name]):
            header[name] = int(header[name])
    names = {
        node.attributes["id"]: f"task-{n + 1}"
        for n, (node, _) in enumerate(markup.tasks)
        if not is_task_ref(node.attributes.get("id", "task-1"))
    }
    tasks = [read_task(node, parts, names, markup.warnings) for node, parts in markup.tasks]
    return RawPlan(header | {"tasks": tasks}, SEQUENTIAL, tuple(dict.fromkeys(markup.warnings)))


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


def find_tasks(root: Element) -> list[tuple[Node, list[Node]]]:
    """Return every `<task>` element with its child elements as nodes."""
    return [
        (
            Node("task", task.attrib, ""),
            [Node(part.tag, part.attrib, inner_xml(part)) for part in task],
        )
        for task in root.iter("task")
    ]


def inner_xml(element: Element) -> str:
    """Return an element's content as text, including its child tags."""
    parts = [element.text or ""]
    for child in element:
        attributes = "".join(f' {name}="{value}"' for name, value in child.attrib.items())
        parts += [f"<{child.tag}{attributes}>", inner_xml(child), f"</{child.tag}>"]
        parts.append(child.tail or "")
    return "".join(parts)


# ---- front matter


def read_front_matter(front: str) -> tuple[dict[str, Any], list[str]]:
    """Return the plan's own values, and warnings about the ones that were ignored."""
    values, texts = read_front_values(front)
    if not isinstance(values, dict):
        raise Invalid("", "Write the front matter as 'name: value' lines.")
    named = (*PLAN_ATTRIBUTES, "objective", "wave")
    header = {name: values[name] for name in named if values.get(name) is not None}
    phase = str(texts.get("phase", ""))
    if "ref" in texts or "plan" in texts:
        header["ref"] = str(texts.get("ref") or complete_plan_ref(str(texts["plan"]), phase))
    needs, warnings = [], []
    for name in ("needs", "depends_on"):
        value = texts.get(name) or []
        for need in [value] if isinstance(value, str) else value:
            text = str(need)
            ref = text.strip() if ":" in text else complete_plan_ref(text, phase)
            if ":" in ref or PLAN_REF.fullmatch(ref):
                needs.append(ref)
            else:
                warnings.append(f"Ignored the dependency '{text[:80]}': it is not a plan's ref.")
    return header | {"needs": needs}, warnings


def complete_plan_ref(text: str, phase: str) -> str:
    """Return a plan's full ref: `01` of phase `03-ids`, `03-01`, and `03-01-setup` are one plan.

    >>> complete_plan_ref("01", "03-ids"), complete_plan_ref("02-05-errors", "03-ids")
    ('03-01', '02-05')
    >>> complete_plan_ref("ids-01-setup", "ids")
    'ids-01'
    """
    text = text.strip().removesuffix(".md").removesuffix("-PLAN")
    if phase and text.startswith(f"{phase}-"):
        text = text[len(phase) + 1 :].partition("-")[0]
    elif numbered := NUMBERED.fullmatch(text):
        return f"{numbered[1]}-{numbered[2]}"
    number = re.match(r"[0-9][0-9A-Za-z.]*", phase)
    short = number[0] if number else re.sub(r"[^A-Za-z0-9.]+", ".", phase)
    return f"{short}-{text}" if short else text


# ---- tasks


def is_task_ref(id: str) -> bool:
    """Whether an id is a task's number or ref; any other id only names the task's position."""
    return id.isdigit() or TASK_REF.fullmatch(id.rpartition(":")[2]) is not None


def read_task(
    node: Node, parts: Sequence[Node], names: Mapping[str, str], warnings: list[str]
) -> dict[str, Any]:
    """Return one task in the canonical form; unknown attributes and parts go into the payload.

    `names` maps ids that are not refs to the refs of their tasks.
    """
    task: dict[str, Any] = {}
    payload: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if name == "ref" or (name == "id" and is_task_ref(value)):
            task["ref"] = f"task-{value}" if value.isdigit() else value
        elif name == "needs":
            task["needs"] = value.replace(",", " ").split()
        elif name in ("type", "agent", "title", "on_exhausted"):
            task[name] = value
        elif name in INTEGERS and value.isdigit():
            task[name] = int(value)
        else:
            payload[name] = value
    for part in parts:
        name = NAMES.get(part.tag, part.tag)
        if name == "verify":
            task["verify"] = read_verify(part)
        elif name == "options":
            task["options"] = read_options(part.inner)
        elif name in ("files", "needs"):
            task[name] = [*task.get(name, []), *split_paths(part.text)]
        elif name in ("done", "context"):
            task[name] = [*task.get(name, []), *split_bullets(part.text)]
        elif name in ("title", "agent"):
            task[name] = " ".join(part.text.split())
        elif name in ("action", "question", "resume_signal"):
            task[name] = "\n\n".join(filter(None, [task.get(name), part.text]))
        else:
            payload[name] = part.text
    if not task.get("title") and (title := derive_title(task)):
        task["title"] = title
    if "needs" in task:
        task["needs"] = [names.get(need, need) for need in task["needs"]]
    if len(task.get("title", "")) > TITLE_LENGTH:
        warnings.append(f"Shortened a title: '{truncate(task['title'], 40)}'.")
        task["title"] = truncate(task["title"], TITLE_LENGTH)
    return task | ({"payload": payload} if payload else {})


def derive_title(task: Mapping[str, Any]) -> str:
    """Return the first line of the question or action; hand-written checkpoints have no name."""
    text = task.get("question") or task.get("action") or ""
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
    return truncate(line, TITLE_LENGTH)


def read_verify(part: Node) -> dict[str, Any]:
    """Return how to verify a task.

    A command found in prose is only proposed: agents don't run it until a person confirms it.
    """
    declared = part.attributes.get("command", "")
    if (automated := text_between(part.inner, "<automated>", "</automated>")) is not None:
        declared = declared or textwrap.dedent(automated).strip()
    text = re.sub(r"</?automated>", "", part.text)
    verify: dict[str, Any] = {"text": text} if text and text != declared else {}
    if declared:
        return verify | {"command": declared}
    fenced, ticked = FENCED.findall(text), TICKED.findall(text)
    command = ""
    if len(fenced) == 1:
        command = textwrap.dedent(fenced[0]).strip()
    elif not fenced and len(ticked) == 1 and "\n" not in text:
        command = ticked[0]
    return verify | ({"proposed_command": command, "source": "proposed"} if command else {})


def read_options(text: str) -> list[dict[str, str]]:
    """Return the answers that a checkpoint offers."""
    options = []
    for each in text.split("<option")[1 : MOST_OPTIONS + 1]:
        opening, _, rest = each.partition(">")
        body = rest.partition("</option>")[0][:OPTION_LENGTH]
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


def split_paths(text: str) -> list[str]:
    """Return the paths in a list separated by commas or line breaks."""
    return [path.strip().removeprefix("- ") for path in re.split(r"[,\n]", text) if path.strip()]


def split_bullets(text: str) -> list[str]:
    """Return the items of a bulleted list; any other text is one item."""
    lines = [line for line in text.splitlines() if line.strip()]
    if all(re.match(r"\s*[-*] ", line) for line in lines):
        return [line.strip()[2:].strip() for line in lines]
    return [text] if text else []
