"""Render the HTML part of a mail (pure): styles in the tags, and nothing that is fetched."""

from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from retries.notifications.messages.wording import ANSWERS, Message

FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
MONO = "font-family:ui-monospace,Menlo,Consolas,monospace"
PAGE = f"margin:0;padding:24px 16px;background:#f5f5f4;color:#1c1917;{FONT};font-size:15px"
CARD = "max-width:560px;margin:0 auto;background:#fff;border:1px solid #e7e5e4;padding:24px"
QUOTE = f"{MONO};font-size:13px;background:#f5f5f4;padding:12px;white-space:pre-wrap"
BUTTON = (
    "display:block;box-sizing:border-box;min-height:44px;padding:12px 20px;text-align:center;"
    "background:#1c1917;color:#fff;text-decoration:none;font-weight:600;border-radius:6px"
)
NAME = "text-align:left;vertical-align:top;font-weight:400;color:#78716c;padding:4px 16px 4px 0"
MUTED = "color:#78716c;font-size:13px"


def render_html(message: Message) -> str:
    """Return a message as an HTML page that reads well in every mail program."""
    lede = message.lede or message.text
    return format_html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>{}</title></head>'
        '<body style="{}"><div style="display:none">{}</div><div style="{}">'
        '<p style="{}">Tenfour</p><h1 style="font-size:20px;margin:8px 0">{}</h1>'
        '<p style="white-space:pre-line">{}</p>{}{}{}{}{}</div></body></html>\n',
        message.subject,
        PAGE,
        f"{lede} {message.detail}"[:140],
        CARD,
        MUTED,
        message.head or message.subject,
        lede,
        render_quote(message.detail),
        render_link(message),
        render_facts(message),
        render_command(message.command),
        render_footer(message.footer),
    )


def render_quote(text: str) -> SafeString:
    """Return agents' words or a list as text that can't have markup."""
    return format_html('<pre style="{}">{}</pre>', QUOTE, text) if text else SafeString("")


def render_link(message: Message) -> SafeString:
    if not message.url:
        return SafeString("")
    return format_html(
        '<p><a href="{}" style="{}">{}</a></p>', message.url, BUTTON, message.link or "Open"
    )


def render_facts(message: Message) -> SafeString:
    facts: list[tuple[str, str]] = [(name, value) for name, value in message.facts]
    if message.answers:
        facts.append((ANSWERS, render_answers(message)))
    if not facts:
        return SafeString("")
    row = f'<tr><th scope="row" style="{NAME}">{{}}</th><td style="padding:4px 0">{{}}</td></tr>'
    rows = format_html_join("", row, facts)
    return format_html('<table style="border-collapse:collapse">{}</table>', rows)


def render_answers(message: Message) -> SafeString:
    """Return the answers as links to the forms that give them."""
    links = ((address, name) for name, address in message.answers)
    return format_html_join(", ", '<a href="{}" style="color:#1c1917">{}</a>', links)


def render_command(command: str) -> SafeString:
    if not command:
        return SafeString("")
    return format_html('<p>From a terminal:</p><pre style="{}">{}</pre>', QUOTE, command)


def render_footer(footer: str) -> SafeString:
    if not footer:
        return SafeString("")
    said, _, address = footer.partition(" Change it: ")
    link = format_html(' <a href="{}" style="{}">Change the rule</a>', address, MUTED)
    shown = link if address else SafeString("")
    return format_html('<p style="{}">{}{}</p>', MUTED, conditional_escape(said), shown)
