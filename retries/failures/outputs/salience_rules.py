"""The rules by which one line of a program's output is scored (pure).

The rules describe forms that many tools share, such as `file:line: error:`; none is for one error.
The first rule that matches wins. Each is matched at the start of a line, and reads at most
LINE_LENGTH characters, which also bounds every repetition in the patterns.
"""

import re

LINE_LENGTH = 400

# Scores, the best first. A line with POSSIBLE or more may be the headline of a failure.
ASSERTED, FINAL, RAISED, DIAGNOSED, ANNOUNCED, STATED = 97, 96, 95, 92, 91, 90
CODED, WORDED, SYSTEM, STRONG, VALUES, NAMED, WEAK = 88, 80, 72, 70, 50, 45, 40
PLAIN, HEADING, SUMMARY, HINT, NOISE = 30, 25, 20, 12, 5

LEVEL = r"(?:fatal|internal|runtime|syntax|compile|build|assertion|unhandled|critical|PHP fatal)"
PLACE = r"[\w@~./\\+-]{1,300}"
EXCEPTION = (
    r"(?:[\w$]{1,80}(?:\.|::|\\)){0,12}[A-Z][\w$]{0,80}(?:Error|Exception|Exit|Interrupt|Fault"
    r"|Failure|Timeout|Expired|NotFound|DoesNotExist|Violation|Denied|Refused|Invalid|Overflow)"
)
# what a log, a container, a box or a build writes before a line
PREFIX = re.compile(
    r"(?:\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,Z+:-]*\]?\s+|\[?\d\d:\d\d:\d\d[\d.,]*\]?\s+"
    r"|[\w.-]{1,40}\s{0,20}[|│] |[│┃|╷╵]\s+|#\d+ [\d.]+ +|##\[\w+\]|::error[^:\n]{0,200}::"
    r"|> (?=\w)|(?:Warning"
    r"|Normal) {1,8}[A-Z]\w{1,40} {1,20}\d{1,4}[smhd][\w()]{0,8}(?: \(x\d{1,6} over"
    r" \w{1,12}\))? {1,20}[\w.-]{1,40} {2,20}(?=\S)))+"
)
NPM = re.compile(r"npm (?:error|ERR!) (?!code\b)")
MARGIN = re.compile(r"E {2,}(?=\S)")
RAISED_IN_TEST = re.compile(r"assert\b|(?:[\w.]{0,200}\.)?[A-Z]\w{1,80}(?::|$)")


def alternatives(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


# the patterns for text in lower case
LOWER: set[re.Pattern[str]] = set()


def lower_alternatives(*patterns: str) -> re.Pattern[str]:
    # Matching text in lower case is much faster than ignoring the case.
    pattern = re.compile(re.sub(r"\\.|[A-Z]+", lower_letters, "|".join(patterns)))
    LOWER.add(pattern)
    return pattern


def lower_letters(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else match[0].lower()


# ---- lines that do not tell the cause, though their words may look like it

RULER = alternatives(r"[\W_]*$", r"([=*~#+.─━═-])\1{2,}[^\n]{0,300}?[=*~#+.─━═-]{3}$")
FRAME = alternatives(
    r"at [^\n]{1,300}[:(]\S{0,200}\d+\)?(?: \{)?$",
    r"at (?:async )?[\w$.<>]{1,200} ?\(",
    r"File \"[^\"]{1,300}\", line \d",
    r"\d+: +(?:0x\w+ - )?[\w:<>$.@{}]{1,300}$",
    r"\.\.\. \d+ (?:more|common frames)",
    r"from [^ ]{1,300}:\d+:in ",
    r"goroutine \d+ \[",
    r"\[Previous line repeated",
    rf"{PLACE}:\d+: (?:in |\(\w+\)$)",
)
SOURCE = alternatives(
    r">? {0,8}\d{1,6} ?[|│]",
    r"[|│] *(?:[\^~]|$)",
    r"-->",
    r"[\^~]{1,200}$",
    r"> {2,}\S",
    r"\+ +where ",
    r"(?:raise|throw|return|assert|elif|except|catch|const|let|var|await|def|fn|func)\b"
    r"[^\n]{0,300}[({;:),\]]$",
    r"(?:raise|throw new|throw|assert) \w",
    r"with [\w.]{1,80}\(",
)
PROGRESS = alternatives(
    r"\[? {0,3}\d{1,3}(?:\.\d+)?%",
    r"\[ {0,4}\d+/\d+\]",
    r"Step \d+/\d+",
    r"#\d+ (?:DONE|CACHED|\[)",
    r"(?:Download(?:ing|ed)|Compiling|Checking|Building|Collecting|Installing|Fetching|Unpacking"
    r"|Preparing|Requirement already|Using cached|Receiving objects|Resolving deltas|Get:\d|Hit:\d"
    r"|Setting up|Selecting|[Cc]opying|creating|adding|added|Linking|Generating|Successfully"
    r"|Processing|Extracting|Pulling|Waiting|Running|Starting|Bundling"
    r"|Transforming)\b(?![^:]{0,80}: )",
)
PASSED = alternatives(r"[✓✔√]", r"ok\b")
PASSED_WORD = alternatives(r"\b(?:PASS(?:ED)?|SKIPPED|XFAIL(?:ED)?)\b")
PASSED_ENDS = "k]d"
PASSED_END = alternatives(
    r"\.\.\. ?ok$", r"\[ *OK *\]$", r"\.{3}(?:\([^)\n]{1,60}\))?(?:Passed|Skipped)$"
)
COUNT = r"\d+ (?:\w+ )?(?:pass\w*|fail\w*|errors?|errored|skipped|warnings?|problems?|tests?)\b"
SUMMARIES = lower_alternatives(
    rf"\W*{COUNT}",
    r"\W*(?:\[ERROR\] )?(?:Tests?(?: run)?:|Test Suites?:|Snapshots:|Found \d|Ran \d|Total\b"
    r"|Failures?:? ?\d*$"
    r"|COMPILATION ERROR|FAIL(?:ED|URES?)?!?\W*$|ERRORS?\W*$|BUILD FAIL|FAILURE: Build"
    r"|test result:)",
    r"FAIL\s+\S+(?:\s+[\d.]+s)?$",
    r"ERROR:? (?:collecting )?\S+(?:::\S+|\.\w{1,4})(?: - .*)?$",
    r"Execution failed for task|(?:failed|unable) to \w+\W*$",
    r"FAILED \([\w=, ]+\)$",
    r"error: (?:test failed|could not compile|aborting due to)|Error: Process completed",
    r"(?:\S{1,80}: )?\*{3} \[[^\]]{1,300}\] (?:Error|\w+)\b",
    # a linker's or a build's own line about a file, and the end of a step with its duration
    r"failed: (?:\[code=\d+\] )?\S+$",
    r"[^:\n]{0,60}\bfailed\b[^\w\n]{0,4}[\[(][\d.]+ ?(?:ms|s|sec\w*)[\])]$",
    r"failed to (?:update|install|restore|fetch|resolve)\b[^:\n]{0,200}$",
    r"error: (?:loaderror: )?some tests did not pass",
    r"npm (?:error|ERR!) (?:code|Lifecycle|path|errno|syscall|signal|command|workspace|location)\b",
    r"\W*(?:command|process|task|job|build|tests?|step|script"
    r"|execution)\b[^:\n]{0,60}\bfailed\b\W*$",
    r"systemexit:?(?: \w{1,8})?$",
    r"abort(?:ing|ed)\W*$|\[?error\]? failed to execute goal (?![^\n]{0,300}(?:could not"
    r"|fatal error|error:))"
    r"|e?rror: (?:subprocess-exited-with-error|metadata-generation-failed)|compilation failed; see",
    r"(?:[Ff]or more information|Some errors have detailed|Emitted 'error')",
)
# a summary that may start with anything, and what one of these holds
SUMMARY_WITHIN = lower_alternatives(
    r"\b(?:0|no) (?:errors?|failures?|failed"
    r"|problems?)\b(?![^\n]{0,80}\b[1-9]\d* (?:err|fail))",
    r"\b(?:due to|generated|with) \d+ (?:previous )?(?:errors?|warnings?)",
    r"\berrors have been logged\b|\bcontinue due to errors\b|\bfailed: \(exit \d+\)",
    r"\b(?:exit(?:ed)?|return(?:ed)?|completed|failed)\b[^\n]{0,40}\b(?:code"
    r"|status):? ?\d*\W*$",
    r"\b(?:ELIFECYCLE|lifecycle script|command failed)\b",
)
SUMMARY_WORDS = ("error", "failure", "failed", "problem", "warning", "code", "status", "lifecycle")
# what a tool writes before each of its lines
TOLD = (
    r"\W*(?:(?:npm (?:error|ERR!)|(?:error|warn(?:ing)?)\]|remote:(?: (?:error|fatal):)?"
    r"|gyp (?:info|ERR!)) +)?"
)
HINTS = lower_alternatives(
    rf"(?!\[warn\]){TOLD}(?:hint|note|help|tip|usage|info|debug|trace|example"
    r"|warn(?:ing)?|deprecat\w*)\b(?! \w+ not)",
    rf"{TOLD}(?:(?:a complete log|this error (?:happened|originated)|fix the"
    r"|to (?:see|fix|run|learn|abort|install)\b"
    r"|this command with|learn more|more (?:details|info)|for (?:details|help)|did you mean"
    r"|see (?:also|the|above|below|http)|re-run \w|run with\b|try:|get more help|check the log"
    r"|for a full"
    r"|use the option|searched in the following|looks like \w+ \w+ or)"
    r"|(?:\[help \d+\]|-> \[help)"
    # an address, an id, the path of a report or a list of options, and nothing else
    rf"|(?:\w+ )?(?:see:? )?https?://\S+$"
    rf"|(?:trace|request|correlation|event)[ _-]?(?:id)?: ?(?=\S*\d)[\da-f-]{{8,80}}$"
    rf"|(?:error context|attachment #\d+|screenshot|video|trace|report|log file|full log"
    rf"|logs?)\b"
    r"[^:\n]{0,40}: ?\S+$"
    rf"|(?:file://)?[\w.~-]{{0,80}}(?:/[\w.@~+-]{{1,120}}){{1,20}}\.(?:txt|log|json|html?"
    rf"|md|png|zip"
    r"|xml|webm)$)",
    r"[\w:-]{1,40}(?: \[[^\]\n]{1,60}\]){3}",
    r"(?:\[?-{1,2}[a-z][\w-]{0,40}(?:[ =|]\S{1,40})?\]?,? ){2}",
    r"(?:you (?:can|may|might|should)|please|if you|this (?:may|might|is usually)|to \w+ \w+, )\b",
    r"npm warn",
)
# a setting that is echoed, such as `fail_on_error = true` or `"strict": false`; possessive
# quantifiers, because a long name with many marks would be tried at each of them
SETTING = alternatives(
    r"[-+\"']{0,3}(?:[a-z][^\W_]*+[._-][\w.-]*+|(?:errors?|fail|warnings?|exceptions?)\w*+)[\"']?"
    r"\s{0,9}[=:]\s{0,9}[\"']?(?:(?i:true|false|null|none|on|off|yes|no|continue|ignore|warn"
    r"|stderr)"
    r"|\d+|/[\w./-]+)[\"']?,?$"
)
# ---- lines that tell it: by their form

FORMS = (
    (FINAL, alternatives(r"(?:Caused by:? |\[cause\]: )\S")),
    (
        RAISED,
        alternatives(
            rf"(?:Exception in thread .{{1,80}}? |(?:Uncaught|Unhandled)\b[^\n]{{0,60}}?[ :]+"
            rf"|fatal exception: )?{EXCEPTION}\b(?: ?[\[(][\w.: -]{{1,60}}[\])])?(?::|$)",
            r"\*\* \(\w[\w.]{1,80}\) \S",
            # Ruby's test runner writes a cause as a comment
            rf"# {EXCEPTION}:$",
        ),
    ),
    (
        DIAGNOSED,
        lower_alternatives(
            rf"(?:[A-Za-z]:)?[^\n:(]{{1,300}}(?:[:(]\[?\d+){{1,2}}(?:[:,]\d+)?[\])]{{0,2}}:?"
            rf"[ -]{{0,4}}"
            rf"(?:{LEVEL} )?error\b",
            r"\d+:\d+ +error +\S",
            # a project file without a line; an object file's section
            rf"{PLACE} ?: (?:fatal )?error [a-z]{{1,6}}\d{{3,5}}: \S",
            r"[^\n:]{1,300}:\(\.[\w.]{1,40}\+0x[0-9a-f]{1,16}\): \S",
            rf"e(?:rror)?: (?:file://)?{PLACE}:\d+:\d+:? \S",
        ),
    ),
    (
        STATED,
        lower_alternatives(
            rf"(?:[\w./@+-]{{1,80}}: {{1,4}})?(?:{LEVEL} )?(?:error(?:\[\w+\]| [A-Z]+\d+)?|fatal"
            rf"|panic"
            r"|critical|err!)(?: \(\w+\))?: {1,4}\S.{3}",
            r"error from server[^\n]{0,80}: \S",
            r"\[(?:error|fatal|critical)\] \S.{3}",
            r"thrown: ",
            r"CONFLICT \(",
            r"(?:\S{1,100}: )?\*{3} \S.{3}",
            r"! ?\[?(?:remote )?rejected\]?",
            r"[\w-]{2,20}: \(\d+\) \S",
            r"[×✘✖⨯] \[?\w*error\b.{4}",
            # a program and what the system says
            r"[\w@./-]{1,100}: (?:[^:\n]{1,200}: )?(?:no such file or directory|permission denied"
            r"|connection refused"
            r"|(?:command )?not found|operation timed out|no space left on device|is a directory"
            r"|file exists)"
            r"(?: ?\([\w,]+\))?\W*$",
        ),
    ),
    (STATED, alternatives(r"(?:ERROR|FATAL|CRITICAL|SEVERE)\b:? +[\w\[\"'`(].{3}")),
    (
        CODED,
        alternatives(
            rf"(?:{PLACE}(?::\d+){{1,2}}:? )?\*?[A-Z]{{1,6}}\d{{3,5}}\b:?(?: \[\*\])? .{{4}}",
            rf"{PLACE}\.[A-Za-z]{{1,6}}:\d+(?::\d+)?: (?!warning|note|in |info)\S.{{4}}",
            rf"{PLACE}\(\d+,\d+\): .{{4}}",
            rf"{PLACE}:\d+:in [`'][^\n]{{1,100}}': .{{4}}",
            r"E[A-Z]{4,20}\b:? .{6}",
            r"\[?ERR_[A-Z_]{3,60}\]?:? {1,4}.{6}",
        ),
    ),
    (
        WORDED,
        lower_alternatives(
            r"(?:thread '|panicked at |assertion\b.{0,60}\bfail|expect\()",
            r"(?:could not|cannot|can't|unable to|failed to|couldn't|not (?:allowed|permitted"
            r"|authorized)"
            r"|no (?:module|such|matching|space|route|rule|required)|invalid|missing|unexpected"
            r"|unknown"
            r"|undefined|unresolved|unsupported|duplicate|segmentation fault|killed|aborted"
            r"|bus error"
            r"|illegal instruction|out of memory|permission denied|access denied|denied"
            r"|unauthorized"
            r"|host key|reached max|failed asserting)\b",
        ),
    ),
)

# ---- and by their words

SYSTEM_SAYS = lower_alternatives(
    r"no such file|permission denied|not permitted|connection (?:refused|reset|closed"
    r"|timed out)",
    r"\b(?:timed|time) ?out\b|\b(?:command|module|package|file|host|symbol"
    r"|type) not found\b",
    r"no space left|address already in use|is (?:forbidden|denied|required|not (?:defined"
    r"|set|allowed))",
    r"access ?denied|unbound variable|cannot find|out of memory|oom.?kill|read-only file",
    r"too many (?:open files|requests)|broken pipe|segmentation fault|BackOff\b|\bErrImage",
    r"\bE(?:CONN|NO|ACC|PERM|ADDR|TIMED|AI_|RESOLVE|PIPE|HOST|NOTFOUND|MFILE|XIST)[A-Z]*\b",
    r"does not (?:exist|match|apply)|(?:not |un)authori[sz]ed|authentication failed"
    r"|already exists",
    r"expected .{1,100}\b(?:got|but|found|received|to (?:be|equal|have|match))\b"
    r"|got .{1,100}\bwant\b",
    r"would (?:be )?reformat|merge conflict|code style issues",
)
STRONGLY = lower_alternatives(
    r"(?:Error|Exception|\b(?:error|fatal|panic(?:ked)?|failed|failure"
    r"|denied))\b[^:\n]{0,60}: ?\S"
)
# Each line with SYSTEM has one of these.
SYSTEM_WORDS = (
    *("no such file", "permission denied", "not permitted", "connection ", "out", "not found"),
    *("no space left", "in use", "is forbidden", "is denied", "is required", "is not ", "access"),
    *("unbound variable", "cannot find", "oom", "read-only file", "too many ", "broken pipe"),
    *("segmentation", "backoff", "errimage", "econn", "eno", "eacc", "eperm", "eaddr", "etimed"),
    *(
        "eai_",
        "eresolve",
        "epipe",
        "ehost",
        "emfile",
        "exist",
        "does not ",
        "authori",
        "code style",
    ),
    *("authentication failed", "expected ", "got ", "reformat", "merge conflict"),
)
# Each line that one of the patterns above or WEAKLY finds has one of these.
TELLING_WORDS = (
    *(
        "error",
        "fail",
        "not ",
        "n't",
        "could",
        "can",
        "exception",
        "expected",
        "no such",
        "invalid",
    ),
    *("denied", "missing", "connection", "time", "unknown", "unable", "permitted", "refused"),
    *("no space", "in use", "forbidden", "required", "access", "unbound", "memory", "oom"),
    *("read-only", "too many", "broken", "segment", "backoff", "errimage", "econn", "eno", "eacc"),
    *(
        "eperm",
        "eaddr",
        "etimed",
        "eai_",
        "eresolve",
        "epipe",
        "ehost",
        "emfile",
        "exist",
        "authori",
    ),
    *("authentication", "got ", "would ", "conflict", "style issues", "fatal", "panic"),
    *("undefined", "undeclared", "killed", "abort", "reject", "exceed", "unresolved", "illegal"),
    *("mismatch", "violat", "expired", "unsupported", "crash", "insufficient", "haven", "hasn"),
    *("lock file", "lockfile", "whitespace", "unexpected"),
)
VALUE = lower_alternatives(
    r"(?:[-+] ?)?(?:Expected|Received|Actual|left|right|got|want|but was)\b[^:=\n]{0,40}[:=] ?\S"
)
TEST = alternatives(
    r"● (?!Console)\S",
    r"--- FAIL: ",
    r"FAILED? +\S+::",
    r"(?:FAIL|ERROR): \w+ ",
    r"not ok \d+ ",
    r"[✕✖✗×] \S",
    r"\d+\) \S",
    r"---- \S+ stdout",
    r"test \S+ \.\.\. FAILED",
    r"\[ +FAILED +\]",
)
# whole words: `thiserror`, `test_error.py` and `--fail-fast` are names
WEAKLY = lower_alternatives(
    r"(?<![\w./-])(?:errors?|exceptions?|fail(?:ed|s|ure|ures|ing)?|fatal|panic\w*|cannot|can.?t"
    r"|could ?n.t"
    r"|could not|unable|not found|denied|refused|timed? ?out|no such|invalid|unexpected|undefined"
    r"|undeclared"
    r"|missing|conflict\w*|killed|abort\w*|rejected|exceed\w*|unknown|unresolved|illegal"
    r"|mismatch\w*|violat\w*"
    r"|expired|unsupported|crash\w*|forbidden|insufficient|not (?:been|allowed|defined|supported)"
    r"|haven.t|(?:fix|regenerate|update) the lock ?file|does(?: not|n.t) (?:satisfy|match|meet)"
    r"|hasn.t|would have|trailing whitespace)(?!\w|[/-]|\.\w|\()"
)
# a line that announces the cause in the next one, and one that is always followed by it
HEADER = lower_alternatives(
    r"[^\n]{0,300}\b(?:errors?|failed|failure|exception|problem)\b[^\n]{0,80}:$",
    r"ERROR in \S+[^:\n]{0,40}(?:\d+:[\d-]+)?$",
    r"problem \d{1,3}$",
)
CAUSE_HEADER = lower_alternatives(
    r"(?:thread '[^'\n]{0,80}'(?: \(\d+\))? )?panicked at .{1,300}:$",
    r"[^\n]{0,300}(?:\bwent wrong|[\d)\w]:? error|:\d{1,7}: failed):$",
)
# an exception alone on its line, whose message is in the next one
BARE_EXCEPTION = alternatives(rf"(?:# )?{EXCEPTION}:?$")
# and a code alone, such as `Main.hs:5:1: error: [GHC-87110]`
BARE_CODE = alternatives(r"[^\n]{0,300}\b[Ee]rror: \[[A-Z]{1,10}-\d{1,7}\]$")
