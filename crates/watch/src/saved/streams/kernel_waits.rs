// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waits that the kernel's readahead would have left a thread in a span of time.
//!
//! In: what the thread has read and waited for in that span, and the measured costs of its disk.
//! Out: an estimate with bounds, by the rules in [the module above](super).

use super::{Counts, Paced};

/// Measured costs of a disk. 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Time of a request without its pages.
    pub latency_ns: u64,
    /// The same of one that goes on where the one before it ended.
    pub next_ns: u64,
    /// Cost of a request to a busy disk besides its pages.
    pub cost_ns: u64,
    /// The lowest latency of a recent request, with its pages.
    pub least_ns: u64,
    /// The size of that request.
    pub least_pages: u64,
    /// Time of a page, by requests of different sizes.
    pub page_ns: u64,
    /// Time of a page at the best throughput that was seen: at least the above.
    pub page_ns_max: u64,
    /// Whether it is rotational.
    pub turns: bool,
}

/// Waits that the kernel's readahead would leave. Sums of any size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    pub best_ns: u64,
    pub low_ns: u64,
    pub high_ns: u64,
}

impl Waits {
    pub fn add(&mut self, other: Self) {
        self.best_ns = self.best_ns.saturating_add(other.best_ns);
        self.low_ns = self.low_ns.saturating_add(other.low_ns);
        self.high_ns = self.high_ns.saturating_add(other.high_ns);
    }

    pub fn times(self, factor: f64) -> Self {
        let times = |ns: u64| (ns as f64 * factor) as u64;
        Self {
            best_ns: times(self.best_ns),
            low_ns: times(self.low_ns),
            high_ns: times(self.high_ns),
        }
    }
}

/// The accesses of a thread in a span of time.
pub(super) struct Span {
    pub counts: Counts,
    pub took_ns: u64,
    /// At its end.
    pub paced: Paced,
    /// Threads that read from the disk.
    pub readers: u64,
}

impl Span {
    /// The waits that the kernel's readahead would have left; `None` if the costs are not known.
    pub fn waits(&self, costs: &Costs) -> Option<Waits> {
        let costs = Known::of(costs)?;
        let mut waits = Waits {
            best_ns: self.jumps_ns(costs.latency_ns, costs.page_ns, &costs),
            low_ns: self.jumps_ns(costs.least_ns, costs.page_ns, &costs),
            high_ns: self.jumps_ns(costs.latency_ns, costs.page_ns_max, &costs),
        };
        let (low_ns, best_ns, high_ns) = costs.forward_latency_ns(self.readers == 1);
        waits.add(Waits {
            best_ns: self.forward_ns(best_ns, costs.page_ns, &costs),
            low_ns: self.forward_ns(low_ns, costs.page_ns, &costs),
            high_ns: self.forward_ns(high_ns, costs.page_ns_max, &costs),
        });
        Some(waits)
    }

    /// Waits for windows of the kernel. Two are under way: the next one is requested when the
    /// reader comes to this one, before it waits for it.
    fn forward_ns(&self, latency_ns: u64, page_ns: u64, costs: &Known) -> u64 {
        let window = self.paced.kernel_pages.max(1);
        let one_ns = latency_ns.saturating_add(window.saturating_mul(page_ns));
        let own_ns = window.saturating_mul(self.own_page_ns());
        let pages_ns = window.saturating_mul(costs.page_ns_max).min(one_ns);
        // At the throughput of the disk, which its readers share.
        let share_ns = match costs.turns && self.readers > 1 {
            true => one_ns,
            false => pages_ns,
        };
        let share_ns = share_ns.saturating_mul(self.readers).saturating_sub(own_ns);
        let wait_ns = (one_ns.saturating_sub(own_ns) / 2).max(share_ns);
        (wait_ns as f64 * (self.counts.forward_pages as f64 / window as f64)) as u64
    }

    /// Waits for accesses that the kernel doesn't read ahead of.
    fn jumps_ns(&self, latency_ns: u64, page_ns: u64, costs: &Known) -> u64 {
        let counts = &self.counts;
        let jumps = counts.jumps_up.saturating_add(counts.jumps_down);
        let each_pages = match self.paced.is_mapped {
            true => self.paced.kernel_pages,
            false => counts.jumped_pages.checked_div(jumps).unwrap_or(0),
        };
        let pages_ns = each_pages.saturating_mul(page_ns);
        let requests = |jumps: u64, away_pages: u64| match self.paced.is_mapped {
            // It reads around a fault: half of the window lies in the reader's direction.
            true => jumps.min(away_pages.div_ceil((self.paced.kernel_pages / 2).max(1))),
            false => jumps,
        };
        let request_ns = |latency_ns: u64| {
            let one_ns = latency_ns.saturating_add(pages_ns);
            one_ns.max(pages_ns.saturating_mul(self.readers))
        };
        // A head passes what lies between in the time that reading it would take.
        let between_pages = counts
            .away_up_pages
            .checked_div(counts.jumps_up)
            .unwrap_or(0);
        let up_latency_ns = match costs.turns {
            true => latency_ns.min(between_pages.saturating_mul(page_ns)),
            false => latency_ns,
        };
        let up_ns = requests(counts.jumps_up, counts.away_up_pages)
            .saturating_mul(request_ns(up_latency_ns));
        let down_ns = requests(counts.jumps_down, counts.away_down_pages)
            .saturating_mul(request_ns(latency_ns));
        up_ns.saturating_add(down_ns)
    }

    /// The reader's own time for a page, without waits.
    fn own_page_ns(&self) -> u64 {
        let counts = &self.counts;
        let waited_ns = counts.found_wait_ns.saturating_add(counts.missed_wait_ns);
        let pages = counts.found_pages().saturating_add(counts.missed_pages);
        let own_ns = self.took_ns.saturating_sub(waited_ns);
        own_ns.checked_div(pages).unwrap_or(0)
    }
}

/// Costs that are consistent, and known.
struct Known {
    latency_ns: u64,
    /// At most that.
    next_ns: Option<u64>,
    busy_ns: u64,
    least_ns: u64,
    page_ns: u64,
    /// At least the above.
    page_ns_max: u64,
    turns: bool,
}

impl Known {
    fn of(costs: &Costs) -> Option<Self> {
        if costs.least_ns == 0 || costs.page_ns_max == 0 {
            return None;
        }
        // The latency belongs to this time of a page: together they are the time of a request.
        let page_ns = match costs.latency_ns {
            0 => costs.page_ns_max,
            _ => costs.page_ns,
        };
        let of_pages_ns = costs.least_pages.saturating_mul(page_ns);
        let least_ns = costs.least_ns.saturating_sub(of_pages_ns);
        let latency_ns = match costs.latency_ns {
            0 => least_ns,
            latency_ns => latency_ns,
        };
        Some(Self {
            latency_ns,
            next_ns: (costs.next_ns > 0).then(|| costs.next_ns.min(latency_ns)),
            busy_ns: match costs.cost_ns {
                0 => latency_ns,
                cost_ns => cost_ns.min(latency_ns),
            },
            least_ns: least_ns.min(latency_ns),
            page_ns,
            page_ns_max: costs.page_ns_max.max(page_ns),
            turns: costs.turns,
        })
    }

    /// The time without its pages of a request that goes on in a file: at least, the best guess,
    /// and at most. A reader alone goes on where its last request ended, which takes a head no
    /// time. Others bring seeks in between.
    fn forward_latency_ns(&self, is_alone: bool) -> (u64, u64, u64) {
        match (is_alone, self.turns) {
            (true, true) => (0, self.next_ns.unwrap_or(0), self.next_ns.unwrap_or(0)),
            (true, false) => {
                let best_ns = self.next_ns.unwrap_or(self.latency_ns);
                (self.least_ns.min(best_ns), best_ns, self.latency_ns)
            }
            (false, true) => (0, self.busy_ns, self.latency_ns),
            (false, false) => (self.least_ns, self.latency_ns, self.latency_ns),
        }
    }
}
