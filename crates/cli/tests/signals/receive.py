# SPDX-License-Identifier: MIT OR Apache-2.0
"""Notes the signals that it receives, until it is told to end.

    receive.py DIRECTORY HANDLED

Reads DIRECTORY/data when DIRECTORY/read is there, and ends. Else it writes its number to
DIRECTORY/pid, makes DIRECTORY/ready, appends the names of signals to DIRECTORY/received, and ends
with 7 once DIRECTORY/end is there. With HANDLED "default" it leaves signals to the kernel.
"""

import os
import signal
import sys
import time

directory, handled = sys.argv[1:]


def path(name):
    return os.path.join(directory, name)


if os.path.exists(path("read")):
    with open(path("data"), "rb", buffering=0) as data:
        while data.read(1 << 20):
            pass
    sys.exit(0)
every = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
if handled == "handled":
    signal.pthread_sigmask(signal.SIG_BLOCK, every)
else:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
received = os.open(path("received"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
with open(path("pid"), "w") as pid:
    pid.write(str(os.getpid()))
os.close(os.open(path("ready"), os.O_WRONLY | os.O_CREAT, 0o600))
end = time.monotonic() + 60
while not os.path.exists(path("end")) and time.monotonic() < end:
    if handled != "handled":
        time.sleep(0.01)
        continue
    came = signal.sigtimedwait(every, 0.01)
    if came:
        name = signal.Signals(came.si_signo).name.removeprefix("SIG")
        os.write(received, (name + "\n").encode())
sys.exit(7)
