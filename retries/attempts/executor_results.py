"""Read a result as an executor of a plan's tasks writes it (pure): its keys become ours."""

from typing import Any

from ledger.errors import Invalid

# a key of an executor's result, with the key of `failure` that it stands for
FAILURE_KEYS = {
    "error": "message",
    "failure_type": "type",
    "root_cause_guess": "root_cause_guess",
    "suggested_fix": "suggested_fix",
}
FILES_STATE, OUTPUT_SUMMARY = "files_state", "output_summary"
KEYS = {*FAILURE_KEYS, FILES_STATE}


def read_result(body: Any) -> Any:
    """Return a result's body with our keys; raise Invalid for one that is there in both forms.

    >>> read_result({"status": "failure", "error": "no uuid", "files_modified": ["a.ts"]})
    {'status': 'failure', 'files_modified': [{'path': 'a.ts'}], 'failure': {'message': 'no uuid'}}
    """
    if not isinstance(body, dict):
        return body
    ran, files = body.get("verification"), body.get("files_modified")
    is_summarized = isinstance(ran, dict) and OUTPUT_SUMMARY in ran
    has_paths = isinstance(files, list) and any(isinstance(each, str) for each in files)
    if not (is_summarized or has_paths or KEYS & body.keys()):
        return body
    found = {key: value for key, value in body.items() if key not in KEYS}
    failure = rename_keys(body, FAILURE_KEYS, into=body.get("failure"), at="/failure")
    if failure is not None:
        found["failure"] = failure
    if isinstance(ran, dict):
        rest = {key: value for key, value in ran.items() if key != OUTPUT_SUMMARY}
        found["verification"] = rename_keys(
            ran, {OUTPUT_SUMMARY: "output"}, into=rest, at="/verification"
        )
    if has_paths or body.get(FILES_STATE) is not None:
        found["files_modified"] = join_files(files or [], body.get(FILES_STATE) or [])
    return found


def rename_keys(values: dict[str, Any], names: dict[str, str], *, into: Any, at: str) -> Any:
    # A null value counts as missing.
    moved = {new: values[old] for old, new in names.items() if values.get(old) is not None}
    if not moved or not isinstance(into, dict | None):
        return into
    for old, new in names.items():
        if new in moved and into and new in into:
            raise Invalid(f"/{old}", f"'{old}' is another name of '{at}/{new}'. Send one of them.")
    return (into or {}) | moved


def join_files(files: Any, states: Any) -> Any:
    # A file without a state was modified.
    if not isinstance(files, list) or not isinstance(states, list):
        return states if isinstance(files, list) else files
    named = [{"path": each} if isinstance(each, str) else each for each in files]
    stated = {each.get("path") for each in states if isinstance(each, dict)}
    rest = [each for each in named if not (isinstance(each, dict) and each.get("path") in stated)]
    return [*states, *rest]
