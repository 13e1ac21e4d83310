// SPDX-License-Identifier: MIT OR Apache-2.0
//! The analysis for programs: `foreread.analyze/1`. `docs/analyze.md` describes the fields.

use foreread_blocktrace::{Bio, Group, Held, Joined, Leg, Release, Request, Stats, story};
use serde_json::{Map, Value, json};

use super::Analyzed;

pub fn of(analyzed: &Analyzed) -> Value {
    let report = &analyzed.report;
    let over_ns = analyzed.held_over_ns;
    let counts = &report.counts;
    let (first_ns, last_ns) = report.span_ns.unwrap_or((0, 0));
    let devices = report.depths.iter().map(|(device, depth)| {
        let group = |is_read| {
            let key = (Group::Device(*device), is_read);
            report.by_device.get(&key).map(stats)
        };
        json!({
            "device": device.to_string(),
            "traced_ns": depth.traced_ns,
            "busy_ns": depth.busy_ns,
            "in_flight_mean": depth.in_flight_mean,
            "in_flight_max": depth.in_flight_max,
            "idle_while_reads_waited_ns": depth.idle_while_reads_waited_ns,
            "reads": group(true),
            "others": group(false),
        })
    });
    let processes = report.by_process.iter().map(|((group, is_read), of)| {
        let (name, pid) = match group {
            Group::Process(name, pid) => (Some(name.as_ref()), Some(*pid)),
            Group::Others => (Some("all others"), None),
            _ => (None, None),
        };
        json!({ "name": name, "pid": pid, "reads": is_read, "stats": stats(of) })
    });
    json!({
        "schema": "foreread.analyze/1",
        "source": analyzed.source,
        "first_ns": first_ns,
        "last_ns": last_ns,
        "held_back_over_ns": over_ns,
        "events": counts.events,
        "lines": analyzed.lines,
        "bad_lines": analyzed.bad_lines,
        "lost_events": counts.lost,
        "late_events": report.late_events,
        "unknown_actions": counts.unknown_actions,
        "events_without_data": counts.without_data,
        "events_of_other_devices": counts.of_other_devices,
        "given_up": counts.given_up,
        "unseen_issues": counts.unseen_issues,
        "unseen_merges": counts.unseen_merges,
        "plugs": counts.plugs,
        "unplugs": counts.unplugs,
        "timer_unplugs": counts.timer_unplugs,
        "splits": counts.splits,
        "sleeps": counts.sleeps,
        "remaps": counts.remaps,
        "bounces": counts.bounces,
        "reads": stats(&report.reads),
        "others": stats(&report.others),
        "devices": devices.collect::<Vec<_>>(),
        "processes": processes.collect::<Vec<_>>(),
        "worst": report.worst.iter().map(|r| request(r, over_ns)).collect::<Vec<_>>(),
    })
}

fn stats(stats: &Stats) -> Value {
    let legs = Leg::ALL.into_iter().map(|leg| {
        let times = stats.legs.of(leg);
        let value = json!({
            "requests": times.count(),
            "latency_ns_p50": times.permille_ns(500),
            "latency_ns_p90": times.permille_ns(900),
            "latency_ns_p99": times.permille_ns(990),
            "latency_ns_max": times.max_ns(),
        });
        (leg.name().to_owned(), value)
    });
    let sizes = stats.sizes.iter();
    let sizes = sizes.map(|(bytes, n)| json!({ "up_to_bytes": bytes, "requests": n }));
    json!({
        "requests": stats.requests,
        "bytes": stats.bytes,
        "bios": stats.bios,
        "back_merges": stats.back_merges,
        "front_merges": stats.front_merges,
        "merged_with_request": stats.merged_with_request,
        "merge_ratio": match stats.bios {
            0 => 0.0,
            bios => stats.merged_bios() as f64 / bios as f64,
        },
        "requeues": stats.requeues,
        "errors": stats.errors,
        "incomplete": stats.incomplete,
        "held_back": held(&stats.held),
        "held_by_plug": held(&stats.by_plug),
        "held_by_scheduler": held(&stats.by_scheduler),
        "legs": legs.collect::<Map<_, _>>(),
        "sizes": sizes.collect::<Vec<_>>(),
    })
}

fn held(held: &Held) -> Value {
    json!({
        "requests": held.requests,
        "held_ns": held.held_ns,
        "idle_ns": held.idle_ns,
    })
}

fn request(request: &Request, over_ns: u64) -> Value {
    let legs = Leg::ALL.map(|leg| (leg.name().to_owned(), request.leg_ns(leg).into()));
    json!({
        "device": request.device.to_string(),
        "rwbs": request.rwbs.0.as_str(),
        "sector": request.sector,
        "sectors": request.sectors,
        "queued_ns": request.queued_ns(),
        "got_ns": request.got_ns,
        "inserted_ns": request.inserted_ns,
        "issued_ns": request.issued_ns,
        "completed_ns": request.completed_ns,
        "error": request.error,
        "requeues": request.requeues,
        "legs_ns": legs.into_iter().collect::<Map<String, Value>>(),
        "held_back_ns": request.held_ns(over_ns),
        "plug": request.plug.as_ref().map(|hold| json!({
            "since_ns": hold.since_ns,
            "until_ns": hold.until_ns,
            "held_ns": hold.held_ns(),
            "idle_ns": hold.idle_ns,
            "released_by": release(&hold.release),
        })),
        "queue": request.queue.map(|wait| json!({
            "since_ns": wait.since_ns,
            "until_ns": wait.until_ns,
            "waited_ns": wait.waited_ns(),
            "idle_ns": wait.idle_ns,
            "room_ns": wait.room_ns,
            "overtaken_by": wait.overtaken,
        })),
        "bio_count": request.bio_count,
        "bios": request.bios.iter().map(bio).collect::<Vec<_>>(),
        "story": story(request, over_ns),
    })
}

fn release(release: &Release) -> Value {
    let mut value = json!({ "what": release.name() });
    match release {
        Release::Merge(later) | Release::LaterRequest(later) => {
            value["process"] = later.process.as_ref().into();
            value["pid"] = later.pid.into();
            value["same_process"] = later.is_same.into();
            value["sector"] = later.sector.into();
            value["sectors"] = later.sectors.into();
        }
        Release::Full { requests } => value["requests"] = (*requests).into(),
        Release::Other { pid, process } => {
            value["process"] = process.as_ref().into();
            value["pid"] = (*pid).into();
        }
        Release::Sleep | Release::Timer | Release::Owner | Release::NotSeen => {}
    }
    value
}

fn bio(bio: &Bio) -> Value {
    json!({
        "process": bio.process,
        "pid": bio.pid,
        "sector": bio.sector,
        "sectors": bio.sectors,
        "queued_ns": bio.queued_ns,
        "joined": match bio.joined {
            Joined::First => "first",
            Joined::Back => "back",
            Joined::Front => "front",
            Joined::WithRequest => "with-request",
        },
    })
}
