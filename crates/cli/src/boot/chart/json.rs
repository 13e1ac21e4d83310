// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread.boot.chart/1`: sums of traced boots.

use foreread_boot::Mode;
use foreread_boot::chart::{Chart, ReadTotal, UnitChart};
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
    /// Name of the default target; null where the trace doesn't tell.
    default_target: Option<String>,
    /// The units that the default target waited for: each was started after the one before it, and
    /// the target is the last one. Null where the trace doesn't tell.
    critical_chain: Option<Vec<String>>,
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
    /// When those that are ordered after it could start: it was active, or had ended.
    done_ns: Option<u64>,
    /// Of the units that it is ordered after, the one that was done last before it started. Null
    /// where there is none, or the trace doesn't tell.
    started_after: Option<AfterJson>,
    /// Time with a read of its processes in flight. It is the sum of the next four.
    waited_ns: u64,
    /// Of that, time in which the disk served this unit. Like the next three it is an
    /// approximation: a disk is taken to serve the read that completes next.
    served_ns: u64,
    /// Time in which the disk served the replay.
    behind_replay_ns: u64,
    /// Time in which the disk served other units.
    behind_units_ns: u64,
    /// Time in which the disk served processes of no unit.
    behind_other_ns: u64,
    /// These other units, the longest time first.
    behind: Vec<BehindJson>,
    reads: u64,
    bytes: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AfterJson {
    /// Name of the systemd unit.
    unit: String,
    /// Time from when that was done until this one started. After more than half a second,
    /// something else was waited for.
    gap_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BehindJson {
    /// Name of the systemd unit.
    unit: String,
    /// Time in which the disk served it.
    behind_ns: u64,
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
    let units = chart.units.iter().map(|of| unit(chart, of));
    let mut units: Vec<UnitJson> = units.collect();
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
        default_target: trace.default_target.clone(),
        critical_chain: (!chart.chain.is_empty()).then(|| {
            let units = chart.chain.iter().map(|place| chart.name(*place));
            units.map(str::to_owned).collect()
        }),
        units,
    }
}

fn unit(chart: &Chart, unit: &UnitChart) -> UnitJson {
    let behind = unit.served.units.iter().map(|(other, ns)| BehindJson {
        unit: chart.name(*other).to_owned(),
        behind_ns: *ns,
    });
    UnitJson {
        unit: unit.name.clone(),
        started_ns: unit.started_ns,
        active_ns: unit.active_ns,
        done_ns: unit.done_ns,
        started_after: unit.after.map(|after| AfterJson {
            unit: chart.name(after.unit).to_owned(),
            gap_ns: after.gap_ns,
        }),
        waited_ns: unit.waited_ns(),
        served_ns: unit.served.own_ns,
        behind_replay_ns: unit.served.replay_ns,
        behind_units_ns: unit.served.units_ns(),
        behind_other_ns: unit.served.other_ns,
        behind: behind.collect(),
        reads: unit.reads.requests,
        bytes: unit.reads.bytes,
    }
}
