// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks one file system, through a helper process of its own.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use foreread_prefetch::helper::{Reply, Request};
use foreread_sys::helper_process;
use foreread_sys::process_stat::any_thread_runs;

use super::link::{Link, Lost};
use super::registry;
use super::superblock::Superblock;

/// Why there is no answer.
#[derive(Debug)]
pub enum NotAsked {
    /// The file system is left alone: it did not answer, now or before.
    LeftAlone,
    /// The asker was told to stop.
    Stopped,
    /// No helper can be had, or it has died.
    NoHelper,
}

/// Time for a helper to begin. It has to read its executable, which is in memory.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);
/// How often it is looked whether to stop, or what else there is to say.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOK_AT_LEAST: Duration = Duration::from_millis(1);
/// Time without progress after which a helper that was told to stop counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// See the [module](self).
pub struct Asker {
    superblock: Superblock,
    limit: Duration,
    helper: Option<Helper>,
}

struct Helper {
    link: Link,
    process: u32,
}

impl Helper {
    /// Whether it waits for the processor, and not for a file system. That has a limit, too.
    fn is_starved(&self, waited: Duration, limit: Duration) -> bool {
        const LIMITS: u32 = 5;
        waited < limit * LIMITS && any_thread_runs(self.process)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        registry::ended(self.process);
    }
}

/// The next step after a look.
pub enum Then {
    /// Wait for the next reply.
    Wait,
    /// Send this first.
    Send(Request),
    /// Wait no longer.
    Stop,
}

impl Asker {
    /// Of a file system. `limit` is the longest time without progress.
    #[must_use]
    pub fn new(superblock: Superblock, limit: Duration) -> Self {
        Self {
            superblock,
            limit,
            helper: None,
        }
    }

    /// The file system that it asks.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Asks for one answer.
    ///
    /// # Errors
    /// [`NotAsked`] when there is none.
    pub fn ask(
        &mut self,
        request: &Request,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Reply, NotAsked> {
        let mut answer = None;
        let look = || match is_stopped() {
            true => Then::Stop,
            false => Then::Wait,
        };
        self.ask_on(request, look, |reply| {
            answer = Some(reply);
            false
        })?;
        answer.ok_or(NotAsked::NoHelper)
    }

    /// Asks, and takes replies as long as `take` wants more of them. `look` is called between them,
    /// every few milliseconds.
    ///
    /// # Errors
    /// [`NotAsked`] when there is no answer.
    pub fn ask_on(
        &mut self,
        request: &Request,
        mut look: impl FnMut() -> Then,
        mut take: impl FnMut(Reply) -> bool,
    ) -> Result<(), NotAsked> {
        if !registry::may_ask(self.superblock.device) {
            self.helper = None;
            return Err(NotAsked::LeftAlone);
        }
        let message = request.to_bytes();
        let mut helper = self.helper()?;
        let mut sent = helper.link.send(&message);
        if sent.is_err() {
            // It has died meanwhile, for want of memory perhaps.
            drop(helper);
            helper = begin()?;
            sent = helper.link.send(&message);
        }
        sent.map_err(|Lost| NotAsked::NoHelper)?;
        let mut progress = Instant::now();
        loop {
            match look() {
                Then::Wait => {}
                Then::Send(request) => {
                    let sent = helper.link.send(&request.to_bytes());
                    sent.map_err(|Lost| NotAsked::NoHelper)?;
                }
                Then::Stop => {
                    if progress.elapsed() >= STUCK_AFTER {
                        self.abandon(&helper);
                    }
                    return Err(NotAsked::Stopped);
                }
            }
            let left = self.limit.saturating_sub(progress.elapsed());
            let received = helper.link.receive(left.clamp(LOOK_AT_LEAST, LOOK_EVERY));
            let reply = match received.map_err(|Lost| NotAsked::NoHelper)? {
                Some(reply) => reply,
                None if left.is_zero() && !helper.is_starved(progress.elapsed(), self.limit) => {
                    self.abandon(&helper);
                    return Err(NotAsked::LeftAlone);
                }
                None => continue,
            };
            let reply = Reply::from_bytes(&reply).map_err(|_| NotAsked::NoHelper)?;
            progress = Instant::now();
            if !take(reply) {
                registry::answered(self.superblock.device);
                self.helper = Some(helper);
                return Ok(());
            }
        }
    }

    fn helper(&mut self) -> Result<Helper, NotAsked> {
        match self.helper.take() {
            Some(helper) => Ok(helper),
            None => begin(),
        }
    }

    /// The helper may hang for ever. It ends by itself as soon as it can.
    fn abandon(&self, helper: &Helper) {
        // It is told by the end of what is sent to it. If that fails, it is gone.
        let stream = helper.link.stream();
        let _ = stream.shutdown(Shutdown::Write);
        if let Ok(socket) = stream.try_clone() {
            registry::stuck(&self.superblock, helper.process, socket);
        }
    }
}

fn begin() -> Result<Helper, NotAsked> {
    let socket = helper_process::start().map_err(|_| NotAsked::NoHelper)?;
    let mut link = Link::new(socket);
    let first = link.receive(BEGIN_LIMIT);
    let first = first.ok().flatten().ok_or(NotAsked::NoHelper)?;
    let Ok(Reply::Begun { process }) = Reply::from_bytes(&first) else {
        return Err(NotAsked::NoHelper);
    };
    registry::begun(process);
    Ok(Helper { link, process })
}
