// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of probes, kept from one to the next, for advice.

use foreread_core::KiB;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// Name and version of the stored form.
const SCHEMA: &str = "foreread.measured/1";
/// Devices remembered; the oldest measurement goes first. Above what any machine has.
const MEASURED_MAX: usize = 4096;

/// One readahead size of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepPoint {
    /// The kernel's maximum window while it was read, in KiB.
    pub read_ahead_kib: u64,
    /// Throughput, in bytes a second: the median of the faster half of its passes.
    pub bytes_per_s: f64,
    /// Lower end of the 95 % confidence interval of that.
    pub bytes_per_s_low: f64,
    /// Upper end.
    pub bytes_per_s_high: f64,
    /// Passes measured.
    pub passes: u64,
}

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// The device that was read.
    pub identity: Identity,
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// Throughput by readahead size, by size.
    pub sweep: Vec<SweepPoint>,
    /// The smallest size within 2 % of the best.
    pub plateau_kib: u64,
    /// Whether the sweep was complete and leaves no other plateau. Only then it is used for advice.
    /// Earlier versions did not keep it: their measurements are as good as not certain.
    #[serde(default)]
    pub certain: bool,
    /// Cost of a request besides the transfer of its bytes, in nanoseconds, fitted.
    pub request_cost_ns: f64,
    /// Bandwidth of the device, in bytes a second, fitted.
    pub bandwidth_bytes_per_s: f64,
    /// Median time of a single small read at queue depth 1, in nanoseconds.
    pub latency_ns: Option<f64>,
    /// Throughput of many small reads at once, as a multiple of one after the other.
    pub speed_up: Option<f64>,
}

impl Measured {
    /// The plateau as a size.
    #[must_use]
    pub fn plateau(&self) -> KiB {
        KiB::new(self.plateau_kib)
    }
}

/// Measurements of all devices, the newest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredBook {
    all: Vec<Measured>,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Stored {
    schema: String,
    measured: Vec<Measured>,
}

/// Why a stored book can't be read.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredBookError {
    /// Not JSON, or not of this shape.
    #[error("it is no book of measurements: {0}")]
    Shape(#[from] serde_json::Error),
    /// The book is of another program or version.
    #[error("it is of schema {0}, and {SCHEMA} is read")]
    Schema(String),
}

impl MeasuredBook {
    /// Reads the output of [`MeasuredBook::to_json`].
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_json(text: &str) -> Result<Self, MeasuredBookError> {
        let stored: Stored = serde_json::from_str(text)?;
        if stored.schema != SCHEMA {
            return Err(MeasuredBookError::Schema(stored.schema));
        }
        Ok(Self {
            all: stored.measured,
        })
    }

    /// As JSON, for keeping.
    ///
    /// # Errors
    /// When a number is none (`NaN`).
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&Stored {
            schema: SCHEMA.to_owned(),
            measured: self.all.clone(),
        })
    }

    /// Adds a measurement, in place of earlier ones of the same device. One that is not certain
    /// doesn't replace one that is. Returns whether it was added.
    pub fn push(&mut self, measured: Measured) -> bool {
        let has_certain = |known: &Measured| known.certain;
        if !measured.certain && self.of(&measured.identity).is_some_and(has_certain) {
            return false;
        }
        self.all
            .retain(|known| !known.identity.is_same_device(&measured.identity));
        self.all.push(measured);
        let excess = self.all.len().saturating_sub(MEASURED_MAX);
        self.all.drain(..excess);
        true
    }

    /// The measurement of a device.
    #[must_use]
    pub fn of(&self, identity: &Identity) -> Option<&Measured> {
        let same = |known: &&Measured| known.identity.is_same_device(identity);
        self.all.iter().rev().find(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, serial: &str, plateau_kib: u64) -> Measured {
        Measured {
            identity: Identity {
                name: name.to_owned(),
                serial: Some(serial.to_owned()),
                ..Identity::default()
            },
            unix_s: 1_700_000_000,
            sweep: vec![SweepPoint {
                read_ahead_kib: 128,
                bytes_per_s: 1e8,
                bytes_per_s_low: 9.9e7,
                bytes_per_s_high: 1.01e8,
                passes: 3,
            }],
            plateau_kib,
            certain: true,
            request_cost_ns: 9e4,
            bandwidth_bytes_per_s: 1.5e9,
            latency_ns: Some(1e5),
            speed_up: None,
        }
    }

    #[test]
    fn the_last_measurement_of_a_device_counts() {
        let mut book = MeasuredBook::default();
        book.push(measured("sda", "one", 128));
        book.push(measured("sdb", "two", 256));
        book.push(measured("sdc", "one", 512));
        assert_eq!(book.all.len(), 2);
        assert_eq!(
            book.of(&measured("sdz", "one", 0).identity)
                .unwrap()
                .plateau(),
            KiB::new(512)
        );
        assert_eq!(book.of(&measured("sda", "three", 0).identity), None);
    }

    #[test]
    fn a_guess_replaces_no_certain_measurement() {
        let guess = |plateau_kib| Measured {
            certain: false,
            ..measured("sda", "one", plateau_kib)
        };
        let mut book = MeasuredBook::default();
        let kept = |book: &MeasuredBook| book.of(&guess(0).identity).unwrap().plateau_kib;
        assert!(book.push(guess(32)) && book.push(guess(64)));
        assert_eq!(kept(&book), 64);
        assert!(book.push(measured("sda", "one", 128)));
        assert!(!book.push(guess(8192)));
        assert_eq!(kept(&book), 128);
        assert!(book.push(measured("sda", "one", 256)));
        assert_eq!(kept(&book), 256);
    }

    #[test]
    fn a_measurement_of_an_earlier_version_is_a_guess() {
        let mut book = MeasuredBook::default();
        book.push(measured("sda", "one", 128));
        let text = book.to_json().unwrap();
        let earlier = text.replace("\"certain\": true,", "");
        assert_ne!(text, earlier);
        let book = MeasuredBook::from_json(&earlier).unwrap();
        assert!(
            !book
                .of(&measured("sda", "one", 0).identity)
                .unwrap()
                .certain
        );
    }

    #[test]
    fn a_book_is_read_as_it_was_written() {
        let mut book = MeasuredBook::default();
        book.push(measured("sda", "one", 128));
        let text = book.to_json().unwrap();
        assert_eq!(MeasuredBook::from_json(&text).unwrap(), book);
        for bad in [
            "",
            "{}",
            "[]",
            "{\"schema\":\"x/1\",\"measured\":[]}",
            &text[..40],
        ] {
            assert!(MeasuredBook::from_json(bad).is_err(), "{bad}");
        }
    }
}
