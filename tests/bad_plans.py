"""Plan files that are refused, for every way in: the media type, the bytes, what is said."""

import random

PICTURE = b"- [ ] a\n- [ ] b\n" + random.Random(1).randbytes(2_000)
MANY = "".join(f"- [ ] item {n}\n" for n in range(20_000))
DEEP = "ref: 03-01\nagent: coder\ntasks: " + "[" * 60

BAD_PLANS: dict[str, tuple[str, bytes, str]] = {
    "a picture": ("text/markdown", PICTURE, "(line 3)"),
    "a NUL": ("text/markdown", b"- [ ] a\n- [ ] b\x00\n", "Line 2"),
    "UTF-16": ("text/markdown", "- [ ] a\n".encode("utf-16"), "UTF-16"),
    "20,000 items": ("text/markdown", MANY.encode(), "Line 501"),
    "60 levels": ("application/yaml", DEEP.encode(), "50 levels"),
    "two plans in YAML": (
        "application/yaml",
        b"ref: 03-01\nagent: coder\ntasks: [{title: a}]\n---\nref: 03-02\n",
        "line 4",
    ),
    "two plans in Markdown": (
        "text/markdown",
        b"---\nref: 03-01\n---\n- [ ] a\n---\nref: 03-02\n---\n- [ ] b\n",
        "Line 5",
    ),
    "two plans in XML": (
        "application/xml",
        b"<plan ref='03-01'><task><name>a</name></task></plan>\n<plan ref='03-02'></plan>\n",
        "Line 2",
    ),
    "unclosed YAML": ("application/yaml", b"ref: 03-01\ntasks:\n  - title: [a\n", "line"),
    "unclosed JSON": ("application/json", b'{"ref": "03-01",\n"tasks": [', "line 2"),
    "unclosed element": ("text/markdown", b"# P\n\n<task>\n<name>a</name>\n", "Line 3"),
}
