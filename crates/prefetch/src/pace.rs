// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much is under way on a device at once.
//!
//! In: the bytes that arrive, and when. Out: the most bytes that may be under way. A read of the
//! program itself waits behind ours, so no more is under way than the device delivers in
//! [`AHEAD_NS`].

/// Largest single read. The kernel reads at most this much ahead at once in any case, and a FUSE or
/// NFS server gets 1 MiB at most.
pub const READ_BYTES_MAX: u32 = 1 << 20;
/// Reads are cut to pieces of this size at least, however little may be under way.
pub const READ_BYTES_MIN: u64 = 128 << 10;
/// Most reads under way.
pub const READS_MAX: u32 = 512;
/// Most reads that are submitted together. The kernel flushes a plug at 32 requests. Neighbours
/// that merge count as one, so more reads than that still go out together.
pub const BATCH_READS_MAX: usize = 64;

/// A read of the program waits no longer than this behind ours.
pub const AHEAD_NS: u64 = 40_000_000;

const UNDER_WAY_BYTES_MIN: u64 = 1 << 20;
const UNDER_WAY_BYTES_START: u64 = 4 << 20;
const UNDER_WAY_BYTES_MAX: u64 = 16 << 20;

/// See the [module](self). Times are from any fixed moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    under_way_bytes_max: u64,
    is_full: bool,
    arrived_bytes: u64,
    since_ns: u64,
}

impl Pace {
    /// Before the first read.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        Self {
            under_way_bytes_max: UNDER_WAY_BYTES_START,
            is_full: false,
            arrived_bytes: 0,
            since_ns: now_ns,
        }
    }

    /// From now on as much is under way as there may ever be, however long it takes.
    pub fn fill(&mut self) {
        self.under_way_bytes_max = UNDER_WAY_BYTES_MAX;
        self.is_full = true;
    }

    /// Whether it is so.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The most bytes that may be under way.
    #[must_use]
    pub fn under_way_bytes_max(&self) -> u64 {
        self.under_way_bytes_max
    }

    /// Bytes have arrived by `now_ns`, not counted before.
    pub fn arrived(&mut self, bytes: u64, now_ns: u64) {
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        if elapsed_ns < AHEAD_NS || self.is_full {
            return;
        }
        let per_ahead =
            u128::from(self.arrived_bytes) * u128::from(AHEAD_NS) / u128::from(elapsed_ns);
        self.under_way_bytes_max = u64::try_from(per_ahead)
            .unwrap_or(u64::MAX)
            .clamp(UNDER_WAY_BYTES_MIN, UNDER_WAY_BYTES_MAX);
        self.arrived_bytes = 0;
        self.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_under_way_as_the_device_delivers_in_40_ms() {
        let mut pace = Pace::new(5);
        assert_eq!(pace.under_way_bytes_max(), 4 << 20);
        pace.arrived(1 << 20, 5 + AHEAD_NS - 1);
        assert_eq!(
            pace.under_way_bytes_max(),
            4 << 20,
            "it is too early to tell"
        );
        pace.arrived(5 << 20, 5 + 2 * AHEAD_NS);
        assert_eq!(pace.under_way_bytes_max(), 3 << 20);
        // Only what came since counts.
        pace.arrived(2 << 20, 5 + 3 * AHEAD_NS);
        assert_eq!(pace.under_way_bytes_max(), 2 << 20);
    }

    #[test]
    fn it_stays_within_bounds() {
        let mut pace = Pace::new(0);
        pace.arrived(0, u64::MAX);
        assert_eq!(pace.under_way_bytes_max(), UNDER_WAY_BYTES_MIN);
        let mut pace = Pace::new(0);
        pace.arrived(u64::MAX, AHEAD_NS);
        assert_eq!(pace.under_way_bytes_max(), UNDER_WAY_BYTES_MAX);
        let mut pace = Pace::new(0);
        pace.fill();
        pace.arrived(0, u64::MAX);
        assert_eq!(pace.under_way_bytes_max(), UNDER_WAY_BYTES_MAX);
    }
}
