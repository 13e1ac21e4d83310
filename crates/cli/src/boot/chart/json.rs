// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread.boot.chart/1`: sums of traced boots.

use foreread_boot::Mode;
use foreread_boot::chart::{ReadTotal, UnitChart};
use serde::Serialize;

use super::Drawn;

/// Times are in ns since the kernel's start.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChartJson {
    schema: &'static str,
    /// The oldest first.
    boots: Vec<BootJson>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BootJson {
    /// The kernel's random name of the boot.
    boot: String,
    /// Release of the kernel.
    kernel: String,
    /// Which replay it got.
    mode: Mode,
    traced_from_ns: u64,
    /// Null if the target was not reached.
    reached_ns: Option<u64>,
    lost_reads: u64,
    /// Reads that the boot itself made.
    demand: TotalJson,
    /// Reads of `boot serve`: its replay, and a little for itself.
    replay: TotalJson,
    /// Time with any read in flight.
    busy_ns: u64,
    /// Sum of the units' times with a read in flight.
    waited_ns: u64,
    /// Reads by disk.
    disks: Vec<DiskJson>,
    /// By the time that they waited, the longest first.
    units: Vec<UnitJson>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TotalJson {
    reads: u64,
    bytes: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DiskJson {
    /// Name of the disk.
    disk: String,
    /// 0 where it isn't known.
    bytes: u64,
    reads: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnitJson {
    /// Name of the systemd unit.
    unit: String,
    started_ns: Option<u64>,
    active_ns: Option<u64>,
    waited_ns: u64,
    reads: u64,
    bytes: u64,
}

pub fn document(drawn: &[Drawn]) -> ChartJson {
    ChartJson {
        schema: "foreread.boot.chart/1",
        boots: drawn.iter().map(boot).collect(),
    }
}

fn boot(drawn: &Drawn) -> BootJson {
    let Drawn { trace, chart } = drawn;
    let total = |total: ReadTotal| TotalJson {
        reads: total.requests,
        bytes: total.bytes,
    };
    let mut units: Vec<UnitJson> = chart.units.iter().map(unit).collect();
    units.sort_by(|one, other| {
        let of = |unit: &UnitJson| (std::cmp::Reverse(unit.waited_ns), unit.started_ns);
        of(one)
            .cmp(&of(other))
            .then_with(|| one.unit.cmp(&other.unit))
    });
    let disks = (0..).zip(&trace.disks).map(|(at, disk)| DiskJson {
        disk: disk.name.clone(),
        bytes: disk.bytes,
        reads: trace.reads.iter().filter(|read| read.disk == at).count() as u64,
    });
    BootJson {
        boot: trace.boot.clone(),
        kernel: trace.kernel.clone(),
        mode: trace.mode,
        traced_from_ns: trace.traced_from_ns,
        reached_ns: trace.reached_ns,
        lost_reads: trace.lost_reads,
        demand: total(chart.demand),
        replay: total(chart.replay),
        busy_ns: chart.busy_ns,
        waited_ns: chart.waited_ns,
        disks: disks.collect(),
        units,
    }
}

fn unit(unit: &UnitChart) -> UnitJson {
    UnitJson {
        unit: unit.name.clone(),
        started_ns: unit.started_ns,
        active_ns: unit.active_ns,
        waited_ns: unit.waited_ns(),
        reads: unit.reads.requests,
        bytes: unit.reads.bytes,
    }
}
