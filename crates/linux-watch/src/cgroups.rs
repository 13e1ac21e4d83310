// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds readers whose cgroup limits their I/O. Answers are kept for some seconds.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use foreread_sys::mounts::mounts_of_self;
use foreread_watch::throttling::{files_of_limits, limits_reads};

/// An answer counts for this long. Limits are set by hand or at the start of a service.
const ANSWERS_FOR: Duration = Duration::from_secs(3);
/// Cgroups whose answers are kept.
const ANSWERS_MAX: usize = 256;

/// The answers by the text of `/proc/PID/cgroup`. Copies share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Cgroups(Arc<Mutex<HashMap<String, (Instant, bool)>>>);

impl Cgroups {
    /// Whether the reads of a process are limited; `None` if it has ended.
    pub fn is_throttled(&self, process: u32) -> Option<bool> {
        let cgroups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, answer)) = answers.get(&cgroups)
            && since.elapsed() < ANSWERS_FOR
        {
            return Some(*answer);
        }
        let answer = are_limited(&cgroups);
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(cgroups, (Instant::now(), answer));
        Some(answer)
    }
}

fn are_limited(cgroups: &str) -> bool {
    let Ok(mounts) = mounts_of_self() else {
        return false;
    };
    let mut files = files_of_limits(cgroups, &mounts).into_iter();
    files.any(|path| {
        let text = fs::read_to_string(OsStr::from_bytes(&path));
        text.is_ok_and(|text| limits_reads(&path, &text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_exist_have_an_answer() {
        let cgroups = Cgroups::default();
        let ours = std::process::id();
        assert!(cgroups.is_throttled(ours).is_some());
        assert_eq!(
            cgroups.is_throttled(ours),
            cgroups.clone().is_throttled(ours)
        );
        assert_eq!(cgroups.is_throttled(u32::MAX), None);
    }
}
