"""The highlighted preview of the retry context."""

from dashboard.escalations.context_preview import highlight


def test_highlighting_keeps_the_text() -> None:
    text = '<a b="1">\n  <user_intervention>\n  x &lt; y\n  </user_intervention>\n<omitted n="2"/>'
    lines = highlight(text)
    assert "\n".join("".join(part.text for part in line.parts) for line in lines) == text
    assert [line.is_fix for line in lines] == [False, True, True, True, False]
