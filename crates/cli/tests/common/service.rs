// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch` as a service manager starts it.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::rc::{Rc, Weak};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::World;

/// Everything that is waited for comes at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `foreread watch`; killed when dropped.
pub struct Service {
    _turn: Rc<MutexGuard<'static, ()>>,
    child: Option<Child>,
    manager: UnixDatagram,
    heard: Vec<String>,
    stderr: PathBuf,
}

/// One test at a time runs services. A service sees what other tests read, and fetches it for them;
/// then their own service has nothing to fetch, and rests.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// That of this test, as long as one of its services lives.
    static OWN_TURN: RefCell<Weak<MutexGuard<'static, ()>>> = const { RefCell::new(Weak::new()) };
}

fn turn() -> Rc<MutexGuard<'static, ()>> {
    OWN_TURN.with_borrow_mut(|own| {
        own.upgrade().unwrap_or_else(|| {
            // A test that failed has left nothing behind that matters here.
            let turn = Rc::new(TURN.lock().unwrap_or_else(PoisonError::into_inner));
            *own = Rc::downgrade(&turn);
            turn
        })
    })
}

impl Service {
    /// Starts it with these options, and waits until it is ready.
    pub fn start(world: &World, options: &[&str]) -> Self {
        let mut command = world.foreread(&["watch"]);
        command.args(options);
        Self::start_as(world, command)
    }

    /// The same of a command that comes to run `foreread watch`.
    pub fn start_as(world: &World, mut command: Command) -> Self {
        let turn = turn();
        let (socket, stderr) = (world.path("notify"), world.path("stderr"));
        // An earlier one of the same test may have left its own.
        let _ = fs::remove_file(&socket);
        let manager = UnixDatagram::bind(&socket).expect("a socket");
        manager.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let log = fs::File::create(&stderr).expect("a file");
        command.env("NOTIFY_SOCKET", &socket).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(log).spawn();
        let mut service = Self {
            _turn: turn,
            child: Some(child.expect("it starts")),
            manager,
            heard: Vec::new(),
            stderr,
        };
        service.hear("READY=1");
        service
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Waits until it says something that begins so.
    pub fn hear(&mut self, what: &str) {
        let began = Instant::now();
        let mut bytes = [0; 4096];
        loop {
            let length = match self.manager.recv(&mut bytes) {
                Ok(length) => length,
                // A socket with a limit isn't read on after a stop of the process, as of a frozen
                // cgroup; signal(7).
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("no {what}: {error}: {:?}: {}", self.heard, self.stderr()),
            };
            let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let is_it = said.starts_with(what);
            self.heard.push(said);
            if is_it {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "no {what}: {:?}", self.heard);
        }
    }

    /// The same of what it says from now on.
    pub fn hear_anew(&mut self, what: &str) {
        let manager = &self.manager;
        manager.set_nonblocking(true).expect("a socket");
        while manager.recv(&mut [0; 4096]).is_ok() {}
        manager.set_nonblocking(false).expect("a socket");
        self.hear(what);
    }

    /// All that it said so far.
    pub fn heard(&self) -> &[String] {
        &self.heard
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).expect("a file")
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.id() as i32).expect("a number");
        kill_process(pid, signal).expect("it is told");
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Output {
        let child = self.child.take().expect("it runs");
        let mut output = child.wait_with_output().expect("it ends");
        output.stderr = self.stderr().into_bytes();
        output
    }

    /// Tells it to end, and waits.
    pub fn end(self) -> Output {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// A file of its directory in `/proc`.
    pub fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.id().to_string()).join(name)
    }

    /// A field of its `/proc/PID/status`.
    pub fn status(&self, name: &str) -> String {
        let text = fs::read_to_string(self.proc("status")).expect("it runs");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name}: {text}"))
            .trim()
            .to_owned()
    }

    /// Memory that it holds of its own, in KiB.
    pub fn rss_kib(&self) -> u64 {
        let text = self.status("VmRSS");
        let number = text
            .strip_suffix(" kB")
            .and_then(|text| text.trim().parse().ok());
        number.unwrap_or_else(|| panic!("{text}"))
    }

    /// Its open descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(self.proc("fd")).expect("it runs").count()
    }

    /// Its threads.
    pub fn threads(&self) -> usize {
        fs::read_dir(self.proc("task")).expect("it runs").count()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until this holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
