// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of plans on file systems that may never answer: a helper process carries them out.
//!
//! The helper reads as the executor does, with the same code. It reports its counters while they
//! change, so that its asker sees progress.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use foreread_core::Device;
use foreread_linux_helper::{Asker, Link, Lost, NotAsked, Then};
use foreread_prefetch::helper::{FetchRequest, HelperLimits, Reply, Request};
use foreread_profile::{NodeId, PagesOf};

use super::crew::Crew;
use super::means::Means;
use super::part::Part;
use super::targets::Target;
use super::under_way::{Shared, Working};
use super::{Options, pages_of};

/// How often a helper looks for orders and reports. Each report costs some microseconds.
const REPORT_EVERY: Duration = Duration::from_millis(10);

/// Has a helper carry a part out, and waits for it as long as it makes progress.
pub(super) fn carry_out(part: &Part, means: &mut Means) {
    let Part {
        plan,
        target,
        shared,
        ..
    } = part;
    let (part_plan, of_plan) = plan.part(&target.nodes);
    let request = FetchRequest {
        fs_type: target.fs_type.clone(),
        device: target.superblock().device,
        mount_point: target.superblock().mount_point,
        plan: part_plan,
        budget_bytes: part.budget_bytes,
        no_raw: shared.no_raw,
        no_ring: shared.no_ring,
        hold_data: !shared.is_released(),
        stops_when_overtaken: shared.stops_when_overtaken,
        keeps_fetched: shared.fetched.is_some(),
    };
    let mut is_held = request.hold_data;
    let mut is_stopping = false;
    let mut looks_since_stop = 0;
    let mut before = Vec::new();
    let superblock = target.superblock();
    let is_same = |asker: &Asker| *asker.superblock() == superblock;
    if !means.asker.as_ref().is_some_and(is_same) {
        means.asker = Some(Asker::new(superblock.clone(), HelperLimits::FOREIGN));
    }
    let Some(asker) = &mut means.asker else {
        return;
    };
    let look = || {
        if is_stopping {
            looks_since_stop += 1;
            return match looks_since_stop > LOOKS_AFTER_STOP {
                true => Then::Stop,
                false => Then::Wait,
            };
        }
        if shared.stopped() {
            is_stopping = true;
            return Then::Send(Request::Stop);
        }
        if is_held && shared.is_released() {
            is_held = false;
            return Then::Send(Request::Release);
        }
        Then::Wait
    };
    let take = |reply| {
        let Reply::Progress { counters, fetched } = reply else {
            return false;
        };
        shared.tally.add_more(&counters, &before);
        before = counters;
        keep(&of_plan, &fetched, shared);
        true
    };
    let asked = asker.ask_on(&Request::Fetch(Box::new(request)), look, take);
    match asked {
        Ok(()) | Err(NotAsked::Stopped) => {}
        Err(NotAsked::LeftAlone | NotAsked::NoHelper) => {
            shared.tally.add(|t| &t.left_alone_file_systems, 1);
            if before.is_empty() {
                let pages = pages_of(plan, &target.nodes);
                shared.tally.add(|t| &t.skipped_pages, pages);
            }
        }
    }
}

/// A helper that was told to stop has reads under way, which take some milliseconds. Whoever told
/// it does not wait for that.
const LOOKS_AFTER_STOP: u32 = 100;

/// Notes which pages arrived, by their numbers in the whole plan.
fn keep(of_plan: &[NodeId], fetched: &[PagesOf], shared: &Shared) {
    let Some(kept) = &shared.fetched else {
        return;
    };
    let fetched = fetched.iter().filter_map(|pages| {
        let node = *of_plan.get(pages.node.0 as usize)?;
        Some(PagesOf { node, ..*pages })
    });
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.extend(fetched);
}

/// Carries a part out, in a helper process.
///
/// # Errors
/// [`Lost`] when the asker is gone.
pub fn serve(request: FetchRequest, link: &mut Link) -> Result<(), Lost> {
    let options = Options {
        no_raw: request.no_raw,
        no_ring: request.no_ring,
        hold_data: request.hold_data,
        stops_when_overtaken: request.stops_when_overtaken,
        keeps_fetched: request.keeps_fetched,
        ..Options::default()
    };
    let shared = Arc::new(Shared::new(&options, None));
    let target = target_of(&request);
    let plan = Arc::new(request.plan);
    let part = Part::new(&plan, target, request.budget_bytes, &shared);
    let working = Working::new(&shared);
    let work = move || {
        let mut means = Means {
            asker: None,
            crew: Crew::default(),
            data: None,
            metadata: None,
        };
        part.carry_out_here(&mut means);
        drop(part);
        drop(working);
    };
    // Without a thread nothing is fetched.
    let thread = thread::Builder::new().name("fetch-device".into());
    drop(thread.spawn(work));
    let mut told = 0;
    let mut reported = 0;
    loop {
        let is_over = shared.wait_for_end(REPORT_EVERY);
        let progress = shared.progress();
        if progress != told {
            told = progress;
            let report = Reply::Progress {
                counters: shared.tally.report().counters(),
                fetched: take_fetched(&shared, &mut reported),
            };
            link.send(&report.to_bytes())?;
        }
        if is_over {
            return Ok(());
        }
        while let Some(message) = link.receive(Duration::ZERO)? {
            match Request::from_bytes(&message).map_err(|_| Lost)? {
                Request::Release => shared.release(),
                Request::Stop => shared.stop(),
                _ => return Err(Lost),
            }
        }
    }
}

fn target_of(request: &FetchRequest) -> Target {
    let Device { major, minor } = request.device;
    let wanted = request.plan.iter();
    let wanted = wanted.filter(|(_, node)| node.identity.inode != 0);
    Target {
        fs_type: request.fs_type.clone(),
        major,
        minor,
        // That below a btrfs isn't known here. Such a one is asked here after a failure only.
        below: request.device,
        mount_point: OsString::from_vec(request.mount_point.clone()).into(),
        nodes: wanted.map(|(id, _)| id).collect(),
        is_local: true,
        // Nobody waits for it here.
        metadata_done: AtomicBool::new(true),
    }
}

/// Pages that have arrived since the last call.
fn take_fetched(shared: &Shared, reported: &mut usize) -> Vec<PagesOf> {
    let Some(fetched) = &shared.fetched else {
        return Vec::new();
    };
    let fetched = fetched.lock().unwrap_or_else(PoisonError::into_inner);
    let new = fetched.get(*reported..).unwrap_or_default().to_vec();
    *reported = fetched.len();
    new
}
