// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine in virtual time with Foreread's units for boots, and its boots.
//!
//! Every boot has the units that `foreread boot enable` makes. The kernel's command line says what
//! it is given, so that boots with and without a replay come in turn.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use foreread_guest::{Guest, GuestError, Lab, Machine, Outcome};
use foreread_measure::sample::Sample;
use foreread_model::{Counters, DiskParameters};
use serde_json::Value;

use crate::begin::Begin;
use crate::context::{document, finished, on_image};
use crate::whole_files::WholeFiles;

/// Installs foreread on a machine and enables its boot.
const PREPARE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/guest/boot-machine.sh"
);
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Takes along the processor time of `foreread` and the reads of the disks until the machine was
/// up. Then it waits until the boot is over to `foreread`, and takes along what that says.
const SCRIPT: &str = "
cat /sys/fs/cgroup/system.slice/foreread-boot.service/cpu.stat >/run/out/cpu.stat 2>/dev/null
mount -t debugfs debug /sys/kernel/debug 2>/dev/null
for disk in /sys/kernel/debug/foreread_disk/*; do
    [ ! -e \"$disk\" ] || cat \"$disk\" >\"/run/out/${disk##*/}.reads\"
done
# Its time is noted later.
[ ! -e /var/lib/foreread/boot/timed-only ] || sleep 15
tries=0
# It is activating until its recorder is there.
until [ \"$(systemctl is-active foreread-boot.service)\" = inactive ] || [ $tries -ge 60 ]; do
    tries=$((tries + 1)); sleep 1
done
systemctl show --property=Result,ExecMainStatus foreread-boot.service
journalctl --no-pager --output=cat --unit=foreread-boot.service
foreread boot status --json >/run/out/status.json
foreread boot export --portable /run/out/portable.profile >/dev/null 2>&1
cp /var/lib/foreread/boot/boot.frp /run/out/ 2>/dev/null
id=$(cat /proc/sys/kernel/random/boot_id)
cp \"/var/lib/foreread/boot/traces/$id.json\" /run/out/trace.json 2>/dev/null
journalctl --no-pager --output=short-monotonic --boot >/run/out/journal
sync
";

/// Afterwards, what the profile of the boot has is moved, as from a disk with a head.
const MOVE: &str = "
foreread layout show --boot --disk hdd --svg /run/out/before.svg
foreread layout apply --boot --disk hdd --json >/run/out/layout.json
foreread layout show --boot --disk hdd --svg /run/out/after.svg
sync
";

const END: &str = "
mount -o remount,ro / || true
";

/// The system on the root disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum System {
    /// systemd, udev, dbus, logind.
    Small,
    /// Some 40 services more, see tests/guest/services.list.
    Services,
}

/// The file systems of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Disks {
    /// One ext4.
    One,
    /// A btrfs with the subvolumes `@` and `@var`.
    SubvolumeVar,
    /// A btrfs with the subvolumes `@` and `@home`.
    SubvolumeHome,
    /// One XFS.
    Xfs,
    /// An ext4, and another one for `/var` on a second disk.
    SecondVar,
}

/// The content of a machine's root disk.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub system: System,
    pub begin: Begin,
    /// A profile that came with the image.
    pub profile: Option<&'a Path>,
    /// Whether the files were put on the disk in another order, by the kernel: the same packages on
    /// another machine.
    pub is_relaid: bool,
    pub disks: Disks,
}

impl Setup<'_> {
    /// A system on one ext4 as the lab has it, without a profile.
    pub const fn of(system: System, begin: Begin) -> Self {
        Self {
            system,
            begin,
            profile: None,
            is_relaid: false,
            disks: Disks::One,
        }
    }
}

/// One boot.
pub struct Booted {
    /// Until the machine was up, by its clock.
    pub up_s: f64,
    /// The counters of the root disk's model until then.
    pub disk: Counters,
    /// The last boot of `foreread boot status`.
    pub last: Value,
    pub outcome: Outcome,
}

impl Booted {
    /// When it was up, and what was asked of its root disk until then.
    pub fn told(&self) -> String {
        format!(
            "up after {:.2} s; {} requests, {} MiB, {} seeks, {} first touches, {:.2} s busy",
            self.up_s,
            self.disk.requests,
            self.disk.bytes >> 20,
            self.disk.seeks,
            self.disk.first_touches,
            self.disk.busy_ns as f64 / 1e9
        )
    }
}

/// Several boots of one kind.
pub struct Boots(pub Vec<Booted>);

impl Boots {
    pub fn median(&self, value: fn(&Booted) -> f64) -> f64 {
        Sample::new(self.0.iter().map(value)).median()
    }

    pub fn times(&self) -> String {
        let values = self.0.iter().map(|boot| format!("{:.2}", boot.up_s));
        values.collect::<Vec<_>>().join(", ")
    }

    pub fn are(&self, mode: &str) -> bool {
        self.0
            .iter()
            .all(|boot| boot.last["mode"] == mode && !boot.last["measured"].is_null())
    }
}

/// When a machine was up; see [`Booted`].
pub fn up_s(boot: &Booted) -> f64 {
    boot.up_s
}

/// See the [module](self).
pub struct BootMachine<'lab> {
    lab: &'lab Lab,
    foreread: PathBuf,
    kernel: String,
    begin: Begin,
    /// The name of the root disk's speed.
    disk: String,
    machine: Machine,
    is_traced: bool,
    memory_mib: Option<u32>,
}

impl<'lab> BootMachine<'lab> {
    /// A machine whose root disk has the speed `disk`, and which boots `kernel`. `foreread` is
    /// installed.
    pub fn new(
        lab: &'lab Lab,
        foreread: &Path,
        kernel: &str,
        disk: &str,
        setup: Setup<'_>,
    ) -> Result<Self, GuestError> {
        let image = match setup.system {
            System::Small => lab.image(),
            System::Services => lab.services_image()?,
        };
        let mut machine = Self {
            lab,
            foreread: foreread.to_owned(),
            kernel: kernel.to_owned(),
            begin: setup.begin,
            disk: disk.to_owned(),
            machine: Machine::of(image, preset(disk)?)?,
            is_traced: false,
            memory_mib: None,
        };
        machine.prepare(setup)?;
        Ok(machine)
    }

    /// Another machine that is like this one now.
    pub fn copy(&self) -> Result<Self, GuestError> {
        Ok(Self {
            lab: self.lab,
            foreread: self.foreread.clone(),
            kernel: self.kernel.clone(),
            begin: self.begin,
            disk: self.disk.clone(),
            machine: self.machine.copy()?,
            is_traced: self.is_traced,
            memory_mib: self.memory_mib,
        })
    }

    /// Installs foreread on the root disk, and enables its boot. Makes its other disks.
    fn prepare(&mut self, setup: Setup<'_>) -> Result<(), GuestError> {
        let Setup { begin, profile, .. } = setup;
        let mut command = Command::new(PREPARE);
        if let Some(profile) = profile {
            command.env("BOOT_MACHINE_PROFILE", profile);
        }
        if setup.is_relaid {
            command.env("BOOT_MACHINE_RELAID", "1");
        }
        let var = self.machine.root_image().with_extension("var");
        match setup.disks {
            Disks::One => {}
            Disks::SubvolumeVar => {
                command.env("BOOT_MACHINE_SUBVOLUME", "var");
            }
            Disks::SubvolumeHome => {
                command.env("BOOT_MACHINE_SUBVOLUME", "home");
            }
            Disks::Xfs => {
                command.env("BOOT_MACHINE_XFS", "1");
            }
            Disks::SecondVar => {
                command.env("BOOT_MACHINE_VAR", &var);
            }
        }
        command.arg(self.machine.root_image()).arg(&self.foreread);
        self.install(begin, setup.disks, &mut command)?;
        if setup.disks == Disks::SecondVar {
            let speed = self.machine.speed().clone();
            self.machine.add_disk("var", &var, speed)?;
        }
        Ok(())
    }

    /// Runs the command that installs foreread, with the rest of its arguments.
    fn install(
        &mut self,
        begin: Begin,
        disks: Disks,
        command: &mut Command,
    ) -> Result<(), GuestError> {
        // The lab's own archive mounts an ext4 only.
        let is_ext4 = matches!(disks, Disks::One | Disks::SecondVar);
        if begin == Begin::Unit && is_ext4 {
            return finished(command);
        }
        if begin == Begin::Unit {
            command.env("BOOT_MACHINE_UNIT", "1");
        }
        let kernel = self.lab.kernel(&self.kernel)?;
        let driver = kernel.disk_driver().ok_or_else(|| {
            GuestError::Unexpected("the lab has no disks in virtual time".to_owned())
        })?;
        let initrd = self.machine.root_image().with_extension("initrd");
        command
            .arg(match begin {
                Begin::Dracut => "dracut",
                _ => "initramfs-tools",
            })
            .arg(&kernel.release)
            .arg(kernel.config())
            .arg(driver);
        finished(command.arg(&initrd))?;
        self.machine.set_initrd(initrd);
        Ok(())
    }

    /// From now on the root disk has this speed.
    pub fn set_disk(&mut self, disk: &str) -> Result<(), GuestError> {
        self.machine.set_speed(&preset(disk)?);
        disk.clone_into(&mut self.disk);
        Ok(())
    }

    /// Whether its boots are traced from now on. The traces are among the files that boots leave.
    pub fn set_traced(&mut self, is_traced: bool) {
        self.is_traced = is_traced;
    }

    /// From now on it has so much memory.
    pub fn set_memory_mib(&mut self, size_mib: u32) {
        self.memory_mib = Some(size_mib);
    }

    /// Boots it so often, see [`BootMachine::boot`]. Prints a line for each: those of a case take
    /// an hour or more, and may be interrupted.
    pub fn boots(&self, word: &str, boots: u32) -> Result<Boots, GuestError> {
        let (kernel, begin, disk) = (&self.kernel, self.begin.name(), &self.disk);
        let boot = |number| {
            let booted = self.boot(word)?;
            let told = booted.told();
            println!("{kernel} {begin}, {disk}, {word} {number}: {told}");
            Ok(booted)
        };
        (0..boots).map(boot).collect::<Result<_, _>>().map(Boots)
    }

    /// Boots it; `word` is the value of `foreread.boot` on the kernel's command line, or `usual`
    /// for none. After `+layout`, the files of the boot are moved when it is over. After the name
    /// of a way, such as `+blocks`, the initramfs reads the files of the profile in that way.
    pub fn boot(&self, word: &str) -> Result<Booted, GuestError> {
        let (word, addition) = word.split_once('+').unwrap_or((word, ""));
        let mut command_line = self.command_line(word);
        let mut moves = "";
        match (addition, WholeFiles::of_name(addition)) {
            ("", _) => {}
            ("layout", _) => moves = MOVE,
            (_, Some(way)) if self.begin == Begin::Initramfs => {
                way.list(self.machine.root_image())?;
                command_line += &format!(" guest.whole_files={}", way.name());
            }
            _ => {
                return Err(GuestError::Unexpected(format!(
                    "a boot that begins in the {} has no +{addition}",
                    self.begin.name()
                )));
            }
        }
        let guest = self.guest(&command_line)?;
        let outcome = guest.script(format!("{SCRIPT}{moves}{END}")).run()?;
        let status = document(&outcome, "status.json")?;
        let boots = status["boots"].as_array();
        let begun = outcome.points.iter().find(|point| point.name == "begin");
        let disk = begun.and_then(|point| point.modelled.get("root"));
        Ok(Booted {
            up_s: outcome.boot_s,
            disk: disk.copied().unwrap_or_default(),
            last: boots
                .and_then(|boots| boots.last())
                .cloned()
                .unwrap_or_default(),
            outcome,
        })
    }
}

impl BootMachine<'_> {
    /// A guest with this machine, and these words more on the kernel's command line. It has no
    /// script yet.
    pub fn guest(&self, command_line: &str) -> Result<Guest<'_>, GuestError> {
        let guest = Guest::new(self.lab, &self.kernel)?
            .file(&self.foreread, "foreread")
            .machine(&self.machine)
            .command_line(command_line)
            .time_limit(TIME_LIMIT);
        Ok(match self.memory_mib {
            Some(size_mib) => guest.memory_mib(size_mib),
            None => guest,
        })
    }

    /// Runs a command of the shell in the root directory of its root disk, while no guest has it.
    /// Returns what it printed.
    pub fn change(&self, command: &str, arguments: &[&OsStr]) -> Result<String, GuestError> {
        on_image(self.machine.root_image(), command, arguments)
    }

    fn command_line(&self, word: &str) -> String {
        let mut line = match word {
            "usual" => String::new(),
            word => format!("foreread.boot={word}"),
        };
        if self.is_traced {
            line += " foreread.boot.chart";
        }
        line
    }
}

/// A cloud volume of the slowest class that is sold for root disks, such as Azure's Standard HDD:
/// 500 requests a second, 60 MB/s, and reads that take 10 ms (its documentation says "less than 20
/// ms for most").
const SLOW_CLOUD: &str = "slow-cloud";

/// The parameters of a modelled disk: those of a preset, or [`SLOW_CLOUD`].
fn preset(name: &str) -> Result<DiskParameters, GuestError> {
    let slow_cloud = || {
        Some(DiskParameters {
            latency_ns: 10_000_000,
            bandwidth_bytes_per_s: 60_000_000,
            rate_requests_per_s: 500,
            ..DiskParameters::preset("cloud")?
        })
    };
    DiskParameters::preset(name)
        .or_else(|| slow_cloud().filter(|_| name == SLOW_CLOUD))
        .ok_or_else(|| GuestError::Unexpected(format!("the model has no {name}")))
}
