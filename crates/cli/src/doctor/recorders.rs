// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which recorders work, and which one is in use.

use std::time::Duration;

use foreread_linux_doctor as doctor;
use foreread_linux_recorder::Watch;
use foreread_profile::BlindSpots;
use foreread_sys::kernel::{BTF, btf_bytes, lockdown};
use foreread_sys::rights::{Capabilities, Capability};

use super::Check;
use crate::output::time;
use crate::show::blind_spot_names;

/// Result of starting each recorder.
pub struct Recorders {
    /// Time to start it in full and for a refresh.
    bpf: Result<(Duration, Duration), String>,
    tracefs: Result<BlindSpots, String>,
    fanotify: Result<(BlindSpots, usize), String>,
}

impl Recorders {
    /// Starts each of them for a moment.
    pub fn probe() -> Self {
        let bpf = doctor::bpf_recorder(Watch::Everything)
            .and_then(|full| Ok((full, doctor::bpf_recorder(Watch::Refresh)?)));
        Self {
            bpf: bpf.map_err(|error| error.to_string()),
            tracefs: doctor::tracefs_recorder().map_err(|error| error.to_string()),
            fanotify: doctor::fanotify_recorder().map_err(|error| error.to_string()),
        }
    }

    /// The best that works, as `--recorder` names it.
    pub fn in_use(&self) -> Option<&'static str> {
        match (&self.bpf, &self.tracefs, &self.fanotify) {
            (Ok(_), ..) => Some("bpf"),
            (_, Ok(_), _) => Some("tracefs"),
            (.., Ok(_)) => Some("fanotify"),
            _ => None,
        }
    }

    /// For a summary.
    pub fn sentence(&self) -> String {
        match self.in_use() {
            Some("bpf") => "recorder in use: bpf, which sees everything".to_owned(),
            Some(other) => format!(
                "recorder in use: {other}, which sees less than bpf; see BPF recorder above"
            ),
            None => "no recorder works: what profiles there are can be replayed".to_owned(),
        }
    }

    /// How long the BPF recorder takes to start.
    pub fn bpf_start_ns(&self) -> Option<u64> {
        self.bpf.as_ref().ok().map(|(full, _)| nanoseconds(*full))
    }

    /// Fallbacks that lack are unneeded where a better one works.
    pub fn checks(&self) -> [Check; 3] {
        let bpf = match &self.bpf {
            Ok((full, refresh)) => Check::ok(
                "BPF recorder",
                format!(
                    "starts in {} to record, in {} to refresh",
                    time(nanoseconds(*full)),
                    time(nanoseconds(*refresh))
                ),
            ),
            Err(reason) => Check::lacking("BPF recorder", reason, bpf_remedy()),
        };
        let tracefs = match &self.tracefs {
            Ok(spots) => Check::ok("tracefs recorder", blind(*spots)),
            // It learns paths by fanotify, whose reason stands in the next line.
            Err(_) if self.fanotify.is_err() => Check::lacking(
                "tracefs recorder",
                "it needs fanotify, which lacks",
                as_root("see the fanotify recorder"),
            ),
            Err(reason) => Check::lacking(
                "tracefs recorder",
                reason,
                as_root(
                    "use a kernel with CONFIG_FTRACE, and mount tracefs at /sys/kernel/tracing",
                ),
            ),
        };
        let fanotify = match &self.fanotify {
            Ok((spots, 0)) => Check::ok("fanotify recorder", blind(*spots)),
            Ok((spots, mounts)) => Check::ok(
                "fanotify recorder",
                format!("{}; {mounts} mounts can't be watched", blind(*spots)),
            ),
            Err(reason) => Check::lacking(
                "fanotify recorder",
                reason,
                as_root("use a kernel with CONFIG_FANOTIFY"),
            ),
        };
        let (has_bpf, has_tracefs) = (self.bpf.is_ok(), self.tracefs.is_ok());
        [
            bpf,
            tracefs.unneeded_if(has_bpf),
            fanotify.unneeded_if(has_bpf || has_tracefs),
        ]
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn blind(spots: BlindSpots) -> String {
    match blind_spot_names(spots).as_slice() {
        [] => "works, and sees everything".to_owned(),
        names => format!("works, with blind spots: {}", names.join(", ")),
    }
}

/// Without rights, the advice is to run as root: only then are other gaps known.
fn as_root(remedy: &'static str) -> &'static str {
    if Capabilities::of_self().has(Capability::SysAdmin) {
        remedy
    } else {
        "run with sudo"
    }
}

/// The likeliest reason first.
fn bpf_remedy() -> String {
    let may = Capabilities::of_self();
    let has_rights = [Capability::Bpf, Capability::Perfmon]
        .iter()
        .all(|capability| may.has(*capability));
    if !has_rights {
        return "run with sudo, or with CAP_BPF and CAP_PERFMON".to_owned();
    }
    if btf_bytes().is_err() {
        return format!("use a kernel with CONFIG_DEBUG_INFO_BTF, so that {BTF} exists");
    }
    if lockdown().as_deref() == Some("confidentiality") {
        return "boot without lockdown=confidentiality".to_owned();
    }
    "in a container: run it outside, or with --privileged; else please report this line".to_owned()
}
