// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace of one boot: its units with their times, and each read of its disks. It is stored as
//! one JSON document, and `foreread boot chart` draws it. All times are in ns since the kernel's
//! start.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::history::Mode;

/// Name and version of the stored form.
const SCHEMA: &str = "foreread.boot.trace/1";
/// Reads of one trace. A boot of 40 services makes some 3,000; this bounds memory to 16 MiB.
pub const READS_MAX: usize = 200_000;
/// Units of one trace.
pub const UNITS_MAX: usize = 4096;
/// Disks of one trace.
pub const DISKS_MAX: usize = 64;
/// No boot takes a day. Later times are damage, and would overflow sums.
const TIME_NS_MAX: u64 = 86_400_000_000_000;

/// The trace of one boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootTrace {
    schema: String,
    /// The kernel's random name of the boot.
    pub boot: String,
    /// Seconds since 1970 when the trace was stored.
    pub stored_unix_s: u64,
    /// Release of the kernel, as in `uname -r`.
    pub kernel: String,
    /// What the boot was given.
    pub mode: Mode,
    /// Start of the trace. Earlier reads are not in it.
    pub traced_from_ns: u64,
    /// When the boot reached its target; `None` if it did not.
    pub reached_ns: Option<u64>,
    /// Reads that are missing: there was no room for them.
    pub lost_reads: u64,
    /// The disks, named by index in [`TracedRead::disk`].
    pub disks: Vec<TracedDisk>,
    /// The units, named by index in [`Reader::Unit`].
    pub units: Vec<TracedUnit>,
    /// The reads, by the time when they were queued.
    pub reads: Vec<TracedRead>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedDisk {
    /// Its name below `/dev`.
    pub name: String,
    /// Its size; 0 where it isn't known.
    pub bytes: u64,
}

/// A unit of systemd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedUnit {
    /// Its name, such as `ssh.service`.
    pub name: String,
    /// When systemd began to start it; `None` if it did not, or isn't known.
    pub started_ns: Option<u64>,
    /// When it was active; likewise.
    pub active_ns: Option<u64>,
}

/// The process that issued a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reader {
    /// Foreread itself, ahead of the boot.
    Replay,
    /// A process of this unit.
    Unit(u16),
    /// A process of no unit, such as a kernel thread.
    Other,
}

impl Reader {
    /// Whether a process of the boot asked for it.
    #[must_use]
    pub const fn is_demand(self) -> bool {
        !matches!(self, Self::Replay)
    }
}

/// One read, as it was queued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedRead {
    /// When it was queued.
    pub at_ns: u64,
    /// Time until all of it was there.
    pub took_ns: u64,
    /// Index of the disk.
    pub disk: u16,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Its size.
    pub bytes: u64,
    /// The process that issued it.
    pub by: Reader,
    /// Name of the thread.
    pub process: String,
}

impl TracedRead {
    /// When all of it was there.
    #[must_use]
    pub const fn end_ns(&self) -> u64 {
        self.at_ns.saturating_add(self.took_ns)
    }
}

/// Why a stored trace can't be used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Not JSON, or not of this shape.
    #[error("it is no trace of a boot: {0}")]
    Shape(#[from] serde_json::Error),
    /// Of another program or version.
    #[error("it is of schema {0}, and {SCHEMA} is read")]
    Schema(String),
    /// A number is out of its range.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

impl BootTrace {
    /// An empty trace.
    #[must_use]
    pub fn new(boot: String, kernel: String, mode: Mode) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            boot,
            stored_unix_s: 0,
            kernel,
            mode,
            traced_from_ns: 0,
            reached_ns: None,
            lost_reads: 0,
            disks: Vec::new(),
            units: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// Reads the output of [`BootTrace::to_json`].
    ///
    /// # Errors
    /// [`TraceError`] when it is something else, or above the limits of a trace.
    pub fn from_json(text: &[u8]) -> Result<Self, TraceError> {
        let trace: Self = serde_json::from_slice(text)?;
        if trace.schema != SCHEMA {
            return Err(TraceError::Schema(trace.schema));
        }
        trace.check().map_err(TraceError::Damaged)?;
        Ok(trace)
    }

    /// One line of JSON.
    ///
    /// # Errors
    /// None that a trace can cause; the serializer has them.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.reads.len() > READS_MAX
            || self.units.len() > UNITS_MAX
            || self.disks.len() > DISKS_MAX
        {
            return Err("it has more reads, units or disks than a trace may have");
        }
        let units = self.units.iter();
        let times = units.flat_map(|unit| [unit.started_ns, unit.active_ns]);
        let times = times.flatten().chain(self.reached_ns);
        let reads = self.reads.iter().map(TracedRead::end_ns);
        if times.chain(reads).max() > Some(TIME_NS_MAX) {
            return Err("a time is more than a day after the kernel's start");
        }
        for read in &self.reads {
            if usize::from(read.disk) >= self.disks.len() {
                return Err("a read is of a disk that is not in it");
            }
            if matches!(read.by, Reader::Unit(unit) if usize::from(unit) >= self.units.len()) {
                return Err("a read is of a unit that is not in it");
            }
            let begin = read.sector.checked_mul(512);
            if begin
                .and_then(|begin| begin.checked_add(read.bytes))
                .is_none()
            {
                return Err("a read is beyond the end of any disk");
            }
        }
        Ok(())
    }
}

/// The unit that a control group belongs to: `/system.slice/ssh.service` is that of `ssh.service`.
/// The units of a user's own manager belong to that manager.
#[must_use]
pub fn unit_of_group(path: &str) -> Option<&str> {
    const KINDS: [&str; 5] = [".service", ".scope", ".mount", ".swap", ".socket"];
    let mut parts = path.split('/');
    parts.find(|part| KINDS.iter().any(|kind| part.ends_with(kind)))
}

/// The units in the output of `systemctl show` with the properties `Id`,
/// `InactiveExitTimestampMonotonic` and `ActiveEnterTimestampMonotonic`. Those that were never
/// started are left out.
#[must_use]
pub fn parse_units(text: &str) -> Vec<TracedUnit> {
    let units = text.split("\n\n").filter_map(|block| {
        let mut unit = TracedUnit::default();
        for (key, value) in block.lines().filter_map(|line| line.split_once('=')) {
            match key {
                "Id" => unit.name = value.to_owned(),
                "InactiveExitTimestampMonotonic" => unit.started_ns = ns_of_micros(value),
                "ActiveEnterTimestampMonotonic" => unit.active_ns = ns_of_micros(value),
                _ => {}
            }
        }
        let has_time = unit.started_ns.is_some() || unit.active_ns.is_some();
        (has_time && !unit.name.is_empty()).then_some(unit)
    });
    units.take(UNITS_MAX).collect()
}

/// Of microseconds; 0 is unknown.
fn ns_of_micros(text: &str) -> Option<u64> {
    let micros: u64 = text.trim().parse().ok()?;
    micros
        .checked_mul(1000)
        .filter(|ns| (1..=TIME_NS_MAX).contains(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BootTrace {
        let mut trace = BootTrace::new("b".into(), "6.1".into(), Mode::Plain);
        trace.disks.push(TracedDisk {
            name: "sda".into(),
            bytes: 1 << 30,
        });
        trace.units.push(TracedUnit {
            name: "ssh.service".into(),
            started_ns: Some(1),
            active_ns: None,
        });
        for by in [Reader::Replay, Reader::Unit(0), Reader::Other] {
            trace.reads.push(TracedRead {
                at_ns: 5,
                took_ns: 3,
                disk: 0,
                sector: 8,
                bytes: 4096,
                by,
                process: "sshd".into(),
            });
        }
        trace
    }

    #[test]
    fn a_trace_comes_back_as_it_was() {
        let json = sample().to_json().unwrap();
        assert_eq!(BootTrace::from_json(&json).unwrap(), sample());
        let text = String::from_utf8(json).unwrap();
        assert!(text.contains("\"by\":{\"unit\":0}"), "{text}");
        assert!(text.contains("\"by\":\"replay\""), "{text}");
    }

    #[test]
    fn damage_is_told() {
        let refused = |change: &dyn Fn(&mut BootTrace)| {
            let mut trace = sample();
            change(&mut trace);
            let json = trace.to_json().unwrap();
            BootTrace::from_json(&json).unwrap_err().to_string()
        };
        assert!(refused(&|t| t.reads[0].disk = 1).contains("disk that is not in it"));
        assert!(refused(&|t| t.reads[1].by = Reader::Unit(1)).contains("unit that is not"));
        assert!(refused(&|t| t.reads[0].sector = u64::MAX).contains("beyond the end"));
        assert!(refused(&|t| t.reads[0].took_ns = u64::MAX).contains("more than a day"));
        assert!(refused(&|t| t.reached_ns = Some(u64::MAX)).contains("more than a day"));
        assert!(refused(&|t| t.schema = "x/9".into()).contains("of schema x/9"));
        assert!(BootTrace::from_json(b"{").is_err());
    }

    #[test]
    fn a_group_belongs_to_the_first_unit_on_its_path() {
        for (path, unit) in [
            ("/system.slice/ssh.service", Some("ssh.service")),
            (
                "/system.slice/system-getty.slice/getty@tty1.service",
                Some("getty@tty1.service"),
            ),
            (
                "/user.slice/user-0.slice/user@0.service/app.slice/x.service",
                Some("user@0.service"),
            ),
            ("/init.scope", Some("init.scope")),
            ("/", None),
            ("/system.slice", None),
        ] {
            assert_eq!(unit_of_group(path), unit, "{path}");
        }
    }

    #[test]
    fn units_without_times_are_left_out() {
        let text = "Id=a.service\nInactiveExitTimestampMonotonic=1500\n\
                    ActiveEnterTimestampMonotonic=0\n\nId=b.mount\n\
                    InactiveExitTimestampMonotonic=0\nActiveEnterTimestampMonotonic=0\n\n\
                    Id=c.target\nActiveEnterTimestampMonotonic=99999999999999999999\n";
        let units = parse_units(text);
        assert_eq!(units.len(), 1, "{units:?}");
        assert_eq!(
            (units[0].started_ns, units[0].active_ns),
            (Some(1_500_000), None)
        );
        assert_eq!(parse_units(""), []);
    }
}
