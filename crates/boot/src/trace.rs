// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace of one boot: its units with their times and their order, and each read of its disks.
//! It is stored as one JSON document, and `foreread boot chart` draws it. All times are in ns since
//! the kernel's start. Traces of earlier versions, which lack the order of units, are read as well.

use std::collections::{HashMap, HashSet};

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
/// Units that are kept for one unit of those that it is ordered after. A service has some 10, the
/// target of a desktop some 100. Only those that were active shortly before can have delayed it.
pub const AFTER_MAX: usize = 64;
/// Units of which systemd is asked again, since others are ordered after them. Debian with 40
/// services has some 60: ended ones, and other names of devices.
pub const ASKED_AGAIN_MAX: usize = 128;
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
    /// The default target, such as `graphical.target`; `None` in traces of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_target: Option<String>,
    /// The order in which systemd starts units; empty in traces of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<TracedOrder>,
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

impl TracedUnit {
    /// When those that are ordered after it could start: it was active, or had ended without ever
    /// being active, as a unit that runs a program once does.
    #[must_use]
    pub fn done_ns(&self, ended_ns: Option<u64>) -> Option<u64> {
        let started_ns = self.started_ns.unwrap_or(0);
        self.active_ns.or(ended_ns).filter(|at| *at >= started_ns)
    }
}

/// The units that one unit is ordered after (`After=`, and `Before=` of the others).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedOrder {
    /// Index of the unit in [`BootTrace::units`].
    pub unit: u16,
    /// Indices of those that it is ordered after and that are in the trace. Those that were done
    /// last come first; at most [`AFTER_MAX`].
    pub after: Vec<u16>,
    /// When the unit had ended; `None` if it runs on, or isn't known.
    pub ended_ns: Option<u64>,
}

/// The process that issued a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
            default_target: None,
            orders: Vec::new(),
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
            || self.orders.len() > UNITS_MAX
        {
            return Err("it has more reads, units or disks than a trace may have");
        }
        let units = self.units.iter();
        let times = units.flat_map(|unit| [unit.started_ns, unit.active_ns]);
        let ended = self.orders.iter().map(|order| order.ended_ns);
        let times = times.chain(ended).flatten().chain(self.reached_ns);
        let reads = self.reads.iter().map(TracedRead::end_ns);
        if times.chain(reads).max() > Some(TIME_NS_MAX) {
            return Err("a time is more than a day after the kernel's start");
        }
        for order in &self.orders {
            let mut named = order.after.iter().chain([&order.unit]);
            if order.after.len() > AFTER_MAX {
                return Err("a unit is ordered after more units than a trace may have");
            }
            if named.any(|unit| usize::from(*unit) >= self.units.len()) {
                return Err("the order of a unit that is not in it");
            }
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

/// A unit as systemd tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderedUnit {
    /// Its name and its times.
    pub unit: TracedUnit,
    /// When it had ended; `None` if it runs on, or isn't known.
    pub ended_ns: Option<u64>,
    /// Names of the units that it is ordered after.
    pub after: Vec<String>,
}

/// The units in the output of `systemctl show` with the properties `Id`,
/// `InactiveExitTimestampMonotonic`, `ActiveEnterTimestampMonotonic`, and, for their order,
/// `InactiveEnterTimestampMonotonic` and `After`. Those that were never started are left out.
#[must_use]
pub fn parse_ordered_units(text: &str) -> Vec<OrderedUnit> {
    let units = text.split("\n\n").filter_map(|block| {
        let mut told = OrderedUnit::default();
        for (key, value) in block.lines().filter_map(|line| line.split_once('=')) {
            match key {
                "Id" => told.unit.name = value.to_owned(),
                "InactiveExitTimestampMonotonic" => told.unit.started_ns = ns_of_micros(value),
                "ActiveEnterTimestampMonotonic" => told.unit.active_ns = ns_of_micros(value),
                "InactiveEnterTimestampMonotonic" => told.ended_ns = ns_of_micros(value),
                "After" => told.after = value.split_whitespace().map(unquoted).collect(),
                _ => {}
            }
        }
        let has_time = told.unit.started_ns.is_some() || told.unit.active_ns.is_some();
        (has_time && !told.unit.name.is_empty()).then_some(told)
    });
    units.take(UNITS_MAX).collect()
}

/// A name in a list. systemd quotes one with a backslash as a shell does; versions before 240 wrote
/// each backslash as `\x5c`.
fn unquoted(word: &str) -> String {
    let quoted = word
        .strip_prefix('"')
        .and_then(|word| word.strip_suffix('"'));
    let Some(quoted) = quoted else {
        return word.replace("\\x5c", "\\");
    };
    let mut name = String::with_capacity(quoted.len());
    let mut rest = quoted.chars();
    while let Some(c) = rest.next() {
        name.push(match c {
            '\\' => rest.next().unwrap_or(c),
            c => c,
        });
    }
    name
}

/// The same without the order of the units.
#[must_use]
pub fn parse_units(text: &str) -> Vec<TracedUnit> {
    let told = parse_ordered_units(text).into_iter();
    told.map(|told| told.unit).collect()
}

/// Names of units that others are ordered after and that nothing was told of. systemd tells of a
/// unit that has ended, and of another name of a device, only if it is asked for by name.
#[must_use]
pub fn untold(told: &[OrderedUnit]) -> Vec<&str> {
    let known: HashSet<&str> = told.iter().map(|told| &*told.unit.name).collect();
    let mut seen = HashSet::new();
    let names = told.iter().flat_map(|told| &told.after).map(String::as_str);
    let names = names.filter(|name| !known.contains(name) && seen.insert(*name));
    names.take(ASKED_AGAIN_MAX).collect()
}

/// The order of the units of a trace, as systemd tells it.
#[must_use]
pub fn orders(units: &[TracedUnit], told: &[OrderedUnit]) -> Vec<TracedOrder> {
    let indices: HashMap<&str, u16> = (0..=u16::MAX)
        .zip(units)
        .map(|(index, unit)| (&*unit.name, index))
        .collect();
    let done: HashMap<&str, Option<u64>> = told
        .iter()
        .map(|told| (&*told.unit.name, told.unit.done_ns(told.ended_ns)))
        .collect();
    let order = |told: &OrderedUnit| {
        let unit = *indices.get(&*told.unit.name)?;
        let mut after: Vec<(Option<u64>, u16)> = told
            .after
            .iter()
            .filter_map(|name| {
                let (name, index) = indices.get_key_value(&**name)?;
                Some((done.get(name).copied().flatten(), *index))
            })
            .filter(|(_, index)| *index != unit)
            .collect();
        after.sort_by_key(|(done_ns, index)| (std::cmp::Reverse(*done_ns), *index));
        after.dedup();
        after.truncate(AFTER_MAX);
        let after: Vec<u16> = after.into_iter().map(|(_, index)| index).collect();
        let is_told = !after.is_empty() || told.ended_ns.is_some();
        is_told.then_some(TracedOrder {
            unit,
            after,
            ended_ns: told.ended_ns,
        })
    };
    told.iter().take(UNITS_MAX).filter_map(order).collect()
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
        trace.default_target = Some("graphical.target".into());
        trace.orders.push(TracedOrder {
            unit: 0,
            after: vec![0],
            ended_ns: Some(9),
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
    fn a_trace_of_an_earlier_version_is_read() {
        let old = r#"{"schema":"foreread.boot.trace/1","boot":"b","stored_unix_s":1,
            "kernel":"6.1","mode":"plain","traced_from_ns":5,"reached_ns":null,"lost_reads":0,
            "disks":[{"name":"sda","bytes":512}],
            "units":[{"name":"a.service","started_ns":1,"active_ns":null}],
            "reads":[{"at_ns":5,"took_ns":3,"disk":0,"sector":0,"bytes":512,"by":{"unit":0},
                      "process":"a"}]}"#;
        let trace = BootTrace::from_json(old.as_bytes()).unwrap();
        assert_eq!((trace.units.len(), trace.reads.len()), (1, 1));
        assert_eq!((trace.default_target, trace.orders), (None, Vec::new()));
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
        let order = |unit, after: &[u16]| TracedOrder {
            unit,
            after: after.to_vec(),
            ended_ns: None,
        };
        for bad in [order(1, &[0]), order(0, &[1])] {
            assert!(refused(&|t| t.orders.push(bad.clone())).contains("the order of a unit"));
        }
        let many = order(0, &[0; AFTER_MAX + 1]);
        assert!(refused(&|t| t.orders.push(many.clone())).contains("after more units"));
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

    /// A block of `systemctl show`, with times in ms.
    fn told(id: &str, started: u64, active: u64, ended: u64, after: &str) -> String {
        format!(
            "Id={id}\nAfter={after}\nInactiveExitTimestampMonotonic={started}000\n\
             ActiveEnterTimestampMonotonic={active}000\n\
             InactiveEnterTimestampMonotonic={ended}000\n\n"
        )
    }

    #[test]
    fn units_are_ordered_after_those_that_were_done_last() {
        let device = r"dev-disk-by\x2duuid-1.device";
        let text = [
            told("early.service", 1, 2, 0, ""),
            told(device, 3, 3, 0, ""),
            told("once.service", 2, 0, 5, "early.service"),
            told(
                "late.service",
                6,
                7,
                0,
                r#"early.service "dev-disk-by\\x2duuid-1.device" once.service late.service gone"#,
            ),
        ]
        .concat();
        let told = parse_ordered_units(&text);
        assert_eq!(told[3].after[1], device);
        assert_eq!(untold(&told), ["gone"]);
        // They have other places in the trace.
        let units: Vec<TracedUnit> = told.iter().rev().map(|told| told.unit.clone()).collect();
        let orders = orders(&units, &told);
        let of = |unit: u16| orders.iter().find(|order| order.unit == unit);
        assert_eq!(of(0).map(|order| &order.after[..]), Some(&[1, 2, 3][..]));
        assert_eq!(of(1).and_then(|order| order.ended_ns), Some(5_000_000));
        assert_eq!(of(3), None, "nothing is told of it");
    }

    #[test]
    fn names_lose_their_quotes() {
        for (word, name) in [
            ("ssh.service", "ssh.service"),
            (r#""a\\x2db.device""#, r"a\x2db.device"),
            (r"a\x5cx2db.device", r"a\x2db.device"),
            (r#""""#, ""),
            (r#"""#, r#"""#),
        ] {
            assert_eq!(unquoted(word), name);
        }
    }

    #[test]
    fn orders_and_questions_are_bounded() {
        let unit = |number: usize| OrderedUnit {
            unit: TracedUnit {
                name: format!("{number}.service"),
                started_ns: Some(1),
                active_ns: Some(1),
            },
            after: (0..400).map(|number| format!("{number}.service")).collect(),
            ..OrderedUnit::default()
        };
        let told: Vec<OrderedUnit> = (0..200).map(unit).collect();
        assert_eq!(untold(&told).len(), ASKED_AGAIN_MAX);
        let units: Vec<TracedUnit> = told.iter().map(|told| told.unit.clone()).collect();
        let mut trace = sample();
        trace.orders = orders(&units, &told);
        trace.units = units;
        assert_eq!(trace.orders.len(), 200);
        assert!(BootTrace::from_json(&trace.to_json().unwrap()).is_ok());
    }

    #[test]
    fn a_unit_is_done_when_it_is_active_or_has_ended() {
        let unit = |active_ns| TracedUnit {
            name: String::new(),
            started_ns: Some(5),
            active_ns,
        };
        assert_eq!(unit(Some(7)).done_ns(Some(9)), Some(7));
        assert_eq!(unit(None).done_ns(Some(9)), Some(9));
        // It was started again.
        assert_eq!(unit(None).done_ns(Some(4)), None);
        assert_eq!(unit(None).done_ns(None), None);
    }
}
