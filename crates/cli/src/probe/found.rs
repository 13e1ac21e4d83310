// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of a probe. `measure` fills it in; `json` renders it as JSON, `human` as text,
//! `picture` as SVG.

use std::time::Duration;

use foreread_core::{Bytes, KiB};
use foreread_device::{Fit, Identity, Plateau, Skipped, SweepPoint};
use foreread_linux_sizing::probe::{Kind, Latency};

/// One size read past the page cache.
pub struct DirectPoint {
    pub read_ahead: KiB,
    pub bytes_per_s: f64,
}

/// Several readers at one size.
pub struct ReadersPoint {
    pub readers: u64,
    pub read_ahead: KiB,
    pub bytes_per_s: f64,
    pub latency_ns_max: f64,
}

/// Result of a probe.
pub struct Found {
    pub identity: Identity,
    pub kind: Kind,
    pub path: String,
    pub pieces: Option<usize>,
    pub before_kib: u64,
    pub request_max_kib: u64,
    pub points: Vec<SweepPoint>,
    pub skipped: Vec<(KiB, Skipped)>,
    pub plateau: Plateau,
    /// Whether the sweep can tell the plateau.
    pub is_complete: bool,
    pub fit: Option<Fit>,
    pub latency: Option<Latency>,
    pub direct: Vec<DirectPoint>,
    pub readers: Vec<ReadersPoint>,
    pub elapsed: Duration,
    pub read_errors: u64,
    pub is_interrupted: bool,
    /// Notes for the user, a sentence each.
    pub notes: Vec<String>,
}

impl Found {
    /// The throughput of the best size, in bytes a second.
    pub fn best_bytes_per_s(&self) -> f64 {
        let rates = self.points.iter().map(|point| point.bytes_per_s);
        rates.fold(0.0, f64::max)
    }
}

/// For people: `128 KiB`, `2 MiB`.
pub fn size(read_ahead: KiB) -> String {
    Bytes::new(read_ahead.count().saturating_mul(1024))
        .human()
        .to_string()
}
