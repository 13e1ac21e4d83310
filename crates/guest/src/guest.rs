// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots one guest, runs a script in it, and returns its output, files and disk counters.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use foreread_model::DiskParameters;
use tempfile::TempDir;

use crate::counters::{Counters, Point, points};
use crate::cpio::Archive;
use crate::disk::{Bus, Content, Disk};
use crate::error::GuestError;
use crate::lab::{Kernel, Lab};
use crate::machine::{Machine, ROOT};
use crate::modelled::Modelled;
use crate::slots;

/// The counters of a modelled disk.
type DiskReads = foreread_model::Counters;

/// Enough for the page cache of the largest case twice over.
const MEMORY_MIB: u32 = 2048;
/// A guest boots in 8 to 20 s; a script of tests takes a minute or two on busy cores.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// A guest that is not up by then hangs. This happens once in some hundred boots: the emulated
/// timer of the first processor stops ("Possible timer handling issue on cpu=0", kernel 6.1).
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// The same in virtual time, where one processor is emulated and each of its instructions counted.
const VIRTUAL_BOOT_LIMIT: Duration = Duration::from_secs(300);
/// Attempts to boot a guest that hangs at boot, or whose QEMU aborts.
const BOOTS_MAX: u32 = 3;
/// Size of the disk for `/run/out`, and so of the files that a script can leave. It is sparse.
const OUT_BYTES: u64 = 512 << 20;
/// PCI address of the first disk in virtual time.
const FIRST_DISK_ADDRESS: usize = 0x10;
/// The signal of `abort()`.
const ABORTED: i32 = 6;
const POLL: Duration = Duration::from_millis(50);
/// Lines of the console and of the script that an error quotes.
const QUOTED_LINES: usize = 25;

// No multipath: Linux 6.1 counts no requests of an NVMe disk that may have several paths.
const COMMAND_LINE: &str = "console=ttyS0 rw quiet loglevel=4 \
    systemd.show_status=0 mitigations=off nokaslr audit=0 no_timer_check ipv6.disable=1 \
    random.trust_cpu=on panic=-1 oops=panic nvme_core.multipath=0";

/// A guest to run. Nothing happens before [`Guest::run`].
#[derive(Clone, Debug)]
pub struct Guest<'lab> {
    lab: &'lab Lab,
    kernel: &'lab Kernel,
    script: String,
    files: Vec<(PathBuf, String)>,
    disks: Vec<Disk>,
    machine: Option<&'lab Machine>,
    memory_mib: u32,
    time_limit: Duration,
    is_while_idle: bool,
    cuts_power: bool,
    command_line: String,
}

/// How a boot ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    /// The guest powered off.
    ByItself,
    /// It was stopped at the time limit.
    AtLimit,
    /// It was stopped since its script had not begun at [`BOOT_LIMIT`].
    HungAtBoot,
    /// QEMU aborted, with these words. With two processors it fails now and then on an assertion
    /// of its own, in `iotlb_to_section` (QEMU's issue 1921).
    QemuAborted(String),
}

impl Ended {
    /// Whether another boot may go further.
    fn is_worth_another_boot(&self) -> bool {
        matches!(self, Self::HungAtBoot | Self::QemuAborted(_))
    }
}

/// The results of a guest whose script ended.
#[derive(Debug)]
pub struct Outcome {
    /// Standard output and error of the script.
    pub output: String,
    /// Its exit status; -1 in a guest that cut its power before.
    pub status: i32,
    /// Whether the guest cut its power before its script ended; see [`Guest::cuts_power`].
    pub is_cut: bool,
    /// The counters of all disks at each point: `begin`, those of the script, `end`.
    pub points: Vec<Point>,
    /// The kernel's console output.
    pub console: String,
    /// The counters of each modelled disk, by its name.
    pub modelled: BTreeMap<String, DiskReads>,
    /// Seconds from the kernel's start until the guest was up, by the guest's clock.
    pub boot_s: f64,
    files: TempDir,
}

impl Outcome {
    /// The difference of the counters between two points of the script.
    ///
    /// # Errors
    /// The script did not reach one of them.
    pub fn between(&self, from: &str, to: &str) -> Result<Counters, GuestError> {
        Ok(self.point(to)?.since(self.point(from)?))
    }

    fn point(&self, name: &str) -> Result<&Counters, GuestError> {
        let found = self.points.iter().find(|point| point.name == name);
        found.map(|point| &point.counters).ok_or_else(|| {
            GuestError::Unexpected(format!(
                "the script did not come to `point {name}`; it printed:\n{}",
                last_lines(&self.output)
            ))
        })
    }

    /// The folder with the files that the script left in `/run/out`; removed with the outcome.
    #[must_use]
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// One of these files, as text.
    ///
    /// # Errors
    /// It isn't there.
    pub fn file(&self, name: &str) -> Result<String, GuestError> {
        fs::read_to_string(self.files.path().join(name)).map_err(|error| {
            GuestError::Unexpected(format!(
                "the script left no {name} in /run/out ({error}); it printed:\n{}",
                last_lines(&self.output)
            ))
        })
    }
}

impl<'lab> Guest<'lab> {
    /// A guest with the kernel of this name, 2 GiB of memory, two processors and five minutes.
    ///
    /// # Errors
    /// The lab has no such kernel.
    pub fn new(lab: &'lab Lab, kernel: &str) -> Result<Self, GuestError> {
        Ok(Self {
            lab,
            kernel: lab.kernel(kernel)?,
            script: String::new(),
            files: Vec::new(),
            disks: Vec::new(),
            machine: None,
            memory_mib: MEMORY_MIB,
            time_limit: TIME_LIMIT,
            is_while_idle: false,
            cuts_power: false,
            command_line: COMMAND_LINE.to_owned(),
        })
    }

    /// The script to run, by the guest's `/bin/sh`, as root, in the folder of the files. It has
    /// three more commands. `point NAME` notes the counters of all disks. `disk NAME` prints the
    /// device of a disk. `drop_caches` empties the page cache.
    #[must_use]
    pub fn script(mut self, text: impl Into<String>) -> Self {
        self.script = text.into();
        self
    }

    /// A file of this machine to have beside the script, executable, under the name `name`. It lies
    /// in memory, so running it reads no disk.
    #[must_use]
    pub fn file(mut self, host: impl Into<PathBuf>, name: &str) -> Self {
        self.files.push((host.into(), name.to_owned()));
        self
    }

    /// One disk more. A guest with a [`Machine`] has only the disks of that.
    #[must_use]
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disks.push(disk);
        self
    }

    /// The disks of a machine, and not the lab's root disk. The guest runs in virtual time.
    #[must_use]
    pub fn machine(mut self, machine: &'lab Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Another size of memory.
    #[must_use]
    pub fn memory_mib(mut self, size_mib: u32) -> Self {
        self.memory_mib = size_mib;
        self
    }

    /// Another time limit, in this machine's time, from the start of QEMU.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Runs on processors that nothing else wants.
    #[must_use]
    pub fn while_idle(mut self) -> Self {
        self.is_while_idle = true;
        self
    }

    /// The guest may reset itself before its script ends, by which QEMU ends. Whatever it has not
    /// written to its disks by then is lost.
    #[must_use]
    pub fn cuts_power(mut self) -> Self {
        self.cuts_power = true;
        self
    }

    /// More of the kernel's command line.
    #[must_use]
    pub fn command_line(mut self, more: &str) -> Self {
        self.command_line.push(' ');
        self.command_line.push_str(more);
        self
    }

    /// Boots the guest, runs the script and powers off. Waits while two guests run already.
    ///
    /// # Errors
    /// The guest died or came to its time limit, or something on this machine failed. A script that
    /// ends with another status than 0 is no error.
    pub fn run(&self) -> Result<Outcome, GuestError> {
        let work = tempfile::Builder::new()
            .prefix("foreread-guest-")
            .tempdir()
            .map_err(GuestError::at("make a folder below", &std::env::temp_dir()))?;
        let place = work.path();
        self.write_archive(&place.join("all.cpio"))?;
        let out = place.join("out.tar");
        make_sparse(&out, OUT_BYTES)?;

        let slot = slots::take(self.lab.folder())?;
        let mut boots = 1;
        let (ended, modelled) = loop {
            let (ended, modelled) = self.boot(place)?;
            if !ended.is_worth_another_boot() || boots == BOOTS_MAX {
                break (ended, modelled);
            }
            boots += 1;
        };
        drop(slot);
        if let Ended::QemuAborted(said) = ended {
            return Err(GuestError::Unexpected(format!(
                "QEMU aborted at each of {boots} boots: {said}"
            )));
        }

        let console = read_text(&place.join("console"))?;
        let output = read_text(&place.join("output"))?;
        let control = read_text(&place.join("control"))?;
        let word = |name: &str| {
            let lines = control.lines().rev();
            lines
                .filter_map(|line| line.strip_prefix(name)?.split_whitespace().next())
                .next()
        };
        let quoted = || format!("{}\n{}", crash_lines(&console), last_lines(&output));
        let kernel = self.kernel.name.clone();
        let is_cut = self.cuts_power && ended == Ended::ByItself && word("exit ").is_none();
        let status = match is_cut {
            true => Some(-1),
            false => word("exit ").and_then(|word| word.parse().ok()),
        };
        let Some(status) = status else {
            let console = quoted();
            return Err(match ended {
                Ended::ByItself | Ended::QemuAborted(_) => GuestError::Died { kernel, console },
                Ended::HungAtBoot => GuestError::HungAtBoot {
                    kernel,
                    boots,
                    console,
                },
                Ended::AtLimit => GuestError::TimeLimit {
                    kernel,
                    limit_s: self.time_limit.as_secs(),
                    console,
                },
            });
        };
        let release = control
            .lines()
            .find_map(|line| line.strip_prefix("up ")?.split_whitespace().nth(2));
        let may_lack_release = is_cut && release.is_none();
        if release != Some(self.kernel.release.as_str()) && !may_lack_release {
            return Err(GuestError::Unexpected(format!(
                "the guest runs {}, not {}",
                release.unwrap_or("an unknown kernel"),
                self.kernel.release
            )));
        }
        if let Some(line) = control.lines().find(|line| line.starts_with("files ")) {
            return Err(GuestError::Unexpected(format!(
                "the files of the guest could not be written: {line}"
            )));
        }
        let files = tempfile::tempdir()
            .map_err(GuestError::at("make a folder below", &std::env::temp_dir()))?;
        unpack(&out, files.path())?;
        let points = points(&control);
        Ok(Outcome {
            output,
            status,
            is_cut,
            console,
            modelled: match self.machine {
                Some(_) => points.last().map(|last| last.modelled.clone()),
                None => Some(modelled),
            }
            .unwrap_or_default(),
            points,
            boot_s: word("up ")
                .and_then(|word| word.parse().ok())
                .unwrap_or(0.0),
            files,
        })
    }

    /// Serves the modelled disks, and runs QEMU once. Returns how it ended, and the counters of
    /// each modelled disk.
    fn boot(&self, place: &Path) -> Result<(Ended, BTreeMap<String, DiskReads>), GuestError> {
        let mut servers = Vec::new();
        let serve = |name: &str, content, parameters: &DiskParameters| {
            let socket = place.join(name);
            let server = Modelled::serve(&socket, content, parameters.clone())
                .map_err(GuestError::at("serve a disk at", &socket))?;
            Ok::<_, GuestError>((name.to_owned(), server, socket))
        };
        for disk in &self.disks {
            if let Content::Modelled(image, parameters) = &disk.content {
                let content = fs::read(image).map_err(GuestError::at("read", image))?;
                servers.push(serve(&disk.name, content, parameters)?);
            }
        }
        let ended = self.wait_for_qemu(place);
        let modelled = servers
            .into_iter()
            .map(|(name, server, socket)| {
                let counters = server.finish(&socket);
                let _ = fs::remove_file(&socket);
                (name, counters)
            })
            .collect();
        Ok((ended?, modelled))
    }

    /// Writes an archive with the script and the files, followed by the kernel's initial archive.
    /// The kernel unpacks both.
    fn write_archive(&self, path: &Path) -> Result<(), GuestError> {
        let initrd = match self.machine {
            Some(machine) => machine.initrd(self.kernel)?,
            None => self.kernel.initrd(),
        };
        let failed = || GuestError::at("write", path);
        let out = BufWriter::new(File::create(path).map_err(failed())?);
        let mut archive = Archive::new(out);
        archive.directory("x").map_err(failed())?;
        let script = format!("#!/bin/sh\n. /usr/local/lib/guest.sh\n{}\n", self.script);
        archive
            .file("x/script", script.as_bytes())
            .map_err(failed())?;
        for (host, name) in &self.files {
            let content = fs::read(host).map_err(GuestError::at("read", host))?;
            archive
                .file(&format!("x/{name}"), &content)
                .map_err(failed())?;
        }
        // Behind a compressed archive the kernel may find no other.
        let mut out = archive.finish().map_err(failed())?;
        let mut base = File::open(&initrd).map_err(GuestError::at("open", &initrd))?;
        io::copy(&mut base, &mut out).map_err(failed())?;
        out.flush().map_err(failed())
    }

    /// How QEMU ended, or why it was stopped.
    fn wait_for_qemu(&self, place: &Path) -> Result<Ended, GuestError> {
        // The kernel ends QEMU when this thread ends, however it does.
        let mut command = match self.is_while_idle {
            true => {
                let mut command = Command::new("chrt");
                command.args(["--idle", "0", "setpriv"]);
                command
            }
            false => Command::new("setpriv"),
        };
        command
            .args(["--pdeathsig", "KILL"])
            .arg(self.lab.qemu())
            .args(self.arguments(place)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut qemu = Running(
            command
                .spawn()
                .map_err(GuestError::at("start", self.lab.qemu()))?,
        );
        let control = place.join("control");
        let mut is_up = false;
        while started.elapsed() < self.time_limit {
            is_up = is_up || fs::read_to_string(&control).is_ok_and(|said| said.contains("up "));
            let boot_limit = self.machine.map_or(BOOT_LIMIT, |_| VIRTUAL_BOOT_LIMIT);
            if !is_up && started.elapsed() >= boot_limit {
                return Ok(Ended::HungAtBoot);
            }
            let ended = qemu.0.try_wait();
            match ended.map_err(GuestError::at("wait for", self.lab.qemu()))? {
                None => std::thread::sleep(POLL),
                Some(status) if status.success() => return Ok(Ended::ByItself),
                Some(status) => {
                    let said = qemu.0.stderr.take().map(io::read_to_string);
                    let said = said.and_then(Result::ok).unwrap_or_default();
                    let said = said.trim();
                    // The disks of a machine keep what was written: the next boot isn't the same.
                    if self.machine.is_none() && status.signal() == Some(ABORTED) {
                        return Ok(Ended::QemuAborted(said.to_owned()));
                    }
                    return Err(GuestError::Unexpected(format!(
                        "QEMU ended with {status}: {said}"
                    )));
                }
            }
        }
        Ok(Ended::AtLimit)
    }

    fn arguments(&self, place: &Path) -> Result<Vec<OsString>, GuestError> {
        let mut arguments = Arguments::default();
        arguments.words("-nodefaults -no-user-config -display none -no-reboot -machine pc");
        // Without cmpxchg16b (`-cx16`) newer kernels can't allocate BPF task storage. An
        // instruction for random numbers takes the place of a device, which answers when it can.
        arguments.words("-cpu qemu64,+rdrand");
        arguments.words(match self.machine {
            // One processor: more have no common count of instructions. Idle time is skipped.
            Some(_) => "-accel tcg,thread=single,tb-size=512 -smp 1 -icount shift=0,sleep=off",
            None => "-accel tcg,thread=multi,tb-size=512 -smp 2 -device virtio-rng-pci",
        });
        arguments.pair("-m", &self.memory_mib.to_string());
        arguments.path("-kernel", "", &self.kernel.vmlinuz());
        arguments.path("-initrd", "", &place.join("all.cpio"));
        let disks = match self.machine {
            Some(machine) => format!(
                "root=/dev/fra foreread_disk.disks={}",
                machine.driver_parameters()
            ),
            None => "root=/dev/vda".to_owned(),
        };
        arguments.pair("-append", &format!("{disks} {}", self.command_line));
        for port in ["console", "output", "control"] {
            arguments.path("-serial", "file:", &place.join(port));
        }
        let out = place.join("out.tar");
        if let Some(machine) = self.machine {
            for (number, file) in machine.files().chain([out.as_path()]).enumerate() {
                arguments.memory_disk(number, file)?;
            }
            return Ok(arguments.0);
        }
        arguments.disk(ROOT, self.lab.image(), Bus::Virtio, true);
        arguments.disk("out", &out, Bus::Virtio, false);
        for disk in &self.disks {
            match &disk.content {
                Content::Image(image) => arguments.disk(&disk.name, image, disk.bus, true),
                Content::Blank(size_mib) => {
                    let path = place.join(format!("{}.img", disk.name));
                    make_sparse(&path, u64::from(*size_mib) << 20)?;
                    arguments.disk(&disk.name, &path, disk.bus, false);
                }
                Content::Modelled(..) => {
                    arguments.served_disk(&disk.name, &place.join(&disk.name), disk.bus);
                }
            }
        }
        Ok(arguments.0)
    }
}

/// QEMU's arguments.
#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn words(&mut self, words: &str) {
        self.0.extend(words.split(' ').map(OsString::from));
    }

    fn pair(&mut self, option: &str, value: &str) {
        self.0.extend([option.into(), value.into()]);
    }

    fn path(&mut self, option: &str, prefix: &str, path: &Path) {
        let mut value = OsString::from(prefix);
        // A comma is doubled where QEMU expects options.
        value.push(path.as_os_str());
        self.0.extend([option.into(), value]);
    }

    /// A disk whose writes go to a temporary file (`snapshot`) or to its own.
    fn disk(&mut self, name: &str, path: &Path, bus: Bus, snapshot: bool) {
        let snapshot = if snapshot { "on" } else { "off" };
        let mut drive = OsString::from(format!(
            "id={name},if=none,format=raw,cache=writeback,snapshot={snapshot},file="
        ));
        drive.push(path.as_os_str().to_string_lossy().replace(',', ",,"));
        self.drive(name, drive, bus);
    }

    /// A disk in virtual time, whose content is shown to the guest as memory.
    fn memory_disk(&mut self, number: usize, file: &Path) -> Result<(), GuestError> {
        let bytes = fs::metadata(file)
            .map_err(GuestError::at("look at", file))?
            .len();
        let mut backend = OsString::from(format!(
            "memory-backend-file,id=m{number},share=on,size={bytes},mem-path="
        ));
        backend.push(file.as_os_str().to_string_lossy().replace(',', ",,"));
        self.0.extend(["-object".into(), backend]);
        // The driver finds disks in the order of these addresses.
        let address = FIRST_DISK_ADDRESS + number;
        let device = format!("ivshmem-plain,memdev=m{number},addr={address:x}");
        self.pair("-device", &device);
        Ok(())
    }

    /// A disk that an NBD server has.
    fn served_disk(&mut self, name: &str, socket: &Path, bus: Bus) {
        let mut drive = OsString::from(format!(
            "id={name},if=none,format=raw,cache=none,file.driver=nbd,file.server.type=unix,\
             file.server.path="
        ));
        drive.push(socket.as_os_str().to_string_lossy().replace(',', ",,"));
        self.drive(name, drive, bus);
    }

    fn drive(&mut self, name: &str, drive: OsString, bus: Bus) {
        self.0.extend(["-drive".into(), drive]);
        let device = match bus {
            Bus::Virtio => "virtio-blk-pci",
            Bus::Nvme => "nvme",
        };
        self.pair("-device", &format!("{device},drive={name},serial={name}"));
    }
}

/// A QEMU that is killed when it goes out of scope.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Either fails only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn make_sparse(path: &Path, size_bytes: u64) -> Result<(), GuestError> {
    File::create(path)
        .and_then(|file| file.set_len(size_bytes))
        .map_err(GuestError::at("make", path))
}

/// A serial port's text; bytes that are no text become a replacement character.
fn read_text(path: &Path) -> Result<String, GuestError> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).replace('\r', "")),
        // QEMU was stopped before it had made it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(GuestError::at("read", path)(error)),
    }
}

/// Unpacks the tar that the guest wrote to its disk, if it wrote one.
fn unpack(tar: &Path, folder: &Path) -> Result<(), GuestError> {
    let file = File::open(tar).map_err(GuestError::at("open", tar))?;
    let mut first = [0];
    file.read_exact_at(&mut first, 0)
        .map_err(GuestError::at("read", tar))?;
    if first == [0] {
        return Ok(());
    }
    let done = Command::new("tar")
        .arg("--no-same-owner")
        .arg("-xf")
        .arg(tar)
        .arg("-C")
        .arg(folder)
        .output()
        .map_err(GuestError::at("unpack", tar))?;
    if done.status.success() {
        return Ok(());
    }
    Err(GuestError::Unexpected(format!(
        "the files of the guest can't be unpacked: {}",
        String::from_utf8_lossy(&done.stderr).trim()
    )))
}

/// The console from the first line on that names a crash; without one, its last lines.
fn crash_lines(console: &str) -> String {
    const SIGNS: [&str; 4] = ["Kernel panic", "BUG:", "Oops:", "general protection fault"];
    let lines: Vec<&str> = filled_lines(console).collect();
    let names_it = |line: &&str| SIGNS.iter().any(|sign| line.contains(sign));
    match lines.iter().position(names_it) {
        Some(first) => quoted(lines[first..].iter().take(QUOTED_LINES).copied()),
        None => last_lines(console),
    }
}

/// The last lines, for an error.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = filled_lines(text).collect();
    let first = lines.len().saturating_sub(QUOTED_LINES);
    quoted(lines[first..].iter().copied())
}

fn filled_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty())
}

fn quoted<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_quote_the_last_lines() {
        let text: String = (0..100)
            .map(|number| format!("line {number}\n\n"))
            .collect();
        let quoted = last_lines(&text);
        assert_eq!(quoted.lines().count(), QUOTED_LINES);
        assert!(quoted.ends_with("  line 99\n"), "{quoted}");
        assert_eq!(last_lines(""), "");
        assert_eq!(crash_lines(&text), quoted);
        let crash = format!("before\nKernel panic - not syncing\n{text}");
        let quoted = crash_lines(&crash);
        assert!(quoted.starts_with("  Kernel panic"), "{quoted}");
        assert_eq!(quoted.lines().count(), QUOTED_LINES);
    }

    #[test]
    fn a_comma_in_a_path_is_no_option_of_qemu() {
        let mut arguments = Arguments::default();
        arguments.disk("data", Path::new("/a,b"), Bus::Nvme, true);
        let text: Vec<String> = arguments
            .0
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        assert!(text[1].ends_with("snapshot=on,file=/a,,b"), "{text:?}");
        assert_eq!(text[3], "nvme,drive=data,serial=data");
    }
}
