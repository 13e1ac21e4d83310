// SPDX-License-Identifier: MIT OR Apache-2.0
//! All runs for programs: `foreread.sim/1`. `docs/sim.md` describes the fields.

use std::collections::BTreeMap;

use foreread_core::policy::{Reason, State, Window};
use foreread_model::Counters;
use foreread_sim::engine::{Explained, Explanation, Outcome, Setup, Stats, StreamOutcome};
use foreread_sim::scenario::{Checked, Combination};
use serde::Serialize;

use super::Ran;
use super::human::bytes_per_s;

const PAGE_KIB: u64 = 4;

/// A scenario or a trace that ran.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SimReport<'a> {
    schema: &'static str,
    /// The file of the scenario or of the trace.
    scenario: &'a str,
    /// Description from the scenario.
    about: &'a str,
    /// Bytes of a page, for all fields in pages.
    page_bytes: u64,
    /// How the parameters were found, where the scenario says so.
    fit: Option<FitReport<'a>>,
    /// Every combination, in the order of the scenario.
    runs: Vec<RunReport>,
    /// The rows that the scenario expects.
    expected: Vec<CheckedReport<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FitReport<'a> {
    /// Names of the fitted parameters.
    parameters: &'a [String],
    /// How the values in the scenario were found.
    how: &'a str,
}

/// One combination, and what it gave.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunReport {
    /// Name of the policy.
    policy: &'static str,
    /// Name of the modelled device.
    device: String,
    /// Maximum window.
    read_ahead_kib: u64,
    /// Memory for the page cache.
    memory_kib: u64,
    /// The rule by which plugged requests are released.
    unplug: String,
    /// Copies of the programs.
    count: u64,
    /// Until the last program ended, or the run was ended.
    elapsed_ns: u64,
    /// Bytes that all programs read, per second.
    bytes_per_s: u64,
    /// All of it together.
    total: StatsReport,
    /// In the order of the scenario.
    programs: Vec<ProgramReport>,
    files: Vec<FileReport>,
    /// In the order of their numbers.
    disks: Vec<DiskReport>,
    /// With `--each-stream`.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<Vec<StreamReport>>,
    /// With `--access`, where the run has that access.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationReport>,
}

/// Statistics of a run or of a part of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatsReport {
    /// Pages asked of the device; each is in one of the next five.
    fetched_pages: u64,
    used_on_time_pages: u64,
    used_late_pages: u64,
    wasted_pages: u64,
    resident_unused_pages: u64,
    in_flight_pages: u64,
    /// Pages accessed, each time.
    accesses: u64,
    /// Different pages accessed.
    distinct_pages: u64,
    /// Pages fetched for each different page accessed; none when none was.
    amplification: Option<f64>,
    /// Pages fetched again that had been evicted not long before.
    refaults: u64,
    /// Misses of pages that had been fetched and were evicted unread.
    thrashes: u64,
    /// Calls of read(2), or steps through a mapping.
    calls: u64,
    /// Time that programs waited for pages.
    stall_ns: u64,
    latency_ns_p50: u64,
    latency_ns_p99: u64,
    latency_ns_max: u64,
    /// Requests that the disk served.
    requests: u64,
    request_bytes: u64,
    /// Requests that did not start where the one before ended.
    seeks: u64,
    /// Windows that read something.
    windows: u64,
    window_pages: u64,
    /// Decisions by the name of their reason; no reason that never held.
    decisions: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProgramReport {
    /// Its name.
    name: String,
    /// From its start to its end, or to the end of the run.
    elapsed_ns: u64,
    /// Whether it had ended by then.
    finished: bool,
    /// Bytes that its calls returned.
    read_bytes: u64,
    /// All of it together.
    total: StatsReport,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileReport {
    /// Its name.
    name: String,
    /// Its size.
    bytes: u64,
    /// The number of its disk, from 0.
    disk: usize,
    /// All of it together.
    total: StatsReport,
}

/// One open file of one program.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StreamReport {
    /// Name of the program.
    program: String,
    /// Path or name of the file.
    file: String,
    /// All of it together.
    total: StatsReport,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DiskReport {
    requests: u64,
    bytes: u64,
    /// Time with a request in flight.
    busy_ns: u64,
    seeks: u64,
    /// Requests that skip a little forwards.
    gaps: u64,
    /// Most requests in flight at once.
    queue_depth_max: u64,
}

/// A row that the scenario expects.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CheckedReport<'a> {
    /// The number of the run, from 0.
    run: usize,
    /// The number of the run that it is divided by.
    against: Option<usize>,
    /// Name of the number.
    metric: &'static str,
    /// The value of the source.
    expected: f64,
    /// The value of this run.
    got: f64,
    /// Whether it is within its tolerance.
    reached: bool,
    /// Whether parameters were fitted to this row.
    fitted: bool,
    /// A word that the source put next to it.
    mark: &'a str,
    /// Why it is not reached, where that is known.
    short: Option<&'a str>,
}

/// One access, and the decisions around it on the same stream.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExplanationReport {
    /// Its number, from 1.
    access: u64,
    start_ns: u64,
    took_ns: u64,
    /// How much of that it waited.
    stall_ns: u64,
    offset_bytes: u64,
    bytes: u64,
    /// In their order in time.
    decisions: Vec<DecisionReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DecisionReport {
    time_ns: u64,
    /// The access that it belongs to.
    access: u64,
    /// The access as policies see it.
    kind: String,
    /// Page of the access.
    index: u64,
    /// Pages that the call still asks for.
    req_pages: u64,
    /// Pages found in the cache: history before the access, or pages ahead of a mark.
    saw_pages: u32,
    /// The maximum window that held.
    max_pages: u32,
    /// Name of the reason.
    reason: &'static str,
    /// The reason in words.
    meaning: &'static str,
    /// What was read ahead.
    windows: Vec<WindowReport>,
    /// Pages that were not cached and were read.
    fetched_pages: u64,
    /// State before the decision.
    before: StateReport,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WindowReport {
    /// Its first page.
    start: u64,
    /// Pages.
    size: u32,
    /// Pages of its tail that count as read ahead.
    async_size: u32,
    /// Pages to read.
    read_pages: u32,
    /// Folio order.
    order: u8,
}

/// State that the policy keeps of the stream.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StateReport {
    /// First page of the window decided last.
    start: u64,
    /// Its pages; 0 for none.
    size: u32,
    /// Pages of its tail that count as read ahead.
    async_size: u32,
    /// The file's maximum window, in pages.
    ra_pages: u32,
    /// Faults that missed, less those that hit.
    mmap_miss: u16,
    /// Folio order of the window decided last.
    order: u8,
}

impl<'a> SimReport<'a> {
    pub fn of(ran: &'a Ran, with_streams: bool) -> Self {
        let runs = ran.runs.iter().zip(&ran.outcomes);
        let runs = runs.map(|(run, outcome)| RunReport::of(ran, run, outcome, with_streams));
        let fit = ran.scenario.fit_notes();
        Self {
            schema: "foreread.sim/1",
            scenario: &ran.scenario.file,
            about: &ran.scenario.about,
            page_bytes: PAGE_KIB * 1024,
            fit: fit.map(|fit| FitReport {
                parameters: &fit.parameters,
                how: &fit.how,
            }),
            runs: runs.collect(),
            expected: ran.checked.iter().map(CheckedReport::of).collect(),
        }
    }
}

impl RunReport {
    fn of(ran: &Ran, run: &Combination, outcome: &Outcome, with_streams: bool) -> Self {
        let setup = ran.scenario.setup(run);
        let streams = outcome.streams.iter();
        let streams = streams.map(|stream| StreamReport::of(stream, &setup));
        Self {
            policy: run.policy.name(),
            device: run.device.name.clone(),
            read_ahead_kib: u64::from(run.read_ahead_pages) * PAGE_KIB,
            memory_kib: run.memory_pages * PAGE_KIB,
            unplug: ran.scenario.queues[run.queue].0.clone(),
            count: run.count,
            elapsed_ns: outcome.elapsed_ns,
            bytes_per_s: bytes_per_s(outcome),
            total: StatsReport::of(&outcome.total),
            programs: programs(outcome, &setup),
            files: files(outcome, &setup),
            disks: outcome.disks.iter().map(DiskReport::of).collect(),
            streams: with_streams.then(|| streams.collect()),
            explanation: outcome.explanation.as_ref().map(ExplanationReport::of),
        }
    }
}

fn programs(outcome: &Outcome, setup: &Setup) -> Vec<ProgramReport> {
    let totals = totals(outcome, setup.programs.len(), |stream| stream.program);
    let programs = outcome.programs.iter().zip(&setup.programs).zip(&totals);
    programs
        .map(|((program, setup), total)| ProgramReport {
            name: setup.name.clone(),
            elapsed_ns: program.elapsed_ns,
            finished: program.finished,
            read_bytes: program.read_bytes,
            total: StatsReport::of(total),
        })
        .collect()
}

fn files(outcome: &Outcome, setup: &Setup) -> Vec<FileReport> {
    let totals = totals(outcome, setup.files.len(), |stream| stream.file);
    let files = setup.files.iter().zip(&totals);
    files
        .map(|(file, total)| FileReport {
            name: file.name.clone(),
            bytes: file.bytes,
            disk: file.disk,
            total: StatsReport::of(total),
        })
        .collect()
}

/// The streams of each of `parts` parts together. `part_of` is the number of a stream's part. All
/// streams are looked at once: a trace may have tens of thousands of files.
fn totals(
    outcome: &Outcome,
    parts: usize,
    part_of: impl Fn(&StreamOutcome) -> usize,
) -> Vec<Stats> {
    let mut totals = vec![Stats::default(); parts];
    for stream in &outcome.streams {
        if let Some(total) = totals.get_mut(part_of(stream)) {
            total.merge(&stream.stats);
        }
    }
    totals
}

impl StreamReport {
    fn of(stream: &StreamOutcome, setup: &Setup) -> Self {
        Self {
            program: setup.programs[stream.program].name.clone(),
            file: setup.files[stream.file].name.clone(),
            total: StatsReport::of(&stream.stats),
        }
    }
}

impl StatsReport {
    fn of(stats: &Stats) -> Self {
        let pages = &stats.pages;
        let decisions = Reason::ALL.iter().map(|reason| {
            let count = stats.reason(*reason);
            (reason.name(), count)
        });
        Self {
            fetched_pages: pages.fetched,
            used_on_time_pages: pages.used_on_time,
            used_late_pages: pages.used_late,
            wasted_pages: pages.wasted,
            resident_unused_pages: pages.resident_unused,
            in_flight_pages: pages.in_flight,
            accesses: pages.accesses,
            distinct_pages: pages.distinct,
            amplification: pages.amplification(),
            refaults: pages.refaults,
            thrashes: pages.thrashes,
            calls: stats.calls,
            stall_ns: stats.stall_ns,
            latency_ns_p50: stats.latencies.permille_ns(500),
            latency_ns_p99: stats.latencies.permille_ns(990),
            latency_ns_max: stats.latencies.max_ns(),
            requests: stats.requests,
            request_bytes: stats.request_bytes,
            seeks: stats.seeks,
            windows: stats.windows,
            window_pages: stats.window_pages,
            decisions: decisions.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

impl DiskReport {
    fn of(disk: &Counters) -> Self {
        Self {
            requests: disk.requests,
            bytes: disk.bytes,
            busy_ns: disk.busy_ns,
            seeks: disk.seeks,
            gaps: disk.gaps,
            queue_depth_max: disk.queue_depth_max,
        }
    }
}

impl<'a> CheckedReport<'a> {
    fn of(row: &'a Checked) -> Self {
        Self {
            run: row.run,
            against: row.against,
            metric: row.metric.name(),
            expected: row.expected,
            got: row.got,
            reached: row.reached,
            fitted: row.fitted,
            mark: &row.mark,
            short: row.known_short.as_deref(),
        }
    }
}

impl ExplanationReport {
    fn of(explanation: &Explanation) -> Self {
        let call = &explanation.call;
        Self {
            access: call.call,
            start_ns: call.start_ns,
            took_ns: call.took_ns,
            stall_ns: call.stall_ns,
            offset_bytes: call.offset_bytes,
            bytes: call.bytes,
            decisions: explanation
                .decisions
                .iter()
                .map(DecisionReport::of)
                .collect(),
        }
    }
}

impl DecisionReport {
    fn of(explained: &Explained) -> Self {
        let decision = &explained.decision;
        Self {
            time_ns: explained.time_ns,
            access: explained.call,
            kind: format!("{:?}", explained.access.kind),
            index: explained.access.index,
            req_pages: explained.access.req_pages,
            saw_pages: decision.saw_pages,
            max_pages: decision.max_pages,
            reason: decision.reason.name(),
            meaning: decision.reason.meaning(),
            windows: decision.windows().iter().map(WindowReport::of).collect(),
            fetched_pages: explained.fetched_pages,
            before: StateReport::of(&explained.before),
        }
    }
}

impl WindowReport {
    fn of(window: &Window) -> Self {
        Self {
            start: window.start(),
            size: window.size(),
            async_size: window.async_size(),
            read_pages: window.read_pages(),
            order: window.order(),
        }
    }
}

impl StateReport {
    fn of(state: &State) -> Self {
        Self {
            start: state.start,
            size: state.size,
            async_size: state.async_size,
            ra_pages: state.ra_pages,
            mmap_miss: state.mmap_miss,
            order: state.order,
        }
    }
}
