// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's process events over netlink (`CONFIG_PROC_EVENTS`): who forks whom.
//!
//! A fork is announced before the child first runs, so what a process opens is never known before
//! the process is. Needs `CAP_NET_ADMIN` and the first namespaces of processes and users.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const NETLINK_HEADER_BYTES: usize = 16;
const CONNECTOR_HEADER_BYTES: usize = 20;
const EVENT_AT: usize = NETLINK_HEADER_BYTES + CONNECTOR_HEADER_BYTES;
/// `event_data` in `struct proc_event`.
const DATA_AT: usize = EVENT_AT + 16;

const EVENT_NONE: u32 = 0;
const EVENT_FORK: u32 = 1;
const EVENT_EXEC: u32 = 2;
const EVENT_EXIT: u32 = 0x8000_0000;

const LISTEN: u32 = 1;
const IGNORE: u32 = 2;

/// Room for some 100,000 events between two reads.
static QUEUE_BYTES: libc::c_int = 8 << 20;

/// An event of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process, not a thread, was created.
    Fork {
        /// The thread that made it.
        parent_tid: i32,
        /// That thread's process.
        parent: i32,
        /// The new process.
        child: i32,
    },
    /// It executes another program.
    Exec {
        /// The process.
        pid: i32,
    },
    /// Its last-born or first thread ended: here the first.
    Exit {
        /// The process.
        pid: i32,
    },
}

/// Tells of all processes for as long as it lives.
pub struct Connector {
    socket: OwnedFd,
    lost: u64,
}

impl Connector {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the kernel has no process events, or refuses them to this process.
    pub fn open() -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: plain system call; the descriptor is new, and no other code owns it.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: the address is a zeroed sockaddr_nl, valid for the size given; so is the option.
        unsafe {
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
            address.nl_groups = libc::CN_IDX_PROC;
            let size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            if libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) != 0 {
                return Err(io::Error::last_os_error());
            }
            // Without the right to force it the default of some 200 kB stays, and losses count.
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const QUEUE_BYTES).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
        let mut connector = Self { socket, lost: 0 };
        connector.send(LISTEN)?;
        connector.await_answer()?;
        Ok(connector)
    }

    fn send(&self, operation: u32) -> io::Result<()> {
        let message = message(operation);
        // SAFETY: the buffer is valid for its length.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Outside the first namespaces the kernel takes the request and never answers.
    fn await_answer(&mut self) -> io::Result<()> {
        const LIMIT: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        let mut buffer = [0u8; 512];
        loop {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            if poll(&mut fds, Some(&LIMIT))? == 0 {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            let length = rustix::io::read(&self.socket, &mut buffer)?;
            let message = &buffer[..length];
            if u32_at(message, EVENT_AT) == Some(EVENT_NONE) {
                return match u32_at(message, DATA_AT) {
                    Some(0) => Ok(()),
                    Some(error) => Err(io::Error::from_raw_os_error(error as i32)),
                    None => Err(io::Error::from(io::ErrorKind::InvalidData)),
                };
            }
        }
    }

    /// Hands on what has come: the time (`CLOCK_MONOTONIC`) and the event.
    pub fn read(&mut self, mut take: impl FnMut(u64, Event)) {
        let mut buffer = [0u8; 512];
        loop {
            match rustix::io::read(&self.socket, &mut buffer) {
                Ok(0) => return,
                Ok(length) => {
                    if let Some((time_ns, event)) = parse(&buffer[..length]) {
                        take(time_ns, event);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                // The queue was full; the number of missing events is unknown.
                Err(rustix::io::Errno::NOBUFS) => self.lost += 1,
                Err(_) => return,
            }
        }
    }

    /// Number of times that the queue was full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        // The kernel counts listeners and stops making events for none.
        let _ = self.send(IGNORE);
    }
}

fn message(operation: u32) -> Vec<u8> {
    let length = EVENT_AT + 4;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend((libc::NLMSG_DONE as u16).to_ne_bytes());
    bytes.extend(0u16.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(libc::CN_IDX_PROC.to_ne_bytes());
    bytes.extend(libc::CN_VAL_PROC.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(4u16.to_ne_bytes());
    bytes.extend(0u16.to_ne_bytes());
    bytes.extend(operation.to_ne_bytes());
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn parse(bytes: &[u8]) -> Option<(u64, Event)> {
    let time = bytes.get(EVENT_AT + 8..EVENT_AT + 16)?;
    let time_ns = u64::from_ne_bytes(time.try_into().ok()?);
    let number = |index: usize| u32_at(bytes, DATA_AT + 4 * index).map(|n| n as i32);
    let event = match u32_at(bytes, EVENT_AT)? {
        EVENT_FORK => {
            let (tid, tgid) = (number(2)?, number(3)?);
            (tid == tgid).then_some(Event::Fork {
                parent_tid: number(0)?,
                parent: number(1)?,
                child: tgid,
            })?
        }
        EVENT_EXEC => Event::Exec { pid: number(1)? },
        EVENT_EXIT => {
            let (tid, tgid) = (number(0)?, number(1)?);
            (tid == tgid).then_some(Event::Exit { pid: tgid })?
        }
        _ => return None,
    };
    Some((time_ns, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: u32, numbers: [i32; 4]) -> Vec<u8> {
        let mut bytes = vec![0; EVENT_AT];
        bytes.extend(what.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(77u64.to_ne_bytes());
        bytes.extend(numbers.iter().flat_map(|n| n.to_ne_bytes()));
        bytes
    }

    #[test]
    fn forks_of_processes_count_and_those_of_threads_do_not() {
        let process = event(EVENT_FORK, [5, 4, 9, 9]);
        let fork = Event::Fork {
            parent_tid: 5,
            parent: 4,
            child: 9,
        };
        assert_eq!(parse(&process), Some((77, fork)));
        assert_eq!(parse(&event(EVENT_FORK, [5, 4, 10, 9])), None);
        assert_eq!(
            parse(&event(EVENT_EXIT, [9, 9, 0, 0])),
            Some((77, Event::Exit { pid: 9 }))
        );
        assert_eq!(parse(&event(EVENT_EXIT, [10, 9, 0, 0])), None);
        assert_eq!(parse(&process[..DATA_AT + 3]), None);
    }

    #[test]
    fn the_request_is_as_long_as_it_says() {
        let bytes = message(LISTEN);
        assert_eq!(bytes.len(), 40);
        assert_eq!(u32_at(&bytes, 0), Some(40));
        assert_eq!(u32_at(&bytes, EVENT_AT), Some(LISTEN));
    }
}
