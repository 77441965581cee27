"""Adds to the site the pages that are kept outside docs/, where tools and agents look for them."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

PROJECT = Path(__file__).resolve().parent.parent
# Where each file stands in the project, and its name on the site.
OUTSIDE = {
    "templates/agent_guide.md": "guide-for-agents.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}


def on_files(files: Files, config: Any) -> Files:
    """Add each outside file as a page of the site."""
    for source, name in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(PROJECT / source)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links at where each file is on the site: `../SECURITY.md`, `docs/style.md`."""
    for source, name in OUTSIDE.items():
        markdown = markdown.replace(f"](../{source})", f"]({name})")
    return markdown.replace("](docs/", "](")
