// SPDX-License-Identifier: MIT OR Apache-2.0
//! What time it is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Seconds since 1970; 0 by a clock that stands before that.
#[must_use]
pub fn now_unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Time since the kernel started, without suspensions: the kernel's own, which BPF programs and
/// systemd tell too (`CLOCK_MONOTONIC`).
#[must_use]
pub fn since_kernel_start() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}
