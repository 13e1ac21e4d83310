// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of a modelled disk.

use crate::quantity::{self, COUNT, SIZE, TIME};
use crate::transfer::TransferTimes;

/// The names [`DiskParameters::preset`] knows.
pub const PRESET_NAMES: &[&str] = &["hdd", "usb", "cloud", "nvme", "nfs", "lazy", "instant"];

/// The keys of [`DiskParameters::set`], one a line, for a help text.
pub const PARAMETER_HELP: &str = "\
model=head|parallel|instant  how requests are served
capacity_bytes=SIZE          a full-stroke seek is this far; 0: as large as the device
bandwidth_bytes_per_s=SIZE   what all transfers together can reach
transfer_times=TABLE         how long a transfer takes by size, in place of the bandwidth
latency_ns=TIME              parallel: from the start of a request to its first byte
parallel_requests=COUNT      parallel: served at once
rate_requests_per_s=COUNT    parallel: starts per second at most; 0: no cap
seek_min_ns=TIME             head: the shortest seek
seek_span_ns=TIME            head: times sqrt(distance / capacity), on top of the shortest
half_turn_ns=TIME            head: the mean wait for the sector, on every seek
gap_limit_bytes=SIZE         head: a forward gap below this is read over, not sought over
gap_ns=TIME                  head: what such a gap costs besides its transfer
first_touch_bytes=SIZE       parallel: blocks that are fetched when they are first read; 0: none
first_touch_ns=TIME          parallel: how long the fetch of such a block takes
first_touch_parallel_requests=COUNT  parallel: fetches at once
first_touch_rate_requests_per_s=COUNT  parallel: starts of fetches per second at most; 0: no cap
SIZE: a number of bytes, or with K, M, G, T (binary) or KB, MB, GB, TB (decimal)
TABLE: SIZE:TIME,SIZE:TIME,... with sizes that grow, or nothing
TIME: a number of nanoseconds, or with ns, us, ms, s";

/// The keys whose value is at least 1: the disk would stop without.
const NEEDS_ONE: [&str; 3] = [
    "bandwidth_bytes_per_s",
    "parallel_requests",
    "first_touch_parallel_requests",
];

/// How a disk serves its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskModel {
    /// One head, one request at a time, the nearest first.
    Head,
    /// First come, first served; a latency, then a transfer through one shared pipe.
    Parallel,
    /// Every request is done when it arrives. For filling images and for finding what is read.
    Instant,
}

/// The parameters of one disk. The unit is the last part of each name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskParameters {
    /// How requests are served; which of the other fields count.
    pub model: DiskModel,
    /// The distance of a full-stroke seek. 0 stands for the size of the device: the testbed puts
    /// its own size in its place. Used by [`DiskModel::Head`].
    pub capacity_bytes: u64,
    /// Bandwidth of all transfers together. At least 1.
    pub bandwidth_bytes_per_s: u64,
    /// Times of transfers by the size of the request, if the bandwidth doesn't give them.
    pub transfer_times: TransferTimes,
    /// From the start of a request to its first byte. Used by [`DiskModel::Parallel`].
    pub latency_ns: u64,
    /// Requests served at once, at least 1. Used by [`DiskModel::Parallel`].
    pub parallel_requests: u64,
    /// Starts per second at most, evenly paced; 0 is no cap. Used by [`DiskModel::Parallel`].
    pub rate_requests_per_s: u64,
    /// The shortest seek. Used by [`DiskModel::Head`], like all below.
    pub seek_min_ns: u64,
    /// A seek takes this times sqrt(distance / capacity) more than the shortest.
    pub seek_span_ns: u64,
    /// The mean wait for the sector to come round, paid on every seek.
    pub half_turn_ns: u64,
    /// A forward gap below this is read over and not sought over.
    pub gap_limit_bytes: u64,
    /// Cost of reading over a gap besides the gap's transfer.
    pub gap_ns: u64,
    /// Size of blocks that the disk fetches from elsewhere when a request first touches them; 0 if
    /// it has all of them. Used by [`DiskModel::Parallel`], like all below.
    pub first_touch_bytes: u64,
    /// How long such a fetch takes.
    pub first_touch_ns: u64,
    /// Fetches at once, at least 1.
    pub first_touch_parallel_requests: u64,
    /// Starts of fetches per second at most, evenly paced; 0 is no cap.
    pub first_touch_rate_requests_per_s: u64,
}

/// Why a parameter could not be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No parameter has this name.
    #[error("no disk parameter is called `{0}`; they are: {1}")]
    UnknownKey(String, String),
    /// The value is not of the parameter's kind.
    #[error("`{value}` is no value for `{key}`: it takes {wanted}")]
    BadValue {
        /// The parameter.
        key: String,
        /// The given value.
        value: String,
        /// The kind of value that it takes.
        wanted: &'static str,
    },
    /// Not of the form `key=value`.
    #[error("`{0}` is no setting: write key=value, like latency_ns=2ms")]
    NotAnAssignment(String),
}

impl DiskParameters {
    /// The disk of that name, one of [`PRESET_NAMES`].
    pub fn preset(name: &str) -> Option<Self> {
        let parallel = |latency_ns, parallel_requests, bandwidth_bytes_per_s| Self {
            model: DiskModel::Parallel,
            latency_ns,
            parallel_requests,
            bandwidth_bytes_per_s,
            ..Self::hdd()
        };
        Some(match name {
            "hdd" => Self::hdd(),
            "usb" => parallel(1_200_000, 1, 25_000_000),
            "cloud" => Self {
                rate_requests_per_s: 3_000,
                ..parallel(700_000, 64, 125_000_000)
            },
            // A cloud volume that was restored from a snapshot, and that nobody has read yet.
            "lazy" => Self {
                first_touch_bytes: 512 << 10,
                first_touch_ns: 10_000_000,
                first_touch_parallel_requests: 64,
                first_touch_rate_requests_per_s: 300,
                ..Self::preset("cloud")?
            },
            "nvme" => parallel(90_000, 64, 1_500_000_000),
            "nfs" => parallel(1_000_000, 64, 1_000_000_000),
            "instant" => Self::instant(),
            _ => return None,
        })
    }

    /// A disk whose requests are done when they arrive.
    #[must_use]
    pub fn instant() -> Self {
        Self {
            model: DiskModel::Instant,
            latency_ns: 0,
            parallel_requests: 64,
            bandwidth_bytes_per_s: u64::MAX,
            ..Self::hdd()
        }
    }

    /// A 7200 rpm disk. The fields of the other model are such that a switch of `model` alone
    /// gives something sensible.
    fn hdd() -> Self {
        Self {
            model: DiskModel::Head,
            capacity_bytes: 0,
            bandwidth_bytes_per_s: 120_000_000,
            transfer_times: TransferTimes::default(),
            latency_ns: 0,
            parallel_requests: 1,
            rate_requests_per_s: 0,
            seek_min_ns: 800_000,
            seek_span_ns: 10_000_000,
            half_turn_ns: 4_170_000,
            gap_limit_bytes: 256 << 10,
            gap_ns: 100_000,
            first_touch_bytes: 0,
            first_touch_ns: 0,
            first_touch_parallel_requests: 64,
            first_touch_rate_requests_per_s: 0,
        }
    }

    /// Sets one parameter from text, see [`PARAMETER_HELP`].
    ///
    /// # Errors
    /// An unknown key, or a value that is not of its kind or would stop the disk (0 where at
    /// least 1 is needed). The parameters are then unchanged.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ParameterError> {
        let (key, value) = (key.trim(), value.trim());
        if key == "model" {
            self.model = model_from_text(value)?;
            return Ok(());
        }
        let bad = |wanted| ParameterError::BadValue {
            key: key.to_owned(),
            value: value.to_owned(),
            wanted,
        };
        if key == "transfer_times" {
            self.transfer_times = TransferTimes::parse(value)
                .ok_or_else(|| bad("SIZE:TIME,... with sizes that grow"))?;
            return Ok(());
        }
        let kind = Kind::of(key).ok_or_else(|| unknown_key(key))?;
        let number = quantity::parse(value, kind.units()).ok_or_else(|| bad(kind.wanted()))?;
        let field = self.field_mut(key).ok_or_else(|| unknown_key(key))?;
        if number == 0 && NEEDS_ONE.contains(&key) {
            return Err(bad("at least 1"));
        }
        *field = number;
        Ok(())
    }

    /// Sets one parameter from `key=value`.
    ///
    /// # Errors
    /// As [`DiskParameters::set`], and a text without `=`.
    pub fn set_assignment(&mut self, assignment: &str) -> Result<(), ParameterError> {
        let (key, value) = assignment
            .split_once('=')
            .ok_or_else(|| ParameterError::NotAnAssignment(assignment.to_owned()))?;
        self.set(key, value)
    }

    /// Number of requests that the disk serves at once; more in flight bring no gain.
    pub fn served_at_once(&self) -> u64 {
        match self.model {
            DiskModel::Head => 1,
            DiskModel::Parallel => self.parallel_requests.max(1),
            DiskModel::Instant => u64::MAX,
        }
    }

    fn field_mut(&mut self, key: &str) -> Option<&mut u64> {
        Some(match key {
            "capacity_bytes" => &mut self.capacity_bytes,
            "bandwidth_bytes_per_s" => &mut self.bandwidth_bytes_per_s,
            "latency_ns" => &mut self.latency_ns,
            "parallel_requests" => &mut self.parallel_requests,
            "rate_requests_per_s" => &mut self.rate_requests_per_s,
            "seek_min_ns" => &mut self.seek_min_ns,
            "seek_span_ns" => &mut self.seek_span_ns,
            "half_turn_ns" => &mut self.half_turn_ns,
            "gap_limit_bytes" => &mut self.gap_limit_bytes,
            "gap_ns" => &mut self.gap_ns,
            "first_touch_bytes" => &mut self.first_touch_bytes,
            "first_touch_ns" => &mut self.first_touch_ns,
            "first_touch_parallel_requests" => &mut self.first_touch_parallel_requests,
            "first_touch_rate_requests_per_s" => &mut self.first_touch_rate_requests_per_s,
            _ => return None,
        })
    }
}

/// The kind of number that a parameter takes. The unit at the end of its name tells it.
#[derive(Clone, Copy)]
enum Kind {
    Time,
    Size,
    Count,
}

impl Kind {
    fn of(key: &str) -> Option<Self> {
        if key.ends_with("_ns") {
            Some(Self::Time)
        } else if key.ends_with("_bytes") || key.ends_with("_bytes_per_s") {
            Some(Self::Size)
        } else if key.ends_with("_requests") || key.ends_with("_requests_per_s") {
            Some(Self::Count)
        } else {
            None
        }
    }

    fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Time => TIME,
            Self::Size => SIZE,
            Self::Count => COUNT,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Time => "nanoseconds, or a number with ns, us, ms or s",
            Self::Size => "bytes, or a number with K, M, G, T, KB, MB, GB or TB",
            Self::Count => "a whole number",
        }
    }
}

fn model_from_text(value: &str) -> Result<DiskModel, ParameterError> {
    match value {
        "head" => Ok(DiskModel::Head),
        "parallel" => Ok(DiskModel::Parallel),
        "instant" => Ok(DiskModel::Instant),
        _ => Err(ParameterError::BadValue {
            key: "model".to_owned(),
            value: value.to_owned(),
            wanted: "head, parallel or instant",
        }),
    }
}

fn unknown_key(key: &str) -> ParameterError {
    let keys: Vec<&str> = PARAMETER_HELP
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|pair| pair.0)
        .collect();
    ParameterError::UnknownKey(key.to_owned(), keys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_exists_and_no_other() {
        for name in PRESET_NAMES {
            assert!(DiskParameters::preset(name).is_some(), "{name}");
        }
        assert_eq!(DiskParameters::preset("floppy"), None);
    }

    #[test]
    fn every_key_of_the_help_can_be_set() {
        for line in PARAMETER_HELP.lines().filter(|line| line.contains('=')) {
            let key = line.split_once('=').unwrap().0;
            let mut parameters = DiskParameters::preset("hdd").unwrap();
            let before = parameters.clone();
            let value = match key {
                "model" => "instant",
                "transfer_times" => "4K:1ms",
                _ => "12345",
            };
            parameters.set(key, value).unwrap();
            assert_ne!(parameters, before, "{key}");
        }
    }

    #[test]
    fn values_take_units() {
        let mut parameters = DiskParameters::preset("nvme").unwrap();
        parameters.set_assignment("latency_ns=2.5ms").unwrap();
        parameters
            .set_assignment("bandwidth_bytes_per_s = 40MB/s")
            .unwrap();
        assert_eq!(parameters.latency_ns, 2_500_000);
        assert_eq!(parameters.bandwidth_bytes_per_s, 40_000_000);
    }

    #[test]
    fn errors_name_the_remedy_and_change_nothing() {
        let mut parameters = DiskParameters::preset("nvme").unwrap();
        let before = parameters.clone();
        let unknown = parameters.set("latency", "1").unwrap_err().to_string();
        assert!(unknown.contains("latency_ns"), "{unknown}");
        let bad = parameters.set("latency_ns", "5MB").unwrap_err().to_string();
        assert!(bad.contains("ns, us, ms or s"), "{bad}");
        assert!(parameters.set("bandwidth_bytes_per_s", "0").is_err());
        assert!(parameters.set("parallel_requests", "0").is_err());
        assert!(parameters.set("model", "tape").is_err());
        assert!(parameters.set_assignment("latency_ns").is_err());
        assert_eq!(parameters, before);
    }
}
