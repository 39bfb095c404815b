"""What holds for all tests: Ctrl-C means what it means, also in the background of a shell, which has it ignored."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
