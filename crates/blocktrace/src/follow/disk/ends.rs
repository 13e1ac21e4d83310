// SPDX-License-Identifier: MIT OR Apache-2.0
//! How lives end: done, given back, given up, cut off by the end of the trace.

use std::collections::BTreeMap;

use super::Disk;
use crate::event::Event;
use crate::follow::followed::Followed;
use crate::follow::index::Placed;
use crate::follow::{Counts, FOLLOWED_MAX};
use crate::request::Request;

impl Disk {
    pub(super) fn requeued(&mut self, event: &Event) {
        let suits = |f: &Followed| 1 + u8::from(f.request.sectors == u64::from(event.sectors));
        let Some(id) = self.issued.starting(event.sector, suits) else {
            return;
        };
        if let Some(mut followed) = self.issued.remove(id) {
            self.depth.complete();
            followed.request.requeues += 1;
            followed.request.issued_ns = None;
            followed.waits = Some((event.time_ns, self.depth.clocks()));
            self.wait(id, followed);
        }
    }

    pub(super) fn completed(
        &mut self,
        event: &Event,
        error: i32,
        counts: &mut Counts,
        finished: &mut Vec<Request>,
    ) {
        let sectors = u64::from(event.sectors);
        let left = |f: &Followed| f.end() - f.start();
        if let Some(id) = self
            .issued
            .starting(event.sector, |f| 1 + u8::from(left(f) == sectors))
            && let Some(mut followed) = self.issued.remove(id)
        {
            if error == 0 && left(&followed) > sectors {
                followed.left_from += sectors;
                self.issued.insert(id, followed);
                return;
            }
            self.depth.complete();
            followed.request.error = error;
            followed.request.completed_ns = Some(event.time_ns);
            finished.push(followed.settled(&self.depth));
            return;
        }
        self.depth.complete_unseen();
        counts.unseen_issues += 1;
        let suits = |f: &Followed| u8::from(f.request.sectors == sectors);
        let mut followed = match self.waiting.starting(event.sector, suits) {
            Some(id) => match self.take_waiting(id) {
                Some(followed) => followed,
                None => return,
            },
            None => {
                let mut followed = Followed::of(event);
                // Devices that pass bios on have no requests.
                if let Some(bio) = self.take_bio(event) {
                    counts.unseen_issues -= 1;
                    followed.request.add(bio);
                }
                let issued_ns = event.elapsed_ns.and_then(|e| event.time_ns.checked_sub(e));
                followed.request.issued_ns = issued_ns;
                followed
            }
        };
        followed.request.error = error;
        followed.request.completed_ns = Some(event.time_ns);
        finished.push(followed.settled(&self.depth));
    }

    pub(super) fn keep_bounds(&mut self, counts: &mut Counts, finished: &mut Vec<Request>) {
        if self.loose.len() > FOLLOWED_MAX && self.loose.pop_first().is_some() {
            counts.given_up += 1;
        }
        if self.waiting.len() > FOLLOWED_MAX
            && let Some(followed) = self.waiting.first_id().and_then(|id| self.take_waiting(id))
        {
            counts.given_up += 1;
            finished.push(followed.settled(&self.depth));
        }
        if self.issued.len() > FOLLOWED_MAX
            && let Some((_, followed)) = self.issued.pop_first()
        {
            counts.given_up += 1;
            self.depth.complete();
            finished.push(followed.settled(&self.depth));
        }
        if self.gone_early.len() > FOLLOWED_MAX {
            self.gone_early.pop_front();
        }
    }

    pub fn finish(&mut self, finished: &mut Vec<Request>) {
        let mut left = BTreeMap::new();
        while let Some((id, followed)) = self.issued.pop_first() {
            left.insert(id, followed);
        }
        while let Some((id, followed)) = self.waiting.pop_first() {
            left.insert(id, followed);
        }
        for followed in left.into_values() {
            let request = followed.settled(&self.depth);
            finished.push(request);
        }
    }
}
