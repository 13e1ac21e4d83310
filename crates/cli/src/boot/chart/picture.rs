// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots as SVG: units over time with the chain that the default target waited for, and the reads
//! of disks over time and position. Two boots have the same scales, one below the other.

use std::collections::HashSet;
use std::fmt::Write as _;

use foreread_boot::chart::{Chart, StartedAfter, UnitChart, select};
use foreread_boot::trace::TracedRead;
use foreread_model::Extent;

use super::{Drawn, headline, sums};
use crate::output;
use crate::picture::axis::{TimeAxis, rounded};
use crate::picture::frame::{self, Entry, Mark, Span};
use crate::picture::positions::Positions;
use crate::picture::style::{TEXT_PX, fitted};
use crate::picture::svg::{Svg, group, label, rect};

const WIDTH: u32 = 1200;
const LEFT: f64 = 250.0;
const PLOT_WIDTH: f64 = 920.0;
/// Where titles and the legend are.
const SPAN: Span = Span {
    left: 24.0,
    width: 1152.0,
};
/// Of a unit.
const ROW_HEIGHT: f64 = 16.0;
const BAR_HEIGHT: f64 = 10.0;
const DISK_HEIGHT: f64 = 220.0;
/// The middle of the legend's first row.
const LEGEND_TOP: f64 = 54.0;
/// The lines above the plots of a boot.
const HEAD_HEIGHT: f64 = 58.0;
/// Between two plots of a boot.
const GAP: f64 = 30.0;
/// The axis of time and the space below a boot.
const FOOT_HEIGHT: f64 = 62.0;
const UNITS_MAX: usize = 40;
const DISKS_MAX: usize = 3;
/// Unit of positions on a disk, in bytes.
const MIB: u64 = 1 << 20;

const STYLE: &str = "
.demand, .ahead { stroke-width: 1.6 } .bar { opacity: 0.55 } .target { stroke-width: 1.5 }
.chain { stroke-width: 1.2 }
";

const BAR: &str = "bar fill-grey";
const INSTANT: &str = "fill-quiet";
const WAIT: &str = "fill-vermilion";
const DEMAND: &str = "demand line-vermilion";
const AHEAD: &str = "ahead line-blue";
const TARGET: &str = "target line-green";
/// Units that the default target waited for.
const CHAIN_BAR: &str = "bar fill-violet";
const CHAIN_INSTANT: &str = "fill-violet";
const CHAIN_NAME: &str = "unit fill-violet";
const CHAIN: &str = "chain line-violet";

const LEGEND: [Entry; 6] = [
    (
        Mark::Fill,
        BAR,
        "unit: from its start until it is active or has ended",
    ),
    (Mark::Fill, WAIT, "a read of the unit is in flight"),
    (Mark::Line, DEMAND, "read of the boot"),
    (Mark::Line, AHEAD, "read of Foreread, ahead of the boot"),
    (Mark::Line, TARGET, "the boot's target"),
    // The last one: it is left out where no trace tells of it.
    (
        Mark::Line,
        CHAIN,
        "the default target waited for this unit: from its end to the next one's start",
    ),
];

/// What all boots of a picture share.
struct Shared {
    end_ns: u64,
    times: TimeAxis,
    units: Vec<String>,
    left_out: usize,
    disks: Vec<(String, Positions)>,
}

impl Shared {
    fn of(boots: &[Drawn]) -> Self {
        let charts: Vec<&Chart> = boots.iter().map(|boot| &boot.chart).collect();
        let (units, left_out) = select(&charts, UNITS_MAX);
        let end_ns = charts.iter().map(|chart| chart.end_ns).max().unwrap_or(1);
        Self {
            end_ns,
            times: TimeAxis::new(0, end_ns, PLOT_WIDTH),
            units,
            left_out,
            disks: disks(boots),
        }
    }

    fn x(&self, at_ns: u64) -> f64 {
        self.times.at(at_ns.min(self.end_ns))
    }

    fn units_height(&self) -> f64 {
        (self.units.len().max(1) as f64) * ROW_HEIGHT + 8.0
    }

    fn boot_height(&self) -> f64 {
        let disks = self.disks.len() as f64 * (DISK_HEIGHT + GAP);
        HEAD_HEIGHT + self.units_height() + disks + FOOT_HEIGHT
    }
}

/// Names of the disks that were read most, with the positions that were read in any boot.
fn disks(boots: &[Drawn]) -> Vec<(String, Positions)> {
    let mut found: Vec<(&str, Vec<Extent>)> = Vec::new();
    for Drawn { trace, .. } in boots {
        for (at, disk) in (0..).zip(&trace.disks) {
            let reads = trace.reads.iter().filter(|read| read.disk == at);
            let extents = reads.map(|read| Extent {
                offset_bytes: read.sector.saturating_mul(512),
                length_bytes: read.bytes,
            });
            match found.iter_mut().find(|(name, _)| *name == disk.name) {
                Some((_, known)) => known.extend(extents),
                None => found.push((&disk.name, extents.collect())),
            }
        }
    }
    found.retain(|(_, extents)| !extents.is_empty());
    found.sort_by_key(|(_, extents)| std::cmp::Reverse(extents.len()));
    found.truncate(DISKS_MAX);
    let of = |(name, extents): (&str, Vec<Extent>)| {
        (name.to_owned(), Positions::of(&extents, DISK_HEIGHT, MIB))
    };
    found.into_iter().map(of).collect()
}

pub fn picture(boots: &[Drawn]) -> String {
    let shared = Shared::of(boots);
    let has_chain = boots.iter().any(|boot| !boot.chart.chain.is_empty());
    let legend = match has_chain {
        true => &LEGEND[..],
        false => &LEGEND[..LEGEND.len() - 1],
    };
    let head = LEGEND_TOP + frame::legend_height(legend, SPAN.width);
    let height = (head + shared.boot_height() * boots.len() as f64).ceil() as u32;
    let title = match boots.len() {
        1 => "A boot",
        _ => "Boots",
    };
    let mut svg = frame::titled(WIDTH, height, SPAN.left, title, STYLE);
    frame::legend(&mut svg, SPAN, LEGEND_TOP, legend);
    for (at, boot) in boots.iter().enumerate() {
        let top = head + shared.boot_height() * at as f64;
        group(&mut svg, 0.0, top);
        draw(&mut svg, &shared, boot);
        svg.end();
    }
    svg.finish()
}

/// One boot, from the top of its part of the picture.
fn draw(svg: &mut Svg, shared: &Shared, boot: &Drawn) {
    frame::name(svg, (SPAN.left, 22.0), SPAN.width, &headline(&boot.trace));
    frame::note(svg, (SPAN.left, 42.0), SPAN.width, &sums(boot));
    let mut top = HEAD_HEIGHT;
    group(svg, LEFT, top);
    units(svg, shared, &boot.chart);
    target(svg, shared, boot, shared.units_height());
    svg.end();
    top += shared.units_height() + GAP;
    for (name, positions) in &shared.disks {
        group(svg, LEFT, top);
        disk(svg, shared, boot, name, positions);
        target(svg, shared, boot, DISK_HEIGHT);
        svg.end();
        top += DISK_HEIGHT + GAP;
    }
    group(svg, LEFT, top - GAP);
    axis(svg, shared);
    svg.end();
}

fn units(svg: &mut Svg, shared: &Shared, chart: &Chart) {
    plot(svg, shared, shared.units_height());
    for (row, name) in shared.units.iter().enumerate() {
        let top = 4.0 + row as f64 * ROW_HEIGHT;
        let at = (-8.0, top + ROW_HEIGHT - 4.0);
        let place = chart.units.iter().position(|unit| unit.name == *name);
        let class = match place.is_some_and(|place| chart.chain.contains(&place)) {
            true => CHAIN_NAME,
            false => "unit",
        };
        label(svg, at, "end", class, &fitted(name, TEXT_PX, LEFT - 16.0));
        if let Some(place) = place {
            let top = top + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
            bar(svg, shared, chart, place, top);
        }
    }
    chain(svg, shared, chart);
    if shared.left_out > 0 {
        let units = output::counted(shared.left_out as u64, "unit is", "units are");
        let text = format!("{units} left out: they took less time");
        let at = (PLOT_WIDTH, shared.units_height() + 16.0);
        label(svg, at, "end", "quiet", &text);
    }
}

/// What the default target waited for: lines from where a unit was done to where the next one was
/// started. After a long gap there is none, since something else was waited for.
fn chain(svg: &mut Svg, shared: &Shared, chart: &Chart) {
    let middle = |place: usize| {
        let name = chart.name(place);
        let row = shared.units.iter().position(|known| known == name)?;
        Some(rounded(4.0 + (row as f64 + 0.5) * ROW_HEIGHT))
    };
    let line = |place: &usize| {
        let unit = chart.units.get(*place)?;
        let after = unit.after.filter(StartedAfter::is_close)?;
        let done_ns = chart.units.get(after.unit)?.done_ns?;
        let started_ns = unit.started_ns.filter(|at| *at <= shared.end_ns)?;
        let (from, to) = (middle(after.unit)?, middle(*place)?);
        let (left, right) = (rounded(shared.x(done_ns)), rounded(shared.x(started_ns)));
        Some(format!("M{left} {from}V{to}H{right}"))
    };
    let path: String = chart.chain.iter().filter_map(line).collect();
    if !path.is_empty() {
        svg.empty("path", &[("class", &CHAIN), ("d", &path)]);
    }
}

/// What is known of a unit, for whoever points at its bar.
fn words(chart: &Chart, unit: &UnitChart) -> String {
    let time = |name: &str, at: Option<u64>| {
        at.map_or(String::new(), |at| format!(", {name} {}", output::time(at)))
    };
    let after = unit.after.map_or(String::new(), |after| {
        format!(
            ", started {} after {}",
            output::time(after.gap_ns),
            chart.name(after.unit)
        )
    });
    let behind = match unit.served.replay_ns {
        0 => String::new(),
        ns => format!(", {} of that behind the replay", output::time(ns)),
    };
    format!(
        "{}{}{}{after}, waited for {} in {}{behind}",
        unit.name,
        time("started at", unit.started_ns),
        time("active at", unit.active_ns),
        output::time(unit.waited_ns()),
        output::counted(unit.reads.requests, "read", "reads"),
    )
}

/// From its start until it is active or has ended, with the times that it waited.
fn bar(svg: &mut Svg, shared: &Shared, chart: &Chart, place: usize, top: f64) {
    let Some(unit) = chart.units.get(place) else {
        return;
    };
    let title = words(chart, unit);
    let (bar, instant) = match chart.chain.contains(&place) {
        true => (CHAIN_BAR, CHAIN_INSTANT),
        false => (BAR, INSTANT),
    };
    if let (Some(started), Some(done)) = (unit.started_ns, unit.done_ns)
        && started <= shared.end_ns
    {
        let width = (shared.x(done) - shared.x(started)).max(1.0);
        let (at, size) = ((shared.x(started), top), (width, BAR_HEIGHT));
        rect(svg, bar, at, size, Some(&title));
    } else if let Some(at) = unit
        .started_ns
        .or(unit.active_ns)
        .filter(|at| *at <= shared.end_ns)
    {
        rect(
            svg,
            instant,
            (shared.x(at), top),
            (1.5, BAR_HEIGHT),
            Some(&title),
        );
    }
    // Waits that touch on the screen are one mark.
    let mut marks: Vec<(f64, f64)> = Vec::new();
    for (from, to) in unit.waits.iter().filter(|wait| wait.0 <= shared.end_ns) {
        let (from, to) = (shared.x(*from), shared.x(*to));
        match marks.last_mut() {
            Some(last) if from - last.1 < 0.5 => last.1 = last.1.max(to),
            _ => marks.push((from, to)),
        }
    }
    for (from, to) in marks {
        let size = ((to - from).max(0.8), BAR_HEIGHT - 4.0);
        rect(svg, WAIT, (from, top + 2.0), size, Some(&title));
    }
}

fn disk(svg: &mut Svg, shared: &Shared, boot: &Drawn, name: &str, positions: &Positions) {
    plot(svg, shared, DISK_HEIGHT);
    frame::numbers_left(svg, positions.ticks());
    frame::name(svg, (-LEFT + SPAN.left, 14.0), LEFT - 110.0, name);
    let at = (-LEFT + SPAN.left, 32.0);
    frame::note(svg, at, LEFT - 110.0, "position, MiB");
    let Some(at) = boot.trace.disks.iter().position(|disk| disk.name == name) else {
        return;
    };
    let reads = |is_demand: bool| {
        let of_disk = boot
            .trace
            .reads
            .iter()
            .filter(|read| usize::from(read.disk) == at);
        of_disk.filter(move |read| read.by.is_demand() == is_demand)
    };
    for (class, is_demand) in [(AHEAD, false), (DEMAND, true)] {
        let path = marks(shared, positions, reads(is_demand));
        if !path.is_empty() {
            svg.empty("path", &[("class", &class), ("d", &path)]);
        }
    }
}

/// Each read as a line from when it was queued until it was there. Those that cover each other are
/// drawn once.
fn marks<'a>(
    shared: &Shared,
    positions: &Positions,
    reads: impl Iterator<Item = &'a TracedRead>,
) -> String {
    let mut path = String::new();
    let mut drawn = HashSet::new();
    for read in reads.filter(|read| read.at_ns <= shared.end_ns) {
        let (x, y) = (
            rounded(shared.x(read.at_ns)),
            positions.y(read.sector.saturating_mul(512)),
        );
        let y = rounded(y);
        let width = rounded((shared.x(read.end_ns()) - x).max(1.0));
        if drawn.insert(((x * 2.0) as i64, (y * 2.0) as i64, width as i64)) {
            // Writing to a string can't fail.
            let _ = write!(path, "M{x} {y}h{width}");
        }
    }
    path
}

/// Frame and grid of a plot.
fn plot(svg: &mut Svg, shared: &Shared, height: f64) {
    rect(svg, "plot", (0.0, 0.0), (PLOT_WIDTH, height), None);
    frame::grid_upright(svg, &shared.times.ticks(), height);
}

fn target(svg: &mut Svg, shared: &Shared, boot: &Drawn, height: f64) {
    if let Some(at) = boot.trace.reached_ns {
        let x = rounded(shared.x(at));
        let path = format!("M{x} 0V{}", rounded(height));
        svg.empty("path", &[("class", &TARGET), ("d", &path)]);
    }
}

/// The axis of time, below the last plot.
fn axis(svg: &mut Svg, shared: &Shared) {
    let what = format!("{} since the kernel's start", shared.times.unit);
    frame::axis_below(svg, &shared.times.ticks(), (PLOT_WIDTH, 0.0), &what);
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::picture::check::{assert_labels_fit, assert_well_formed, texts};
    use foreread_boot::Mode;
    use foreread_boot::chart::chart;
    use foreread_boot::trace::{BootTrace, Reader, TracedDisk, TracedOrder, TracedUnit};

    const S: u64 = 1_000_000_000;

    /// A boot of some units, each of which reads. It has no order.
    pub fn boot(mode: Mode, units: u16) -> Drawn {
        let mut trace = BootTrace::new("0a1b".into(), "6.1".into(), mode);
        trace.reached_ns = Some(20 * S);
        for (name, bytes) in [("sda", 1 << 34), ("sdb", 0)] {
            trace.disks.push(TracedDisk {
                name: name.into(),
                bytes,
            });
        }
        for unit in 0..units {
            trace.units.push(TracedUnit {
                name: format!("unit-with-quite-a-long-name-<{unit}>.service"),
                started_ns: Some(u64::from(unit) * S / 4),
                active_ns: (unit % 5 > 0).then_some((u64::from(unit) / 4 + 2) * S),
            });
            for (at, by) in [
                (0, Reader::Unit(unit)),
                (1, Reader::Replay),
                (2, Reader::Other),
            ] {
                trace.reads.push(TracedRead {
                    at_ns: (u64::from(unit) + at) * S / 4,
                    took_ns: S / 10,
                    disk: unit % 2,
                    sector: u64::from(unit) * 900_000 * at,
                    bytes: 65_536,
                    by,
                    process: "p".into(),
                });
            }
        }
        let chart = chart(&trace);
        Drawn { trace, chart }
    }

    #[test]
    fn one_boot_and_two_are_drawn() {
        let one = picture(&[boot(Mode::Plain, 9)]);
        assert_well_formed(&one);
        assert_labels_fit(&one);
        let texts = texts(&one);
        for (_, _, words) in &LEGEND[..LEGEND.len() - 1] {
            assert!(texts.iter().any(|text| text == words), "{words}");
        }
        for part in [
            "plain boot, Linux 6.1: target reached after 20.0 s",
            "sda",
            "position, MiB",
        ] {
            assert!(one.contains(part), "{part}: {one}");
        }
        let two = picture(&[boot(Mode::Plain, 60), boot(Mode::Replayed, 60)]);
        assert_well_formed(&two);
        assert_labels_fit(&two);
        assert!(two.contains("20 units are left out"), "{two}");
        assert!(two.contains("replayed boot"), "{two}");
        assert!(!two.contains("<0>"), "names are escaped");
    }

    /// The same with the last unit as its default target, which waited for two others. The gap
    /// before it is short, the one before that is not.
    pub fn ordered_boot(mode: Mode, units: u16) -> Drawn {
        let Drawn { mut trace, .. } = boot(mode, units);
        let last = units - 1;
        for (unit, started, active) in [(0, 0, 1000), (1, 2000, 3000), (last, 3200, 3200)] {
            let unit = &mut trace.units[usize::from(unit)];
            (unit.started_ns, unit.active_ns) = (Some(started * S / 1000), Some(active * S / 1000));
        }
        trace.default_target = Some(trace.units[usize::from(last)].name.clone());
        for (unit, after) in [(1, 0), (last, 1)] {
            trace.orders.push(TracedOrder {
                unit,
                after: vec![after],
                ended_ns: None,
            });
        }
        let chart = chart(&trace);
        Drawn { trace, chart }
    }

    #[test]
    fn the_chain_that_the_target_waited_for_is_drawn() {
        let drawn = picture(&[ordered_boot(Mode::Replayed, 60)]);
        assert_well_formed(&drawn);
        assert_labels_fit(&drawn);
        let words = LEGEND[LEGEND.len() - 1].2;
        assert!(texts(&drawn).iter().any(|text| text == words), "{drawn}");
        // One line besides that of the legend: down, and to the right.
        let lines: Vec<&str> = drawn
            .split("<path class=\"chain line-violet\" d=\"")
            .collect();
        assert_eq!(lines.len(), 3, "{drawn}");
        let line = lines[2].split('"').next().unwrap_or_default();
        assert_eq!(line.matches(['M', 'V', 'H']).count(), 3, "{line}");
        assert_eq!(drawn.matches("class=\"unit fill-violet\"").count(), 3);
        assert!(drawn.contains("started 200 ms after unit-with"), "{drawn}");
        // Where no order is known, nothing is said of it.
        let without = picture(&[boot(Mode::Replayed, 60)]);
        assert!(!without.contains("line-violet"), "{without}");
    }

    #[test]
    fn a_boot_without_anything_is_drawn() {
        let trace = BootTrace::new(String::new(), String::new(), Mode::Plain);
        let chart = chart(&trace);
        let drawn = picture(&[Drawn { trace, chart }]);
        assert_well_formed(&drawn);
        assert!(drawn.contains("target not reached"), "{drawn}");
    }
}
