// SPDX-License-Identifier: MIT OR Apache-2.0
//! Telling the service manager how it goes, as systemd's `sd_notify(3)` describes it: a datagram to
//! the socket that the environment names. Without one nothing is sent.

use std::env;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager that started us and wants to be notified, if any.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    alive_every: Option<Duration>,
    told_alive: Option<Instant>,
    status: String,
}

impl ServiceManager {
    /// The one that `NOTIFY_SOCKET` names, which hears from us as often as `WATCHDOG_USEC` wants.
    #[must_use]
    pub fn of_environment() -> Self {
        let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let is_for_us =
            number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let within = number("WATCHDOG_USEC").filter(|us| *us > 0 && is_for_us);
        Self::at(
            &env::var_os("NOTIFY_SOCKET").unwrap_or_default(),
            within.map(Duration::from_micros),
        )
    }

    /// The one at a socket: a path, or an abstract name after `@`.
    fn at(name: &OsStr, alive_within: Option<Duration>) -> Self {
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
            [b'/', ..] => SocketAddr::from_pathname(name).ok(),
            _ => None,
        };
        let socket = address.and_then(|address| {
            let socket = UnixDatagram::unbound().ok()?;
            // A manager that doesn't listen must not hold us up.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        Self {
            alive_every: alive_within
                .filter(|_| socket.is_some())
                .map(|within| within / 2),
            socket,
            ..Self::default()
        }
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.socket.is_some()
    }

    /// Interval at which to report that the service is alive: half of the manager's watchdog
    /// timeout.
    #[must_use]
    pub fn alive_every(&self) -> Option<Duration> {
        self.alive_every
    }

    /// Reports that the start is complete, or a reload, after [`reloading`](Self::reloading).
    pub fn ready(&mut self) {
        self.tell("READY=1");
        self.alive();
    }

    /// The configuration is read anew.
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// The end has begun.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Says that we are alive, where it is time to.
    pub fn alive(&mut self) {
        let Some(every) = self.alive_every else {
            return;
        };
        if self.told_alive.is_none_or(|told| told.elapsed() >= every) {
            self.tell("WATCHDOG=1");
            self.told_alive = Some(Instant::now());
        }
    }

    /// A line about how it goes, told when it has changed.
    pub fn status(&mut self, text: &str) {
        if self.is_there() && self.status != text {
            text.clone_into(&mut self.status);
            self.tell(&format!("STATUS={}", text.replace('\n', " ")));
        }
    }

    fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            // A manager that is gone or busy can't be told that either; it has its own time limits.
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(at: &UnixDatagram) -> Vec<String> {
        at.set_nonblocking(true).unwrap();
        let mut bytes = [0; 512];
        let mut said = Vec::new();
        while let Ok(length) = at.recv(&mut bytes) {
            said.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        said
    }

    #[test]
    fn it_hears_what_happens_and_no_status_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let mut manager = ServiceManager::at(path.as_os_str(), Some(Duration::from_secs(60)));
        assert!(manager.is_there());
        assert_eq!(manager.alive_every(), Some(Duration::from_secs(30)));
        manager.ready();
        manager.alive();
        manager.status("one\nline");
        manager.status("one\nline");
        manager.stopping();
        assert_eq!(
            heard(&listener),
            ["READY=1", "WATCHDOG=1", "STATUS=one line", "STOPPING=1"]
        );
        manager.reloading();
        let said = heard(&listener);
        assert!(
            said[0].starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{said:?}"
        );
    }

    #[test]
    fn abstract_names_are_reached() {
        let name = format!("foreread-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        ServiceManager::at(OsStr::new(&format!("@{name}")), None).stopping();
        assert_eq!(heard(&listener), ["STOPPING=1"]);
    }

    #[test]
    fn nobody_there_is_no_error() {
        for name in ["", "relative", "vsock:2:1", "/no/such/socket"] {
            let mut manager = ServiceManager::at(OsStr::new(name), Some(Duration::ZERO));
            manager.ready();
            manager.status("x");
            manager.stopping();
            assert_eq!(manager.is_there(), name.starts_with('/'), "{name}");
        }
        assert_eq!(
            ServiceManager::at(OsStr::new(""), Some(Duration::MAX)).alive_every(),
            None
        );
    }
}
