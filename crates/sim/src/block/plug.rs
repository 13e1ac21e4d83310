// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plugs: why a request that could go to the disk is held back.

/// When a plugged queue is released besides by a waiter, the timer and the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplug {
    /// By nothing else: as before 2.6.33.
    Waiter,
    /// After each readahead at a mark.
    Always,
    /// After a readahead at a mark whose page has arrived: Linux 2.6.33 (commit 65a80b4c).
    UpToDate,
}

/// The rules of a plug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlugRules {
    /// Since 2.6.39: a plug on the stack of the submitting thread, which ends with the batch.
    OnStack,
    /// Before: a plug of the device, closed when the first request comes to an empty queue.
    Device {
        /// The other event that releases it.
        unplug: Unplug,
        /// Number of waiting requests that releases it.
        threshold_requests: u64,
        /// Time after which it is released, in nanoseconds.
        timer_ns: u64,
    },
}

/// The state of a plug.
#[derive(Clone, Debug)]
pub(super) struct Plug {
    rules: PlugRules,
    closed_until_ns: Option<u64>,
}

impl Plug {
    pub fn new(rules: PlugRules) -> Self {
        Self {
            rules,
            closed_until_ns: None,
        }
    }

    /// A request was added to the queue (blk_plug_device, elv_insert).
    pub fn added(&mut self, now_ns: u64, was_empty: bool, waiting: u64) {
        let PlugRules::Device {
            threshold_requests,
            timer_ns,
            ..
        } = self.rules
        else {
            return;
        };
        if was_empty && self.closed_until_ns.is_none() {
            self.closed_until_ns = Some(now_ns.saturating_add(timer_ns));
        }
        if waiting >= threshold_requests {
            self.open();
        }
    }

    pub fn open(&mut self) {
        self.closed_until_ns = None;
    }

    pub fn is_closed(&self) -> bool {
        self.closed_until_ns.is_some()
    }

    pub fn timer_ns(&self) -> Option<u64> {
        self.closed_until_ns
    }

    pub fn opens_after_readahead(&self, reader_has_data: bool) -> bool {
        let PlugRules::Device { unplug, .. } = self.rules else {
            return false;
        };
        match unplug {
            Unplug::Waiter => false,
            Unplug::Always => true,
            Unplug::UpToDate => reader_has_data,
        }
    }
}
