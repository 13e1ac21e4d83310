// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of the machine, as values. What can't be read is named, and the rest goes on.

use std::fs;
use std::path::{Path, PathBuf};

use foreread_device::{Expected, Measured, MeasuredBook};
use foreread_sys::clock::now_unix_s;

use super::live::Live;
use crate::advise::Advised;
use crate::apply;
use crate::apply::report::StatusReport;
use crate::boot::status::{self as boot_status, BootState};
use crate::device_state::DeviceState;
use crate::doctor::{self, Examined};
use crate::show::list::{self, Found};
use crate::store::Store;
use crate::text::{escaped_path, printable};

/// Where the service and root keep profiles.
const SYSTEM_STORE: &str = "/var/lib/foreread";

/// The machine.
pub struct Machine {
    pub written_unix_s: u64,
    pub host: String,
    pub kernel: String,
    /// What a running `watch` told; `None` if none runs, or it wasn't told.
    pub live: Option<Live>,
    /// Whether one runs.
    pub is_watched: bool,
    /// Where profiles are kept, and what is there.
    pub store: Option<PathBuf>,
    pub profiles: Vec<Found>,
    pub advised: Advised,
    pub measured: MeasuredBook,
    pub applied: Option<StatusReport>,
    pub boot: Option<BootState>,
    pub examined: Examined,
    /// What could not be read, and why, each in a few words.
    pub left_out: Vec<String>,
}

impl Machine {
    /// Reads it all. Devices and boots are those of the machine below `sysroot`.
    pub fn gather(sysroot: &Path) -> Self {
        let mut left_out = Vec::new();
        let live = Live::ask();
        let is_watched = !matches!(live, Ok(None));
        let live = taken(live, "what the service does", &mut left_out).flatten();
        let store = taken(Store::find(), "profiles", &mut left_out);
        let profiles = store.as_ref().map(list::found);
        let profiles = profiles.and_then(|found| taken(found, "profiles", &mut left_out));
        let store = store.map(|store| store.directory().to_owned());
        if let Some(why) = unseen_store(store.as_deref()) {
            left_out.push(why);
        }
        let advised = Advised::read(sysroot, Expected::default());
        left_out.extend(advised.notes.iter().map(|note| printable(note)));
        // That it can't be read is in the notes already.
        let measured = DeviceState::of(sysroot).measured().unwrap_or_default();
        let applied = apply::status(sysroot, &[], false);
        let applied = taken(applied, "what apply has set", &mut left_out);
        let mut notes = Vec::new();
        let boot = boot_status::gather(sysroot, &mut |note| notes.push(printable(note)));
        let boot = taken(boot, "boots", &mut left_out);
        left_out.extend(notes);
        Self {
            written_unix_s: now_unix_s(),
            host: host(),
            kernel: foreread_sys::kernel::kernel_release(),
            live,
            is_watched,
            store,
            profiles: profiles.unwrap_or_default(),
            advised,
            measured,
            applied,
            boot,
            examined: doctor::examine(),
            left_out,
        }
    }

    /// Whether nothing was recorded, replayed, measured or set yet.
    pub fn is_fresh(&self) -> bool {
        let applied = self
            .applied
            .as_ref()
            .is_some_and(|one| !one.open.is_empty());
        let boots = self.boot.as_ref();
        let boots = boots.is_some_and(|one| one.is_enabled || !one.history.boots().is_empty());
        !self.is_watched
            && self.profiles.is_empty()
            && !applied
            && !boots
            && self.curves().next().is_none()
    }

    /// The measurements of devices that are there.
    pub fn curves(&self) -> impl Iterator<Item = (usize, &Measured)> {
        let devices = self.advised.machine.devices.iter().enumerate();
        devices.filter_map(|(at, device)| Some((at, self.measured.of(&device.identity)?)))
    }
}

/// The commands to begin with, with what each is for.
pub const FIRST_STEPS: [(&str, &str); 4] = [
    (
        "sudo foreread run -- COMMAND",
        "speeds up a command: recorded once, replayed from then on",
    ),
    (
        "sudo systemctl enable --now foreread-watch",
        "speeds up the whole machine",
    ),
    (
        "sudo foreread probe DEVICE",
        "measures which readahead size suits a disk",
    ),
    ("sudo foreread boot enable", "speeds up the boot"),
];

fn taken<T>(found: anyhow::Result<T>, what: &str, left_out: &mut Vec<String>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            left_out.push(format!("{what}: {}", printable(&format!("{error:#}"))));
            None
        }
    }
}

/// Profiles of root that a user can't see.
fn unseen_store(own: Option<&Path>) -> Option<String> {
    let system = Path::new(SYSTEM_STORE);
    if rustix::process::geteuid().is_root() || own == Some(system) {
        return None;
    }
    let error = fs::read_dir(system).err()?;
    let is_closed = error.kind() == std::io::ErrorKind::PermissionDenied;
    is_closed.then(|| {
        let store = escaped_path(system);
        format!("profiles and boots in {store}, which only root may read: use sudo")
    })
}

fn host() -> String {
    let names = rustix::system::uname();
    printable(&names.nodename().to_string_lossy())
}
