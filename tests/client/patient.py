"""The command `tenfour` with hooks that wait as long as a slow machine needs."""

import sys

from tests.waiting import PATIENCE_S

# A hook waits seconds at most, since an agent waits for it; a busy machine may need longer.
PROGRAM = f"""
import sys
from tenfour import hook, hook_transcripts
from tenfour.cli import main
hook.TIMEOUTS_S.clear()
hook.TIMEOUT_S = hook.RESEND_S = {PATIENCE_S}
hook_transcripts.TIMEOUT_S = hook_transcripts.OTHERS_S = {PATIENCE_S}
sys.exit(main())"""
PATIENT = (sys.executable, "-c", PROGRAM)
