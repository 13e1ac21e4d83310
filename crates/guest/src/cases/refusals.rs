// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases in which BPF is refused: no rights, a seccomp filter, no BTF, lockdown. The command must
//! run all the same, and one line must name the reason.

use foreread_guest::{Disk, GuestError, Outcome};
use foreread_testbed::workload::ABSENT_PATTERN;

use super::{Beside, Case, PREPARE};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "refusals",
    about: "where BPF is refused: the command runs, and a line names the reason",
    beside: Beside::Anything,
    run,
};

const FILES: usize = 700;

/// A way in which BPF is refused.
struct Refusal {
    name: &'static str,
    /// Brings it about, for all that follows.
    set_up: &'static str,
    /// Starts the program so that it is refused.
    prefix: &'static str,
    /// A word that the line must have.
    reason: &'static str,
}

/// Lockdown comes last: nothing takes it back.
const REFUSALS: [Refusal; 4] = [
    Refusal {
        name: "without rights",
        // Debian's own setting; said here, since the case depends on it.
        set_up: "sysctl -q kernel.unprivileged_bpf_disabled=2",
        prefix: "setpriv --reuid 65534 --regid 65534 --clear-groups \
                 env FOREREAD_STATE_DIR=/run/foreread-nobody",
        reason: "root",
    },
    Refusal {
        name: "seccomp",
        set_up: "",
        prefix: "systemd-run --quiet --pipe --wait --same-dir -E FOREREAD_STATE_DIR \
                 -p SystemCallFilter=~bpf -p SystemCallErrorNumber=EPERM",
        reason: "seccomp",
    },
    Refusal {
        name: "no BTF",
        set_up: "mount -t tmpfs none /sys/kernel/btf",
        prefix: "",
        reason: "BTF",
    },
    Refusal {
        name: "lockdown",
        set_up: "umount /sys/kernel/btf; echo confidentiality >/sys/kernel/security/lockdown",
        prefix: "",
        reason: "locked",
    },
];

/// The verbs that follow a command, and their arguments.
const VERBS: [(&str, &str); 3] = [
    ("run", "run --fresh"),
    ("watch", "watch"),
    ("stat", "stat --by machine"),
];

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let mut script = format!(
        "{PREPARE}
mount $(disk data) /mnt/data
cp foreread /usr/local/bin/
mkdir -m 700 /run/foreread-nobody; chown 65534:65534 /run/foreread-nobody
"
    );
    for (number, Refusal { set_up, prefix, .. }) in REFUSALS.iter().enumerate() {
        // A refusal is remembered until the next boot.
        script.push_str(&format!(
            "{set_up}\nrm -f $FOREREAD_STATE_DIR/recorder.json\n"
        ));
        for (verb, arguments) in VERBS {
            script.push_str(&format!(
                "drop_caches
{prefix} /usr/local/bin/foreread {arguments} -- \\
    grep -rL {ABSENT_PATTERN} /mnt/data/tree >/run/files 2>/run/out/{number}-{verb}.said
echo $? $(wc -l </run/files) >/run/out/{number}-{verb}.ended
"
            ));
        }
    }
    let outcome = context
        .guest(kernel)?
        .while_idle()
        .disk(Disk::image("data", &context.tree(FILES)?))
        .script(script)
        .run()?;
    let refusals = REFUSALS.iter().enumerate();
    refusals
        .flat_map(|(number, refusal)| VERBS.map(|(verb, _)| (number, refusal, verb)))
        .map(|(number, refusal, verb)| row(&outcome, number, refusal, verb))
        .collect()
}

/// Whether the command did its work, and the reason was named.
fn row(outcome: &Outcome, number: usize, refusal: &Refusal, verb: &str) -> Result<Row, GuestError> {
    let ended = outcome.file(&format!("{number}-{verb}.ended"))?;
    let said = outcome.file(&format!("{number}-{verb}.said"))?;
    // grep names each file that lacks the pattern, which is all of them.
    let has_run = ended.split_whitespace().nth(1) == Some(&FILES.to_string());
    let lines = said.lines().filter(|line| line.contains(refusal.reason));
    let value = match (has_run, lines.count()) {
        (false, _) => "the command did not run",
        (true, 0) => "the reason is not named",
        (true, _) => "runs, reason named",
    };
    let is_reached = value.starts_with("runs");
    let name = format!("{}: {verb}", refusal.name);
    Ok(
        Row::asserted(name, "runs, reason named", value, is_reached).detail(format!(
            "ended {}: {}",
            ended.trim(),
            said.trim().replace('\n', " / ")
        )),
    )
}
