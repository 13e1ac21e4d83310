# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a command as a job of a shell, signals it, and tells what came of it.

    send.py DIRECTORY WAY SIGNAL HANDLED COMMAND...

WAY is "process", "group" or "terminal"; SIGNAL a name such as TERM, or STOP-CONT: stopped by TSTP,
continued by CONT. COMMAND runs `receive.py DIRECTORY HANDLED` in the end, perhaps below something
else; HANDLED is "handled" or "default".

Prints a line of JSON: what the shell was told of the job, and which signals the command received.
"""

import fcntl
import glob
import json
import os
import pty
import signal
import struct
import sys
import termios
import time

# How often a thing is looked for, and the pause between two looks: a minute at least. Looks are
# counted, since a virtual machine may stand still for a minute. No command is to blame for that.
LOOKS_MAX = 30_000
PAUSE_S = 0.002
# A second copy of a signal comes this much later at most, on a machine that isn't overloaded.
LATE_S = 0.08
KEYS = {"INT": b"\x03", "QUIT": b"\x1c", "STOP-CONT": b"\x1a"}


def until(what, condition):
    began = last = time.monotonic()
    longest_s = 0
    for _ in range(LOOKS_MAX):
        if condition():
            return
        time.sleep(PAUSE_S)
        now = time.monotonic()
        longest_s, last = max(longest_s, now - last), now
    waited = f"nothing within {last - began:.0f} s, {longest_s:.2f} s between two looks at most"
    raise SystemExit(f"{what}: {waited}\n{where_they_wait()}")


def where_they_wait():
    """Name, state and kernel stack of threads: those of this process and of those below it, and those
    of the machine whose wait no signal interrupts. One of these may hold a lock that ours need.
    """

    def text(path):
        """What stands in a file, or nothing once its thread has ended."""
        try:
            with open(path) as file:
                return file.read().strip()
        except OSError:
            return ""

    def line(thread):
        name, stat = text(f"{thread}/comm"), text(f"{thread}/stat").rsplit(")", 1)[-1]
        return f"{os.path.basename(thread)} {name}, {stat[1:2]}: {text(f'{thread}/stack')}"

    lines, below = [], [str(os.getpid())]
    while below:
        process = below.pop()
        for thread in glob.glob(f"/proc/{process}/task/*"):
            below += text(f"{thread}/children").split()
            lines.append(line(thread))
    uninterruptible = (line(thread) for thread in glob.glob("/proc/[0-9]*/task/*"))
    lines += (one for one in uninterruptible if ", D:" in one and one not in lines)
    return "\n".join(lines)


class Job:
    def __init__(self, directory, way, command):
        self.path = lambda name: os.path.join(directory, name)
        self.way = way
        self.events = []
        self.ended = False
        self.output = os.open(self.path("output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        if way == "terminal":
            self.terminal, side = pty.openpty()
            # A session of its own, whose terminal it is.
            os.setsid()
            fcntl.ioctl(side, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        else:
            self.terminal, side = None, os.open("/dev/null", os.O_RDWR)
        self.side = side
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            self.to_front(os.getpid())
            # A shell without job control starts its background jobs with INT and QUIT ignored.
            for name in ("HUP", "INT", "QUIT", "PIPE", "TERM", "USR1", "TSTP", "TTOU", "WINCH"):
                signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
            os.dup2(side, 0)
            os.dup2(self.output, 1)
            os.dup2(self.output, 2)
            os.closerange(3, 64)
            os.execvp(command[0], command)
        try:
            os.setpgid(self.pid, self.pid)
        except PermissionError:
            pass
        self.to_front(self.pid)

    def to_front(self, group):
        if self.terminal is not None:
            os.tcsetpgrp(self.side, group)

    def received(self):
        try:
            with open(self.path("received")) as lines:
                return lines.read().split()
        except FileNotFoundError:
            return []

    def look(self):
        """Takes what the shell is told."""
        while not self.ended:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self.events.append("stopped by " + signal.Signals(os.WSTOPSIG(status)).name)
                self.to_front(os.getpgrp())
            elif os.WIFCONTINUED(status):
                # Some are told too late to be told at all.
                pass
            else:
                self.ended = True
                code = os.waitstatus_to_exitcode(status)
                self.events.append(f"ended {code}")

    def has(self, event):
        self.look()
        return self.ended or event in self.events

    def send(self, name):
        if self.terminal is not None and name in KEYS:
            os.write(self.terminal, KEYS[name])
        elif self.terminal is not None and name == "WINCH":
            size = struct.pack("HHHH", 30, 90, 0, 0)
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        elif self.terminal is not None and name == "HUP":
            # The kernel tells the shell, and shells tell their jobs.
            os.close(self.terminal)
            os.kill(-self.pid, signal.SIGHUP)
        else:
            number = getattr(signal, "SIG" + {"STOP-CONT": "TSTP"}.get(name, name))
            target = self.pid if self.way == "process" else -self.pid
            os.kill(target, number)

    def state(self):
        with open(self.path("pid")) as pid, open(f"/proc/{pid.read()}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]


def main(directory, way, name, handled, *command):
    job = Job(directory, way, list(command))
    until("start", lambda: os.path.exists(job.path("ready")) or job.has("ended"))
    job.look()
    # It has begun to wait, or to sleep.
    time.sleep(0.01)
    job.send(name)
    if name == "STOP-CONT":
        if handled == "handled":
            until("the stop signal", lambda: "TSTP" in job.received() or job.has("ended"))
        else:
            until("the stop", lambda: job.has("stopped by SIGTSTP"))
            until("the stop of the command", lambda: job.state() == "T")
            job.to_front(job.pid)
            # As `fg` does, or `kill -CONT`.
            target = job.pid if way == "process" else -job.pid
            os.kill(target, signal.SIGCONT)
            until("its going on", lambda: job.state() != "T")
    elif handled == "handled":
        until("the signal", lambda: name in job.received() or job.has("ended"))
    elif name not in ("WINCH", "CONT"):
        until("the end", lambda: job.has("ended"))
    time.sleep(LATE_S)
    with open(job.path("end"), "w"):
        pass
    until("the end", lambda: job.has("ended"))
    print(json.dumps({"shell": job.events, "received": job.received()}))


main(*sys.argv[1:])
