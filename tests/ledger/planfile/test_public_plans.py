"""Plans in the forms that stand in public repositories, each as a small invented file."""

import json

import pytest

from ledger.errors import Invalid
from tests.ledger.planfile.test_field_cases import done, needs, read, titles


@pytest.mark.parametrize(
    ("text", "opened", "finished"),
    [
        ("**`[ ]`** **Survey the field**\n  - **[x]** range\n  - **[ ]** noise\n**[x]** Report\n",
         ["Survey the field"], ["Report"]),
        ("- **[ ] Model**\n- __[x]__ View\n1. **[>]** Url\n", ["Model", "Url"], ["View"]),
        ("- [ ] _meta.sources is set\n- [ ] _Quiet_\n", ["_meta.sources is set", "Quiet"], []),
        ("- [ ] **Task 1: Model** (AC: 1)\n- [ ] **Range**: 5 km\n- [ ] Add **kwargs\n",
         ["Model (AC: 1)", "Range: 5 km", "Add **kwargs"], []),
    ],
)  # fmt: skip
def test_boxes_and_titles_may_be_emphasized(
    text: str, opened: list[str], finished: list[str]
) -> None:
    assert (titles(text), done(text)) == (opened, finished)


def test_a_legend_in_backticks_is_no_task() -> None:
    found = read("`[ ]` means open\n\n- [ ] Model\n")
    assert [task.title for task in found.plan.tasks] == ["Model"]
    assert found.warnings == ("Line 1: the box on this line begins no item: not imported.",)


def test_a_line_to_fill_in_is_no_task_and_refuses_nothing() -> None:
    found = read("- [ ] Model\n- [ ] ________\n- [ ] <!-- what else -->\n")
    assert [task.title for task in found.plan.tasks] == ["Model"]
    assert [warning[:6] for warning in found.warnings] == ["Line 2", "Line 3"]


def test_a_task_comes_after_what_it_needs_wherever_that_stands() -> None:
    text = "- [ ] 1. Ship\n  - Depends on: 3\n- [ ] 2. Write\n- [ ] 3. Test\n  - Depends on: 2\n"
    assert needs(text) == {"Write": [], "Test": ["Write"], "Ship": ["Test"]}


def test_needs_in_a_circle_are_dropped_with_their_lines() -> None:
    text = "- [ ] 1. Model (depends on 2)\n- [ ] 2. View (depends on 1)\n- [ ] 3. Url\n"
    found = read(text)
    assert needs(text) == {"View": [], "Model": ["View"], "Url": ["Model"]}
    assert "Line 2: ignored the dependency on line 1, which waits for this task." in found.warnings


def test_a_part_that_names_its_whole_is_imported() -> None:
    text = "- [ ] 2. Registry\n- [ ] 2.1 Loader (depends on 2)\n- [ ] 2.2 Index\n"
    assert titles(text) == ["Loader", "Index", "Registry"]


def test_tasks_may_be_named_by_words() -> None:
    text = (
        "- [ ] **CORE-1: Model**\n- [ ] **API-1: View**\n  - **Dependencies:** CORE-1\n"
        "- [ ] [UI-1] Page\n  - Depends on: API-1, CORE-1, QA-9\n"
    )
    names = ["CORE-1: Model", "API-1: View", "[UI-1] Page"]
    assert needs(f"---\norder: parallel\n---\n{text}") == {
        names[0]: [],
        names[1]: [names[0]],
        names[2]: [names[1], names[0]],
    }
    assert "'QA-9'" in " ".join(read(text).warnings)


def test_the_list_of_a_field_is_deeper_than_the_field() -> None:
    text = (
        "- [ ] 1. Model\n- [ ] 2. View\n  - **Dependencies:** 1\n  - **Group:** pages\n"
        "  - Files:\n    - a.py\n  - Risk: none\n"
    )
    task = read(text).plan.tasks[1]
    assert task.payload["files"] == ["a.py"] and not read(text).warnings


def test_another_tools_front_matter_refuses_nothing() -> None:
    story = '---\ntitle: "Story 2: Sign in"\nstatus: Draft\npriority: "High"\n---\n- [ ] Model\n'
    (task,) = read(story).plan.tasks
    assert (task.title, task.priority) == ("Model", 10)
    rules = "---\n\n**Mode:** fast\n\n---\n\n- [ ] Model\n"
    assert titles(rules) == ["Model"] and "read as text" in read(rules).warnings[0]
    with pytest.raises(Invalid):
        read("---\nagent: coder\npriority: soonish\n---\n- [ ] Model\n")


def test_a_doctype_in_a_checklist_is_text() -> None:
    text = "- [ ] Render\n  - Begin with `<!DOCTYPE html>`\n- [ ] Drop <!doctype> from mails\n"
    assert titles(text) == ["Render", "Drop <!doctype> from mails"]


def test_checks_of_a_file_that_is_done_are_named_with_all_their_lines() -> None:
    checks = "".join(f"- [ ] check {n}\n" for n in range(30))
    done_parts = ("- [x] Model\n\n## Acceptance criteria\n\n", "\n## QA\n\n- [x] last\n")
    found = read(checks.join(done_parts))
    assert not found.plan.tasks and "checks: lines 5 to 34." in found.warnings[0]


def test_a_file_whose_items_are_all_code_is_refused_with_their_lines() -> None:
    with pytest.raises(Invalid, match="Line 4: this item is in a code block"):
        read("# Form\n\n```\n- [ ] Model\n```\n", media="text/markdown")


def test_items_beside_task_elements_are_named() -> None:
    text = (
        "- [ ] before\n\n<task>\n<name>One</name>\n<action>\n- [ ] step\n</action>\n</task>\n\n"
        "- [ ] after\n- [x] done\n"
    )
    assert "Not imported, outside of the tasks: lines 1, 10." in read(text).warnings


@pytest.mark.parametrize("shape", [lambda tasks: {"master": tasks}, lambda tasks: tasks])
def test_task_masters_tasks_may_be_a_bare_list(shape: object) -> None:
    tasks = [{"id": "1", "title": "Model", "description": "it", "status": "pending"}]
    assert callable(shape)
    text = json.dumps(shape(tasks))
    assert titles(text, media="application/json") == ["Model"]
