// SPDX-License-Identifier: MIT OR Apache-2.0
//! The story of a request, in a sentence.

use crate::request::{Later, Leg, PlugHold, QueueWait, Release, Request};

/// A time as people compare it: `0.47 ms`, `3.81 us`.
#[must_use]
pub fn time(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..100_000 => scaled(value / 1e3, "us"),
        100_000..1_000_000_000 => scaled(value / 1e6, "ms"),
        _ => scaled(value / 1e9, "s"),
    }
}

/// Three digits; values below 10 have at least two digits behind the point.
fn scaled(value: f64, unit: &str) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0} {unit}"),
        value if value >= 10.0 => format!("{value:.1} {unit}"),
        value => format!("{value:.2} {unit}"),
    }
}

/// The known life of a request: its time to the device and there, the waits of `over_ns` or longer,
/// and the events that ended them.
#[must_use]
pub fn story(request: &Request, over_ns: u64) -> String {
    let mut parts = vec![times(request)];
    if let Some(hold) = request.held_by_plug(over_ns) {
        parts.push(in_plug(hold));
    }
    if let Some(wait) = request.held_by_scheduler(over_ns) {
        parts.push(in_scheduler(wait));
    } else if let Some(wait) = &request.queue
        && wait.waited_ns() >= over_ns
    {
        parts.push(format!(
            "waited {} for a busy device",
            time(wait.waited_ns())
        ));
    }
    if request.requeues > 0 {
        parts.push(format!(
            "given back by the driver {} times",
            request.requeues
        ));
    }
    if request.error != 0 {
        parts.push(format!("failed with {}", request.error));
    }
    parts.join("; ")
}

fn times(request: &Request) -> String {
    let before = match (request.queued_ns(), request.issued_ns) {
        (Some(_), Some(_)) => {
            let ns = request.leg_ns(Leg::QueueToIssue).unwrap_or(0);
            format!("{} from queue to issue", time(ns))
        }
        (None, Some(_)) if request.before_issue_ns() > 0 => {
            let ns = request.before_issue_ns();
            format!("at least {} to issue, queued before the trace", time(ns))
        }
        (None, Some(_)) => "queued before the trace".to_owned(),
        (_, None) if request.completed_ns.is_some() => "its issue is not in the trace".to_owned(),
        (_, None) => "not issued within the trace".to_owned(),
    };
    match request.leg_ns(Leg::IssueToComplete) {
        Some(ns) => format!("{before}, {} at the device", time(ns)),
        None if request.issued_ns.is_some() => format!("{before}, not done within the trace"),
        None => before,
    }
}

fn in_plug(hold: &PlugHold) -> String {
    let held = format!("held in a plug for {}", time(hold.held_ns()));
    format!("{held}{}, {}", idle(hold.idle_ns), release(&hold.release))
}

fn in_scheduler(wait: &QueueWait) -> String {
    let held = time(wait.held_ns());
    let why = match wait.overtaken {
        0 => " while the device had fewer requests than it takes".to_owned(),
        1 => ", overtaken by 1 later request".to_owned(),
        n => format!(", overtaken by {n} later requests"),
    };
    format!(
        "held by the scheduler for {held}{}{why}",
        idle(wait.idle_ns)
    )
}

fn idle(ns: u64) -> String {
    match ns {
        0 => String::new(),
        ns => format!(" (the device stood idle for {} of it)", time(ns)),
    }
}

fn release(release: &Release) -> String {
    match release {
        Release::Merge(later) => {
            let what = match (later.is_read, later.is_same) {
                (true, true) => "the next readahead's merge".to_owned(),
                (false, true) => "the next write's merge".to_owned(),
                (_, false) => format!("a merge by {}", who(&later.process, later.pid)),
            };
            format!("released by {what} ({})", place(later))
        }
        Release::LaterRequest(later) => {
            let whose = match later.is_same {
                true => "its process's next request".to_owned(),
                false => format!("a request of {}", who(&later.process, later.pid)),
            };
            format!("released by {whose} ({})", place(later))
        }
        Release::Full { requests } => format!("released because it was full ({requests} requests)"),
        Release::Sleep => "released by its process going to sleep".to_owned(),
        Release::Timer => "released by the plug's timer".to_owned(),
        Release::Owner => "released by its own process".to_owned(),
        Release::Other { pid, process } => format!("released by {}", who(process, *pid)),
        Release::NotSeen => "released by nothing that the trace shows".to_owned(),
    }
}

fn who(process: &str, pid: u32) -> String {
    format!("{process} ({pid})")
}

fn place(later: &Later) -> String {
    format!("{}+{}", later.sector, later.sectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let times = [0, 17, 3_812, 98_765, 472_095, 4_359_407, 12_345_678_901];
        assert_eq!(
            times.map(time),
            [
                "0", "17 ns", "3.81 us", "98.8 us", "0.47 ms", "4.36 ms", "12.3 s"
            ]
        );
    }
}
