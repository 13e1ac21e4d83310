// SPDX-License-Identifier: MIT OR Apache-2.0
//! The analysis for programs: `foreread.analyze/1`. `docs/analyze.md` describes the fields.

use std::collections::BTreeMap;

use foreread_blocktrace::{
    Bio, DepthSummary, Device, Group, Held, Joined, Leg, PlugHold, QueueWait, Release, Report,
    Request, Stats, story,
};
use serde::Serialize;

use super::Analyzed;

/// An analysis. Times are those of the trace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AnalyzeReport<'a> {
    schema: &'static str,
    /// The trace that was read.
    source: &'a str,
    /// Time of the first event and of the last.
    first_ns: u64,
    last_ns: u64,
    /// A request counts as held back from this time on.
    held_back_over_ns: u64,
    /// Events of the trace.
    events: u64,
    /// Lines of a text trace.
    lines: u64,
    /// Lines that could not be understood.
    bad_lines: u64,
    /// Events that the trace says it lost.
    lost_events: u64,
    /// Events that came too late to be put in order.
    late_events: u64,
    /// Events of an unknown kind.
    unknown_actions: u64,
    /// Flushes, and commands that are passed through.
    events_without_data: u64,
    /// Events of devices beyond the first 256.
    events_of_other_devices: u64,
    /// Requests and bios beyond those that are followed.
    given_up: u64,
    /// Completions of requests whose issue is not in the trace.
    unseen_issues: u64,
    /// Merges with requests that are not in the trace.
    unseen_merges: u64,
    /// Times that a task began to collect requests.
    plugs: u64,
    /// Unplugs by a process.
    unplugs: u64,
    /// Unplugs by a timer, or by a process that went to sleep.
    timer_unplugs: u64,
    /// Bios that were cut in two.
    splits: u64,
    /// Times that a process slept until a request was free.
    sleeps: u64,
    /// Bios that were passed on from one device to another.
    remaps: u64,
    /// Bios whose data was copied.
    bounces: u64,
    reads: StatsReport,
    /// All requests that are no reads.
    others: StatsReport,
    /// Devices of the trace.
    devices: Vec<DeviceReport>,
    /// By thread: its reads, and its other requests.
    processes: Vec<ProcessReport<'a>>,
    /// The reads that were held back or waited longest, longest first.
    worst: Vec<RequestReport<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceReport {
    /// Major and minor number.
    device: String,
    /// From its first event to its last.
    traced_ns: u64,
    /// Time with a request in flight.
    busy_ns: u64,
    /// Requests in flight.
    in_flight_mean: f64,
    /// Most requests in flight at once.
    in_flight_max: u64,
    /// Time with no request in flight while reads waited before the device.
    idle_while_reads_waited_ns: u64,
    reads: Option<StatsReport>,
    /// Requests that are no reads.
    others: Option<StatsReport>,
}

/// The reads, or the other requests, of one thread.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProcessReport<'a> {
    /// Name of the thread; null where the trace has none.
    name: Option<&'a str>,
    /// Number of the thread; null where the trace has none.
    pid: Option<u32>,
    /// Whether these are its reads.
    reads: bool,
    /// Sums over its requests.
    stats: StatsReport,
}

/// Sums over some requests.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatsReport {
    requests: u64,
    bytes: u64,
    /// Bios that they consist of.
    bios: u64,
    /// Bios that were put at the end of a request.
    back_merges: u64,
    /// Bios that were put at the beginning of a request.
    front_merges: u64,
    /// Bios that came with a request which was merged into another.
    merged_with_request: u64,
    /// Share of the bios that were merged.
    merge_ratio: f64,
    /// Times that a driver gave a request back.
    requeues: u64,
    /// Requests that failed.
    errors: u64,
    /// Requests whose life begins before the trace or ends after it.
    incomplete: u64,
    /// By a plug or by the scheduler.
    held_back: HeldReport,
    /// Held back while its task collected more.
    held_by_plug: HeldReport,
    /// Held back by the I/O scheduler.
    held_by_scheduler: HeldReport,
    /// Times by the name of the leg.
    legs: BTreeMap<&'static str, LegReport>,
    /// How many requests there were of each size.
    sizes: Vec<SizeReport>,
}

/// Requests that were held back.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HeldReport {
    requests: u64,
    /// The times of all requests together.
    held_ns: u64,
    /// Time of it with no request in flight.
    idle_ns: u64,
}

/// A part of the life of requests.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LegReport {
    /// Requests that have this part.
    requests: u64,
    latency_ns_p50: u64,
    latency_ns_p90: u64,
    latency_ns_p99: u64,
    latency_ns_max: u64,
}

/// Requests of up to so many bytes, and of more than half of that.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SizeReport {
    up_to_bytes: u64,
    requests: u64,
}

/// One request; its times are none outside of the trace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RequestReport<'a> {
    /// Major and minor number.
    device: String,
    /// The operation, in the letters of blktrace.
    rwbs: &'a str,
    /// Sectors of 512 bytes.
    sector: u64,
    sectors: u64,
    /// When its first bio was queued.
    queued_ns: Option<u64>,
    /// When it was made.
    got_ns: Option<u64>,
    /// When it went to the scheduler.
    inserted_ns: Option<u64>,
    /// When it went to the driver, the last time.
    issued_ns: Option<u64>,
    completed_ns: Option<u64>,
    /// The error of the device, 0 for success.
    error: i32,
    /// Times that a driver gave it back.
    requeues: u32,
    /// Length of each leg, by its name.
    legs_ns: BTreeMap<&'static str, Option<u64>>,
    /// How long it was held back.
    held_back_ns: u64,
    /// Its time in a plug; null where it was in none.
    plug: Option<PlugReport<'a>>,
    /// Its time in the scheduler; null where it was not there.
    queue: Option<QueueReport>,
    /// Bios that it consists of.
    bio_count: u64,
    /// The first of its bios.
    bios: Vec<BioReport<'a>>,
    /// Its life in words.
    story: String,
}

/// A stay in a plug.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlugReport<'a> {
    since_ns: u64,
    until_ns: u64,
    held_ns: u64,
    /// Time of it with no request in flight.
    idle_ns: u64,
    /// What ended the wait.
    released_by: ReleaseReport<'a>,
}

/// The event that emptied a plug.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReleaseReport<'a> {
    /// The event that released it.
    what: &'static str,
    /// The thread, where it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a str>,
    /// Number of the thread that did it; null where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// For a release by a later request: whether its thread is the one that made the plug.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_process: Option<bool>,
    /// For a release by a later request: its first sector.
    #[serde(skip_serializing_if = "Option::is_none")]
    sector: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sectors: Option<u32>,
    /// For a full plug: requests in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
}

/// The wait after the plug: for the scheduler and the device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct QueueReport {
    since_ns: u64,
    until_ns: u64,
    waited_ns: u64,
    /// Time of it with no request in flight.
    idle_ns: u64,
    /// Time of it with fewer requests in flight than the device had had before.
    room_ns: u64,
    /// Requests that came later and went first.
    overtaken_by: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BioReport<'a> {
    /// Name of the thread.
    process: &'a str,
    /// Number of the thread.
    pid: u32,
    /// First sector, of 512 bytes.
    sector: u64,
    sectors: u32,
    /// None from before the trace.
    queued_ns: Option<u64>,
    /// Where it was put in the request.
    joined: &'static str,
}

impl<'a> AnalyzeReport<'a> {
    pub fn of(analyzed: &'a Analyzed) -> Self {
        let report = &analyzed.report;
        let over_ns = analyzed.held_over_ns;
        let counts = &report.counts;
        let (first_ns, last_ns) = report.span_ns.unwrap_or((0, 0));
        let devices = report.depths.iter();
        let worst = report.worst.iter();
        Self {
            schema: "foreread.analyze/1",
            source: &analyzed.source,
            first_ns,
            last_ns,
            held_back_over_ns: over_ns,
            events: counts.events,
            lines: analyzed.lines,
            bad_lines: analyzed.bad_lines,
            lost_events: counts.lost,
            late_events: report.late_events,
            unknown_actions: counts.unknown_actions,
            events_without_data: counts.without_data,
            events_of_other_devices: counts.of_other_devices,
            given_up: counts.given_up,
            unseen_issues: counts.unseen_issues,
            unseen_merges: counts.unseen_merges,
            plugs: counts.plugs,
            unplugs: counts.unplugs,
            timer_unplugs: counts.timer_unplugs,
            splits: counts.splits,
            sleeps: counts.sleeps,
            remaps: counts.remaps,
            bounces: counts.bounces,
            reads: StatsReport::of(&report.reads),
            others: StatsReport::of(&report.others),
            devices: devices
                .map(|(device, depth)| DeviceReport::of(report, *device, depth))
                .collect(),
            processes: report.by_process.iter().map(ProcessReport::of).collect(),
            worst: worst
                .map(|request| RequestReport::of(request, over_ns))
                .collect(),
        }
    }
}

impl DeviceReport {
    fn of(report: &Report, device: Device, depth: &DepthSummary) -> Self {
        let stats = |is_read| {
            let stats = report.by_device.get(&(Group::Device(device), is_read));
            stats.map(StatsReport::of)
        };
        Self {
            device: device.to_string(),
            traced_ns: depth.traced_ns,
            busy_ns: depth.busy_ns,
            in_flight_mean: depth.in_flight_mean,
            in_flight_max: depth.in_flight_max,
            idle_while_reads_waited_ns: depth.idle_while_reads_waited_ns,
            reads: stats(true),
            others: stats(false),
        }
    }
}

impl<'a> ProcessReport<'a> {
    fn of(((group, is_read), stats): (&'a (Group, bool), &Stats)) -> Self {
        let (name, pid) = match group {
            Group::Process(name, pid) => (Some(name.as_ref()), Some(*pid)),
            Group::Others => (Some("all others"), None),
            _ => (None, None),
        };
        Self {
            name,
            pid,
            reads: *is_read,
            stats: StatsReport::of(stats),
        }
    }
}

impl StatsReport {
    fn of(stats: &Stats) -> Self {
        let legs = Leg::ALL.into_iter();
        let sizes = stats.sizes.iter();
        Self {
            requests: stats.requests,
            bytes: stats.bytes,
            bios: stats.bios,
            back_merges: stats.back_merges,
            front_merges: stats.front_merges,
            merged_with_request: stats.merged_with_request,
            merge_ratio: match stats.bios {
                0 => 0.0,
                bios => stats.merged_bios() as f64 / bios as f64,
            },
            requeues: stats.requeues,
            errors: stats.errors,
            incomplete: stats.incomplete,
            held_back: HeldReport::of(&stats.held),
            held_by_plug: HeldReport::of(&stats.by_plug),
            held_by_scheduler: HeldReport::of(&stats.by_scheduler),
            legs: legs
                .map(|leg| (leg.name(), LegReport::of(stats, leg)))
                .collect(),
            sizes: sizes
                .map(|(bytes, requests)| SizeReport {
                    up_to_bytes: *bytes,
                    requests: *requests,
                })
                .collect(),
        }
    }
}

impl HeldReport {
    fn of(held: &Held) -> Self {
        Self {
            requests: held.requests,
            held_ns: held.held_ns,
            idle_ns: held.idle_ns,
        }
    }
}

impl LegReport {
    fn of(stats: &Stats, leg: Leg) -> Self {
        let times = stats.legs.of(leg);
        Self {
            requests: times.count(),
            latency_ns_p50: times.permille_ns(500),
            latency_ns_p90: times.permille_ns(900),
            latency_ns_p99: times.permille_ns(990),
            latency_ns_max: times.max_ns(),
        }
    }
}

impl<'a> RequestReport<'a> {
    fn of(request: &'a Request, over_ns: u64) -> Self {
        let legs = Leg::ALL.map(|leg| (leg.name(), request.leg_ns(leg)));
        Self {
            device: request.device.to_string(),
            rwbs: request.rwbs.0.as_str(),
            sector: request.sector,
            sectors: request.sectors,
            queued_ns: request.queued_ns(),
            got_ns: request.got_ns,
            inserted_ns: request.inserted_ns,
            issued_ns: request.issued_ns,
            completed_ns: request.completed_ns,
            error: request.error,
            requeues: request.requeues,
            legs_ns: legs.into_iter().collect(),
            held_back_ns: request.held_ns(over_ns),
            plug: request.plug.as_ref().map(PlugReport::of),
            queue: request.queue.as_ref().map(QueueReport::of),
            bio_count: request.bio_count,
            bios: request.bios.iter().map(BioReport::of).collect(),
            story: story(request, over_ns),
        }
    }
}

impl<'a> PlugReport<'a> {
    fn of(hold: &'a PlugHold) -> Self {
        Self {
            since_ns: hold.since_ns,
            until_ns: hold.until_ns,
            held_ns: hold.held_ns(),
            idle_ns: hold.idle_ns,
            released_by: ReleaseReport::of(&hold.release),
        }
    }
}

impl<'a> ReleaseReport<'a> {
    fn of(release: &'a Release) -> Self {
        let of_kind = Self {
            what: release.name(),
            ..Self::default()
        };
        match release {
            Release::Merge(later) | Release::LaterRequest(later) => Self {
                process: Some(&later.process),
                pid: Some(later.pid),
                same_process: Some(later.is_same),
                sector: Some(later.sector),
                sectors: Some(later.sectors),
                ..of_kind
            },
            Release::Full { requests } => Self {
                requests: Some(*requests),
                ..of_kind
            },
            Release::Other { pid, process } => Self {
                process: Some(process),
                pid: Some(*pid),
                ..of_kind
            },
            Release::Sleep | Release::Timer | Release::Owner | Release::NotSeen => of_kind,
        }
    }
}

impl QueueReport {
    fn of(wait: &QueueWait) -> Self {
        Self {
            since_ns: wait.since_ns,
            until_ns: wait.until_ns,
            waited_ns: wait.waited_ns(),
            idle_ns: wait.idle_ns,
            room_ns: wait.room_ns,
            overtaken_by: wait.overtaken,
        }
    }
}

impl<'a> BioReport<'a> {
    fn of(bio: &'a Bio) -> Self {
        Self {
            process: &bio.process,
            pid: bio.pid,
            sector: bio.sector,
            sectors: bio.sectors,
            queued_ns: bio.queued_ns,
            joined: match bio.joined {
                Joined::First => "first",
                Joined::Back => "back",
                Joined::Front => "front",
                Joined::WithRequest => "with-request",
            },
        }
    }
}
