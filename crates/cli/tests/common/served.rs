// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that read from a server which may stop to answer, and `foreread` around them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use foreread_testbed::hanging_server::HangingServer;
use rustix::process::{Pid, Signal, kill_process};

use super::service::until;
use super::{World, is_root};

/// Far more than any of it takes on an idle machine; what hangs takes for ever.
pub const LIMIT: Duration = Duration::from_secs(30);

/// A server with a place for its mount; `None` where that can't be had, and says so.
pub fn server(world: &World) -> Option<HangingServer> {
    if !is_root() {
        return None;
    }
    match HangingServer::start(&world.path("")) {
        Ok(server) => Some(server),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// The end of a command.
#[derive(Debug)]
pub struct End {
    pub code: Option<i32>,
    pub took: Duration,
    pub stderr: String,
}

/// A running command, which is killed when it is forgotten.
pub struct Running {
    child: Child,
    stderr: PathBuf,
}

impl Running {
    pub fn start(world: &World, name: &str, mut command: Command) -> Self {
        let stderr = world.path(&format!("stderr-{name}"));
        let file = fs::File::create(&stderr).expect("a file");
        let child = command.stdout(Stdio::null()).stderr(file).spawn();
        Self {
            child: child.expect("it starts"),
            stderr,
        }
    }

    /// Whether it has not ended yet.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is told");
    }

    /// Its end, as its parent sees it: one that can't be reaped has none.
    pub fn end(mut self, what: &str) -> End {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(began.elapsed() < LIMIT, "{what}: it did not end");
            thread::sleep(Duration::from_millis(5));
        };
        let end = End {
            code: status.code(),
            took: began.elapsed(),
            stderr: fs::read_to_string(&self.stderr).unwrap_or_default(),
        };
        println!(
            "{what}: {} ms, {}",
            end.took.as_millis(),
            end.stderr.trim_end()
        );
        end
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // Not waited for: it may hang.
    }
}

/// A command that reads files of a server mounted at `point`, and a large file, if `BUSY` is set.
/// Then it waits for the file `go`, and ends with 7.
pub fn script(point: &Path, large: &Path, world: &World) -> String {
    let (point, large) = (point.display(), large.display());
    let (ready, go) = (world.path("ready"), world.path("go"));
    format!(
        "test -z \"$BUSY\" || {{ cat {point}/[0-9] {point}/directory/inner {large} {point}/link; \
         ls -l {point} {point}/directory; }} > /dev/null; : > {}; \
         while test ! -e {}; do sleep 0.02; done; exit 7",
        ready.display(),
        go.display()
    )
}

/// Has that command end by itself, once it waits.
pub fn let_go(world: &World) {
    until("the command is ready", || world.path("ready").exists());
    fs::write(world.path("go"), "").expect("a file");
}

/// Makes the directory ready for the next such command.
pub fn forget(world: &World) {
    for name in ["ready", "go"] {
        let _ = fs::remove_file(world.path(name));
    }
}

/// Reads the files of a server mounted at `point` one after the other, by one process, with a
/// pause after each.
pub fn reader(point: &Path) -> Command {
    let mut command = Command::new("sh");
    let files = HangingServer::FILES - 1;
    let script = format!(
        "cat $(seq -f '{}/%g' 0 {files}) 2> /dev/null | \
         while [ $(head -c 65536 | wc -c) -gt 0 ]; do sleep 0.01; done",
        point.display()
    );
    command.args(["-c", &script]);
    command
}
