"""Plans in XML and in Markdown: strict, and as people and models write them."""

from time import process_time
from typing import Any

import pytest

from ledger import planfile
from ledger.errors import Invalid, Refusal
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Event, Task
from ledger.planfile.model import BadRef, UnreadableLines
from ledger.plans import editing as plan_editing
from ledger.plans import import_writer

XML = """<?xml version="1.0"?>
<plan ref="03-01" title="Ids" agent="coder" needs="02-05" max_attempts="5">
  <objective>Ids that hold</objective>
  <tasks>
    <task id="1" type="auto">
      <name>Create</name>
      <files>src/a.ts, src/b.ts</files>
      <action>Use &lt;T&gt; and <![CDATA[a && b]]></action>
      <verify command="npm test">All pass</verify>
      <done>It is there</done>
    </task>
    <task id="task-2" agent="reviewer" needs="02-05:task-2"><name>Review</name></task>
  </tasks>
</plan>
"""

LOOSE_XML = """<plan ref="03-01" agent="coder">
  <title>Ids &amp; names</title>
  <objective>
    Keep `a && b` as it is
  </objective>
  <needs>02-05, 02-06:task-1</needs>
  <tasks>
    <task id="1">
      <title>Create Map<string, T></title>
      <needs>02-07</needs>
    </task>
  </tasks>
</plan>
"""

WILD = """---
phase: 03-planner-ids
plan: 07
type: execute
wave: 2
depends_on: ["03-06", 02-05-errors, "04"]
files_modified: [src/Id.ts]
autonomous: false
---

# Planner ids that hold

<objective>
Make ids a type of their own.
</objective>

<context>
@docs/adr.md
</context>

<tasks>

<task type="auto">
  <name>Task 1: Create the type</name>
  <files>src/Id.ts, src/index.ts</files>
  <action>
Write `Map<string, T>` where a < b && c > d; <Provider> stays.

```xml
<task type="auto">
  <name>Not a task</name>
</task>
<!DOCTYPE html>
```
  </action>
  <verify>
```bash
npm test -- Id
```
  </verify>
  <done>
- Empty ids are refused
- Null is refused
  </done>
</task>

<task type="checkpoint:decision" gate="blocking">
  <decision>Which form?</decision>
  <context>UUIDs are long.</context>
  <options>
    <option id="uuid">
      <name>UUIDs</name>
      <pros>Known</pros>
      <cons>Long</cons>
    </option>
    <option id="short"><name>Eight letters</name></option>
  </options>
  <resume-signal>Select: uuid or short</resume-signal>
</task>

<task type="auto" tdd="true" wave="2">
  <name>Task 3: Use it</name>
  <behavior>No &amp; more</behavior>
  <action>Use it everywhere.</action>
  <verify>
    <automated>npm run lint && npm test</automated>
  </verify>
  <done>Lint is clean</done>
</task>

<task type="auto">
  <name>Task 4: Tell</name>
  <action>Write it down.</action>
  <verify>Run `grep -c Id README.md`</verify>
</task>

<task type="auto">
  <name>Task 5: Look</name>
  <verify>It looks good, says `npm test`, and
`npm run lint` agrees.</verify>
</task>

</tasks>

<verification>
- [ ] npm test
</verification>
"""


def read(text: str, media: str = "", agent: str = "") -> planfile.ParsedPlan:
    return planfile.parse(text.encode(), media=media, agent=agent)


def payloads(text: str, **more: Any) -> list[dict[str, Any]]:
    return [task.payload for task in read(text, **more).plan.tasks]


@pytest.mark.parametrize("media", ["application/xml", "text/xml", ""])
def test_strict_xml(media: str) -> None:
    parsed = read(XML, media)
    one, two = parsed.plan.tasks
    assert (parsed.plan.ref, parsed.plan.title, parsed.plan.needs) == ("03-01", "Ids", ("02-05",))
    assert parsed.plan.objective == "Ids that hold" and parsed.warnings == ()
    assert one.payload == {
        "action": "Use <T> and a && b",
        "files": ["src/a.ts", "src/b.ts"],
        "done": ["It is there"],
        "verify": {"text": "All pass", "command": "npm test", "source": "declared"},
    }
    assert (one.agent, two.agent, two.max_attempts) == ("coder", "reviewer", 5)
    assert two.needs == ("02-05:task-2", "03-01:task-1")  # in order, as nothing else is said


def test_xml_that_is_not_well_formed_is_read_by_its_lines() -> None:
    broken = XML.replace("&lt;T&gt;", "List<T>").replace(
        '<task id="task-2" agent="reviewer" needs="02-05:task-2"><name>Review</name></task>',
        '<task id="task-2">\n<name>Review</name>\n</task>',
    )
    parsed = read(broken)
    assert [task.title for task in parsed.plan.tasks] == ["Create", "Review"]
    assert parsed.plan.tasks[0].payload["action"] == "Use List<T> and a && b"
    assert parsed.plan.ref == "03-01" and "(line 8)" in parsed.warnings[0]


def test_what_stands_beside_the_tasks_is_read_too() -> None:
    """Also where it is not well-formed: needs that vanish would begin a plan too early."""
    for text in (LOOSE_XML, LOOSE_XML.replace("<tasks>", "").replace("</tasks>", "")):
        parsed = read(text, "application/xml")
        plan = parsed.plan
        assert "not well-formed" in parsed.warnings[0]
        assert (plan.title, plan.objective) == ("Ids & names", "Keep `a && b` as it is")
        assert plan.needs == ("02-05", "02-06:task-1")
        assert plan.tasks[0].title == "Create Map<string, T>"
        assert plan.tasks[0].needs == ("02-07",)


def test_a_plan_in_markdown_as_it_occurs() -> None:
    """A scanner for what strict XML refuses: two tasks of three in the wild."""
    parsed = read(WILD, "text/markdown", agent="coder")
    plan = parsed.plan
    assert (plan.ref, plan.title, plan.wave) == ("03-07", "Planner ids that hold", 2)
    assert plan.objective == "Make ids a type of their own."
    assert plan.needs == ("03-06", "02-05", "03-04")
    titles = [task.title for task in plan.tasks]
    assert titles == [
        "Task 1: Create the type",
        "Which form?",  # a checkpoint without a name is called what it asks
        "Task 3: Use it",
        "Task 4: Tell",
        "Task 5: Look",
    ]
    assert [task.needs for task in plan.tasks][1:3] == [("03-07:task-1",), ("03-07:task-2",)]
    one, two, three = (task.payload for task in plan.tasks[:3])
    assert "a < b && c > d; <Provider> stays." in one["action"]
    assert "Not a task" in one["action"] and one["action"].endswith("```")
    assert one["done"] == ["Empty ids are refused", "Null is refused"]
    assert two["options"] == [
        {"name": "uuid", "title": "UUIDs", "description": "For: Known Against: Long"},
        {"name": "short", "title": "Eight letters"},
    ]
    assert (two["question"], two["resume_signal"]) == ("Which form?", "Select: uuid or short")
    assert plan.tasks[1].type == "checkpoint:decision"
    assert three["behavior"] == "No & more" and three["tdd"] == "true"
    malformed, outside = parsed.warnings
    assert "not well-formed XML (line 27)" in malformed
    assert outside == "Not imported, outside of the tasks: line 86."
    assert WILD.splitlines()[26].startswith("Write `Map<string, T>`")


def test_only_a_declared_command_is_one() -> None:
    """A command in prose is proposed: no agent finds it where commands are."""
    one, _, three, four, five = payloads(WILD, agent="coder")
    assert three["verify"] == {"command": "npm run lint && npm test", "source": "declared"}
    assert one["verify"]["proposed_command"] == "npm test -- Id"
    assert four["verify"] == {
        "text": "Run `grep -c Id README.md`",
        "proposed_command": "grep -c Id README.md",
        "source": "proposed",
    }
    assert set(five["verify"]) == {"text"}
    assert all("command" not in each["verify"] for each in (one, four, five))


def test_what_depends_on_no_plan_is_told() -> None:
    parsed = read(WILD.replace('"04"', "Phase 2"), agent="coder")
    assert parsed.plan.needs == ("03-06", "02-05")
    assert parsed.warnings[-1] == "Ignored the dependency 'Phase 2': it is not a plan's ref."


def test_an_id_of_another_form_keeps_its_number_or_is_refused() -> None:
    text = XML.replace('id="1"', 'id="03-01-T7"').replace(
        'id="task-2" agent="reviewer" needs="02-05:task-2"', 'id="2" needs="03-01-T7"'
    )
    seven, two = read(text).plan.tasks
    assert (seven.ref, two.ref, two.needs) == ("03-01:task-7", "03-01:task-2", ("03-01:task-7",))
    assert seven.payload["id"] == "03-01-T7"
    for id in ("b", "1a", "1.2"):
        with pytest.raises(BadRef, match=f"'{id}' is not a task's ref"):
            read(text.replace('id="2"', f'id="{id}"'))


def test_markdown_is_known_by_its_tasks() -> None:
    assert read(WILD, agent="coder").plan == read(WILD, "text/markdown", agent="coder").plan


@pytest.mark.parametrize(
    "text",
    [
        f'<!DOCTYPE plan [<!ENTITY a "b">]>{XML.partition("?>")[2]}',
        XML.replace("<tasks>", "<!ENTITY x 'y'><tasks>"),
        WILD.replace("<objective>", "<!doctype html>\n<objective>"),
    ],
)
def test_a_doctype_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="must not contain a DOCTYPE"):
        read(text, agent="coder")


def test_a_doctype_is_named_by_its_line_of_the_file() -> None:
    with pytest.raises(Invalid, match=r"line 6\.$"):
        read("---\nphase: 3\nplan: 7\n---\n# Ids\n<!DOCTYPE x>\n<task>\n</task>", agent="coder")


def test_what_else_is_refused() -> None:
    with pytest.raises(Invalid, match="has no tasks"):
        read("<plan ref='03-01'/>", agent="coder")
    with pytest.raises(Invalid, match="Set an agent"):
        read(WILD)
    with pytest.raises(BadRef):
        read(WILD.replace("phase: 03-planner-ids\nplan: 07\n", ""), agent="coder")


@pytest.mark.parametrize(
    "text",
    [
        "<task>\n" + "<verify><automated>\n" * 40_000,
        "<task>\n<options>\n" + "<option>" * 100_000,
        "<objective>\n" * 80_000 + "<task>\n",
        "<task " + "a" * 900_000 + ">",
        "<a>" * 100_000,
        "<task>\n" * 100_000,
        "\n" * 900_000 + "x",
        "<task>\n<action>\n" + "x</action>\ny\n" * 60_000,
        "<task>\n<action>" + "<![CDATA[" * 100_000,
        "<task>" + "x<name>y</name>" * 60_000 + "</task>",
        "<task>" + "<![CDATA[]]>" * 80_000 + "</task>",
        "<task>\nx" + "<!--" * 200_000 + "</task>",
        "<task " * 150_000,
        "<task '" * 150_000,
        "```\n" * 200_000 + "<task>",
        "- [ ] x\n" * 100_000,
        "# Task 1: x\n" * 80_000,
        "# " + "# " * 400_000 + "x\n<task>",
        "---\n" + "a: `" * 200_000,
    ],
)
def test_hostile_text_costs_no_more_time(text: str) -> None:
    started = process_time()  # a busy machine does not lengthen it
    for media in ("application/xml", "text/markdown"):
        with pytest.raises(Exception) as refused:
            read(text, media, agent="coder")
        assert type(refused.value).__module__.startswith("ledger."), refused.value
    assert process_time() - started < 20


@pytest.mark.django_db
def test_a_person_confirms_what_was_proposed(agent: Agent) -> None:
    done = import_writer.import_plan(
        agent.project,
        read(WILD.replace("depends_on", "after"), agent="coder").plan,
        stamp=Stamp(SYSTEM),
    )
    ids = [row["id"] for row in done.tasks]
    mara = Actor("user", "1", "mara")
    assert plan_editing.confirm_commands(ids, stamp=Stamp(mara)) == [ids[0], ids[3]]
    verify = Task.objects.get(pk=ids[0]).payload["verify"]
    assert (verify["command"], verify["source"]) == ("npm test -- Id", "confirmed")
    assert "proposed_command" not in verify and verify["text"]
    said = Event.objects.get(subject_id=ids[0], kind="task.changed")
    assert said.data["confirmed_command"] == "npm test -- Id" and said.actor_name == "mara"
    assert plan_editing.confirm_commands(ids, stamp=Stamp(mara)) == []


# ---- every task is read, or its line is named


def tasks_of(text: str, media: str = "text/markdown") -> list[tuple[str, str]]:
    head = "---\nref: 03-01\nagent: coder\n---\n" if media == "text/markdown" else ""
    plan = planfile.parse((head + text).encode(), media=media).plan
    return [(task.ref.partition(":")[2], task.title) for task in plan.tasks]


def lines_of(text: str, media: str = "text/markdown") -> list[str]:
    """Return the details of the refusal of a file, without its first three lines."""
    with pytest.raises(UnreadableLines) as refused:
        planfile.parse(text.encode(), media=media, agent="coder", ref="03-01")
    assert refused.value.code == "malformed_task"
    return [error["detail"] for error in refused.value.more["errors"]]


LOOSE = "<action>a < b && c</action>"
BOTH = ("text/markdown", "application/xml")


@pytest.mark.parametrize("loose", ["", LOOSE])
@pytest.mark.parametrize(
    "text",
    [
        '<task id="1"><name>One</name>{0}</task>\n<task id="2">\n<name>Two</name>\n</task>',
        '<task id="1"> <name>One</name>{0}\n</task>\n<task id="2"><name>Two</name></task>',
        '<task\n  id="1"\n  type="auto"\n>\n<name>One</name>\n{0}</task>\n'
        "<task\n\tid = '2'>\n<name>Two</name></task>",
        '<TASK ID="1"><Name>One</Name>{0}</TASK>\n<Task id="2"><NAME>Two</NAME></Task>',
        '<task id="1" title="One">{0}</task>\n<task id="2" title="Two"/>',
        '<task id="1" title="One">{0}</task><task id="2" title="Two"></task>',
        '<task id="1">{0}<name>One</name></task> <!-- next -->\n<task id="2">Two</task>',
        '<task id="1"><name>One</name>{0}</task>\n<!-- <task id="9"></task> -->\n'
        '<task id="2">Two\n</task>',
        '<task id="1" note="a > b"><name>One</name>{0}</task>\n<task id="2">\nTwo</task>',
    ],
)
def test_every_task_is_read(text: str, loose: str) -> None:
    expected = [("task-1", "One"), ("task-2", "Two")]
    tasks = text.replace("{0}", loose)
    assert tasks_of(tasks) == expected
    assert tasks_of(f"<tasks>\n{tasks}\n</tasks>") == expected
    assert tasks_of(f"<tasks>{tasks}</tasks>\n") == expected
    plan = f'<plan ref="03-01" agent="coder"><tasks>{tasks}</tasks></plan>'
    assert tasks_of(plan, "application/xml") == expected


def test_a_task_outside_the_tasks_element_is_read() -> None:
    text = "<task>\nOne\n</task>\n<tasks>\n<task>\nTwo\n</task>\n</tasks>\n<task>\nThree\n</task>"
    assert [title for _, title in tasks_of(text)] == ["One", "Two", "Three"]


def test_text_beside_the_parts_is_part_of_the_action() -> None:
    text = '<task id="1">Begin.<name>One</name> Then\n<action>do it.</action>\nEnd.</task>'
    for media, loose in (("text/markdown", ""), ("application/xml", ""), ("text/markdown", "<T>")):
        plan = f"<tasks>{text.replace('Then', 'Then' + loose)}</tasks>"
        (task,) = planfile.parse(plan.encode(), media=media, agent="c", ref="03-01").plan.tasks
        assert task.title == "One"
        words = task.payload["action"].replace(loose or "\0", "").split()
        assert sorted(words) == ["Begin.", "End.", "Then", "do", "it."]


def test_unknown_parts_are_kept_in_malformed_tasks() -> None:
    text = "<task>\n<name>One</name>\n<notes>Map<K, V> &amp; more</notes>\n</task>"
    (payload,) = payloads(f"---\nref: 03-01\n---\n{text}", agent="coder")
    assert payload == {"notes": "Map<K, V> & more"}


def test_a_part_that_occurs_twice_is_kept_twice() -> None:
    text = (
        '<plan ref="03-01" agent="c"><task><name>One</name><verify command="a"/>'
        "<verify><automated>b</automated></verify><notes>1</notes><notes>2</notes></task></plan>"
    )
    (payload,) = payloads(text)
    assert payload["verify"] == {"command": "(a) && (b)", "source": "declared"}
    assert payload["notes"] == "1\n\n2"


def test_each_line_that_cannot_be_read_is_named() -> None:
    text = (
        "# Plan\n"
        "Then <task id='1'> comes.\n"  # line 2
        "<task id='2'>\n"
        "<name>Two</name>\n"
        "<task id='3'>\n"  # line 5
        "<name>Three</name>\n"
        "</task>\n"
        "</task>\n"
        "</task>\n"  # line 9
        "<task id='4\n"  # line 10
        "<task id='5'>\n"  # line 11
    )
    assert lines_of(text) == [
        "Line 2: <task> must begin its line. In prose, write it in backticks.",
        "Line 5: this task begins inside the task of line 3. End that one first: tasks can't be "
        "nested.",
        "Line 9: this </task> ends no task.",
        "Line 10: this <task> tag has no '>', or a '<' or a quote inside it.",
        "Line 11: this task has no </task>.",
    ]


@pytest.mark.parametrize("loose", ["", LOOSE])
def test_nested_tasks_are_refused(loose: str) -> None:
    text = f"<tasks>\n<task>\nOne\n<task>\nTwo{loose}\n</task>\n</task>\n</tasks>"
    for media in BOTH:
        (line,) = lines_of(text, media)
        assert line.startswith("Line 4: this task begins inside the task of line 2.")


@pytest.mark.parametrize("name", ["<name></name>", "<name> </name>", "<title/>", ""])
@pytest.mark.parametrize("loose", ["", "<T>"])
def test_an_empty_title_is_refused(name: str, loose: str) -> None:
    action = f"<action>Do it{loose}</action>" if name else ""
    text = f"<tasks>\n<task>\nOne{loose}\n</task>\n<task>\n{name}\n{action}</task>\n</tasks>"
    assert lines_of(text) == ["Line 5: this task needs a title: <name>…</name> with text in it."]
    if not loose:
        with pytest.raises(Invalid, match="Task 2: this task needs a title"):
            planfile.parse(text.encode(), media="application/xml", agent="c", ref="03-01")


FENCE_OF_FOUR = """<task>
<name>One</name>
<action>
Write `<List<T>>` so:
````md
```xml
<task>
<name>Not a task</name>
</task>
```
</action>
````
</action>
</task>
<task>
Two
</task>
"""


def test_a_fence_ends_at_a_fence_of_its_own_length() -> None:
    text = f"---\nref: 03-01\nagent: c\n---\n{FENCE_OF_FOUR}"
    one, two = read(text).plan.tasks
    assert (one.title, two.title) == ("One", "Two")
    assert one.payload["action"].endswith("</action>\n````")
    tildes = text.replace("````", "~~~~~")
    assert [task.title for task in read(tildes).plan.tasks] == ["One", "Two"]


def test_a_well_formed_task_in_a_fence_is_no_task() -> None:
    text = "```xml\n<task>\nNot a task\n</task>\n```\n<task>\nOne\n</task>\n"
    assert tasks_of(text) == [("task-1", "One")]
    assert tasks_of(f"<tasks>\n{text}</tasks>") == [("task-1", "One")]


def test_a_fence_that_is_not_closed_is_named() -> None:
    text = "<task>\nOne\n```sh\nls\n</task>\n<task>\nTwo\n```sh\nls\n```\n</task>\n"
    assert lines_of(text)[0] == (
        "Line 3: the code fence that begins here contains the tags of a task. Close it, or put code "
        "that contains a fence into a longer fence."
    )


@pytest.mark.parametrize(
    "character", ["&#" + "1" * 5000 + ";", "&#x" + "f" * 5000 + ";", "&#0;", "&#xD800;"]
)
def test_hostile_character_numbers_are_text(character: str) -> None:
    for text in (
        f"<tasks>\n<task id='1' note='{character}'>\n<name>One</name>\n{character} < 1</task></tasks>",
        f"<plan note='{character}' <\n>\n<objective>{character}</objective>\n<task>\nOne\n</task>",
    ):
        for media in BOTH:
            parsed = planfile.parse(text.encode(), media=media, agent="c", ref="03-01")
            assert len(parsed.plan.tasks) == 1


@pytest.mark.parametrize("number", ["9" * 5000, "²", "１", "-1", "high"])
def test_an_attribute_that_is_no_number_is_refused(number: str) -> None:
    for name in ("priority", "id"):
        text = f'<plan ref="03-01" agent="c"><task {name}="{number}"><name>One</name></task></plan>'
        if (name, number) == ("priority", "-1"):
            assert read(text).plan.tasks[0].priority == -1
            continue
        with pytest.raises(Refusal):
            read(text)


def test_only_entities_are_resolved() -> None:
    text = "---\nref: 03-01\n---\n<task>\n<name>One</name>\nGet ?a=1&copy=2 &lt; &#233;<T>\n</task>"
    (payload,) = payloads(text, agent="coder")
    assert payload["action"] == "Get ?a=1&copy=2 < é<T>"


def test_too_many_options_are_refused() -> None:
    options = "<option>a</option>" * 51
    with pytest.raises(Invalid, match="at most 50 options"):
        read(f'<plan ref="03-01" agent="c"><task>One<options>{options}</options></task></plan>')


def test_needs_may_be_called_dependencies() -> None:
    text = '<task id="1">\nOne\n</task>\n<task id="2" depends_on="1, 02-05">\nTwo\n</task>\n'
    text += '<task id="3">\nThree<T>\n<depends_on>none</depends_on>\n</task>'
    plan = read(f"---\nref: 03-01\norder: parallel\nagent: c\n---\n{text}").plan
    assert [task.needs for task in plan.tasks] == [(), ("03-01:task-1", "02-05"), ()]
