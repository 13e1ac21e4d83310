// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running testbed.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use foreread_model::{Counters, DiskModel, DiskParameters};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::error::{Lacking, TestbedError};
use crate::file_system::{self, FileSystem};
use crate::loop_device::LoopDevice;
use crate::memory_file::memory_file;
use crate::namespace::MountNamespace;
use crate::runtime::{ENVIRONMENT_MARK, Home};
use crate::server::{REQUEST_BYTES_MAX, Server, ServerCounters, TraceEntry};
use crate::write_log::{self, WriteLog};
use crate::{available, image, sys};

/// The readahead the kernel gives a new device, and [`Testbed::start`] this one. Since Linux 6.18
/// devices that turn get more; here all are alike.
pub const READ_AHEAD_KIB_DEFAULT: u64 = 128;

/// Setting of ext4: number of inode-table blocks that it reads with a requested one.
const EXT4_INODE_READ_AHEAD: &str = "inode_readahead_blks";

/// A device's size is a multiple of this.
const CAPACITY_STEP_BYTES: u64 = 4096;

/// Settings of a new testbed.
#[derive(Clone, Debug)]
pub struct TestbedConfig {
    /// The disk. A `capacity_bytes` of 0 becomes the size of the device.
    pub parameters: DiskParameters,
    /// The size of the device, rounded up to a multiple of 4096. What is not written takes no
    /// memory.
    pub capacity_bytes: u64,
    /// Where the testbed keeps its mount points and state; by default `/run/foreread-testbed`.
    pub runtime_directory: Option<PathBuf>,
    /// Whether flushes reach the disk, which logs of writes need; by default the kernel is told
    /// that there is nothing to flush.
    pub takes_flushes: bool,
}

impl TestbedConfig {
    /// A disk of that kind and size.
    pub fn new(parameters: DiskParameters, capacity_bytes: u64) -> Self {
        Self {
            parameters,
            capacity_bytes,
            runtime_directory: None,
            takes_flushes: false,
        }
    }
}

/// A real block device with the speed of a modelled disk.
///
/// [`Testbed::start`] moves the calling thread into a mount namespace of its own. Mounts are
/// visible to this thread, to the threads and processes it starts from then on, and to threads that
/// call [`Testbed::enter`]. Every method works from any thread. Dropping it unmounts and frees
/// everything; so does the kernel when the process is killed.
#[derive(Debug)]
pub struct Testbed {
    namespace: MountNamespace,
    home: Home,
    server: Arc<Server>,
    device: Option<LoopDevice>,
    thread: Option<JoinHandle<()>>,
    /// Mount points in the order they were mounted in; the file system's own is the first.
    mounts: Mutex<Vec<PathBuf>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Testbed {
    /// Whether this machine can run a testbed.
    ///
    /// # Errors
    /// The missing requirement, with the remedy.
    pub fn available() -> Result<(), Lacking> {
        available::check()
    }

    /// Starts a disk. What testbeds of killed processes left is removed first.
    ///
    /// # Errors
    /// The machine lacks something, or a system call failed; nothing is then left behind.
    pub fn start(config: TestbedConfig) -> Result<Self, TestbedError> {
        Self::available()?;
        let capacity_bytes = config
            .capacity_bytes
            .max(1)
            .next_multiple_of(CAPACITY_STEP_BYTES);
        let home = Home::create(config.runtime_directory.as_deref())?;
        let namespace = MountNamespace::make_private().inspect_err(|_| home.remove())?;
        let store = memory_file(capacity_bytes).inspect_err(|_| home.remove())?;
        let parameters = with_capacity(config.parameters, capacity_bytes);
        let server = Server::new(
            store,
            capacity_bytes,
            home.file_name(),
            parameters,
            config.takes_flushes,
        );
        let mut testbed = Self {
            namespace,
            home,
            server,
            device: None,
            thread: None,
            mounts: Mutex::new(Vec::new()),
        };
        // From here on, dropping it undoes the previous steps.
        testbed.thread = Some(
            testbed
                .server
                .spawn(testbed.home.fuse(), &testbed.namespace)?,
        );
        let backing = testbed.home.fuse().join(testbed.home.file_name());
        testbed.device = Some(LoopDevice::attach(&backing, testbed.home.path())?);
        testbed.set_rotational()?;
        testbed.set_read_ahead_kib(READ_AHEAD_KIB_DEFAULT)?;
        Ok(testbed)
    }

    fn loop_device(&self) -> Result<&LoopDevice, TestbedError> {
        self.device
            .as_ref()
            .ok_or_else(|| TestbedError::Misuse("the testbed has no device".to_owned()))
    }

    /// The block device, `/dev/loopN`.
    pub fn device(&self) -> &Path {
        self.device
            .as_ref()
            .map_or(Path::new("/dev/null"), LoopDevice::path)
    }

    /// The largest request the device takes, in bytes: the last argument of
    /// [`foreread_model::limit_ns`].
    pub fn request_bytes_max(&self) -> u64 {
        u64::from(REQUEST_BYTES_MAX)
    }

    /// Moves the calling thread into the testbed's mount namespace.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self) -> Result<(), TestbedError> {
        self.namespace
            .enter()
            .map_err(TestbedError::system("enter the testbed's mount namespace"))
    }

    /// A command that dies with the thread that starts it. If it outlives this one's process all
    /// the same, the next testbed to start kills it. Start it from a thread inside the testbed.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(ENVIRONMENT_MARK, self.home.id());
        sys::die_with_parent(&mut command);
        command
    }

    /// The current parameters of the disk.
    pub fn parameters(&self) -> DiskParameters {
        self.server.parameters()
    }

    /// Makes it another disk, from the next request it turns to. A `capacity_bytes` of 0 becomes
    /// the size of the device.
    ///
    /// # Errors
    /// The device cannot be told whether it turns.
    pub fn set_parameters(&self, parameters: DiskParameters) -> Result<(), TestbedError> {
        self.server.set_parameters(self.complete(parameters));
        self.set_rotational()
    }

    /// Runs `work` with a disk that needs no time, to fill it.
    pub fn instantly<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.server.parameters();
        let instant = DiskParameters {
            model: DiskModel::Instant,
            ..before.clone()
        };
        self.server.set_parameters(instant);
        let result = work();
        self.server.set_parameters(before);
        result
    }

    /// Reads that touch these bytes of the disk fail from now on, in the time they would take; an
    /// empty range ends that.
    pub fn fail_reads(&self, bytes: Range<u64>) {
        self.server.fail_reads(bytes);
    }

    /// Whether writes take the time of the disk, as reads do. Otherwise, and at first, they take
    /// none.
    pub fn time_writes(&self, times_writes: bool) {
        self.server.time_writes(times_writes);
    }

    /// File systems allocate differently on rotational disks. Linux 6.18 also gives those windows
    /// of twice the largest request, and never takes them back: the setting stays.
    fn set_rotational(&self) -> Result<(), TestbedError> {
        let device = self.loop_device()?;
        let turns = self.server.parameters().model == DiskModel::Head;
        let read_ahead_kib = device.read_attribute("queue/read_ahead_kb")?;
        device.set_queue("rotational", if turns { "1" } else { "0" })?;
        device.set_queue("read_ahead_kb", &read_ahead_kib)
    }

    /// The parameters with the device's size where they leave the capacity open.
    pub(crate) fn complete(&self, parameters: DiskParameters) -> DiskParameters {
        with_capacity(parameters, self.server.capacity_bytes())
    }

    /// Counters of the modelled disk: reads only, for writes are stored without it.
    pub fn counters(&self) -> Counters {
        self.server.counters()
    }

    /// Writes, and how late replies were.
    pub fn server_counters(&self) -> ServerCounters {
        self.server.server_counters()
    }

    /// Both sets of counters count from nothing again.
    pub fn reset_counters(&self) {
        self.server.reset_counters();
    }

    /// Makes all blocks of the disk untouched, if it fetches blocks at their first touch.
    pub fn forget_touches(&self) {
        self.server.forget_touches();
    }

    /// Waits until no request is in flight: readahead may still be in flight when the reader has
    /// its pages.
    ///
    /// # Errors
    /// When sysfs doesn't say.
    pub fn wait_until_idle(&self) -> Result<(), TestbedError> {
        let device = self.loop_device()?;
        let is_idle = |text: String| text.split_whitespace().all(|requests| requests == "0");
        while !device.read_attribute("inflight").map(is_idle)? {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Begins to note each read.
    pub fn trace_start(&self) {
        self.server.trace_start();
    }

    /// Ends that, and returns the reads in the order of their ends.
    pub fn trace_stop(&self) -> Vec<TraceEntry> {
        self.server.trace_stop()
    }

    /// Makes a file system, without taking the disk's time. `options` are passed to `mkfs`.
    ///
    /// # Errors
    /// Something is mounted, or `mkfs` is missing or fails.
    pub fn make_file_system(
        &self,
        file_system: FileSystem,
        options: &[&str],
    ) -> Result<(), TestbedError> {
        self.refuse_if_mounted("make a file system")?;
        self.instantly(|| file_system.make(self.device(), options))?;
        self.forget_device_pages()
    }

    /// Mounts the file system with `mount -o` options, which may be empty; returns the mount point.
    /// The disk takes its time for the reads of the mount.
    ///
    /// # Errors
    /// There is no such file system on it, or something is mounted already.
    pub fn mount(&self, file_system: FileSystem, options: &str) -> Result<PathBuf, TestbedError> {
        self.refuse_if_mounted("mount")?;
        let point = self.home.path().join("mnt");
        let (flags, data) = file_system::split_options(&file_system.mount_options(options))?;
        self.mount_at(self.device(), &point, file_system.name(), flags, &data)?;
        Ok(point)
    }

    /// Mounts, for reading only, a file system of another kind that was loaded as an image, such as
    /// a squashfs; returns where.
    ///
    /// # Errors
    /// Something is mounted already, or the kernel refuses.
    pub fn mount_image(&self, fs_type: &str) -> Result<PathBuf, TestbedError> {
        self.refuse_if_mounted("mount")?;
        let point = self.home.path().join("mnt");
        let flags = MountFlags::RDONLY | MountFlags::NOATIME;
        self.mount_at(self.device(), &point, fs_type, flags, c"")?;
        Ok(point)
    }

    /// Mounts an overlay whose lower layers are `lower` (the topmost first) and whose upper layer
    /// is in memory; returns where. Its files are under `merged`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn overlay(&self, lower: &[&Path]) -> Result<PathBuf, TestbedError> {
        let base = self
            .home
            .path()
            .join(format!("overlay-{}", self.mounts().len()));
        fs::create_dir(&base)
            .map_err(TestbedError::system(format!("create {}", base.display())))?;
        self.mount_at(Path::new("tmpfs"), &base, "tmpfs", MountFlags::empty(), c"")?;
        let merged = base.join("merged");
        let directories = [base.join("upper"), base.join("work"), merged.clone()];
        let lower = lower
            .iter()
            .map(|path| path.to_string_lossy())
            .collect::<Vec<_>>()
            .join(":");
        let data = format!(
            "lowerdir={lower},upperdir={},workdir={}",
            directories[0].display(),
            directories[1].display()
        );
        let data = CString::new(data)
            .map_err(|_| TestbedError::Misuse("a path contains a zero byte".to_owned()))?;
        self.inside(|| directories.iter().try_for_each(fs::create_dir))?
            .map_err(TestbedError::system(format!(
                "create the layers in {}",
                base.display()
            )))?;
        self.mount_at(
            Path::new("overlay"),
            &merged,
            "overlay",
            MountFlags::empty(),
            &data,
        )?;
        Ok(merged)
    }

    fn mount_at(
        &self,
        source: &Path,
        point: &Path,
        kind: &str,
        flags: MountFlags,
        data: &std::ffi::CStr,
    ) -> Result<(), TestbedError> {
        self.inside(|| mount(source, point, kind, flags, data))?
            .map_err(TestbedError::system(format!(
                "mount {} ({kind}) at {}",
                source.display(),
                point.display()
            )))?;
        self.mounts().push(point.to_owned());
        Ok(())
    }

    /// Unmounts the file system and the overlays over it.
    ///
    /// # Errors
    /// Something is still in use; a file system that could not be unmounted stays mounted.
    pub fn unmount(&self) -> Result<(), TestbedError> {
        let mut mounts = self.mounts();
        while let Some(point) = mounts.last() {
            self.inside(|| unmount_patiently(point))?
                .map_err(TestbedError::system(format!("unmount {}", point.display())))?;
            if point.file_name().is_some_and(|name| name != "mnt") {
                // The merged directory went with its tmpfs.
                let _ = fs::remove_dir(point);
            }
            mounts.pop();
        }
        drop(mounts);
        self.forget_device_pages()
    }

    /// Unmounts and mounts again, which drops even the metadata that a mounted file system keeps
    /// for itself.
    ///
    /// # Errors
    /// As [`Testbed::unmount`] and [`Testbed::mount`].
    pub fn remount(&self, file_system: FileSystem, options: &str) -> Result<PathBuf, TestbedError> {
        self.unmount()?;
        self.mount(file_system, options)
    }

    /// Writes out dirty pages and drops the page cache, directories and inodes: of the whole
    /// machine, for the kernel knows no other way.
    ///
    /// # Errors
    /// A call or the write to `/proc/sys/vm/drop_caches` fails.
    pub fn drop_caches(&self) -> Result<(), TestbedError> {
        for point in self.mounts().iter() {
            self.inside(|| File::open(point).and_then(|root| Ok(rustix::fs::syncfs(root)?)))?
                .map_err(TestbedError::system(format!("sync {}", point.display())))?;
        }
        // Data written to the device itself belongs to no mounted file system.
        let device = self.loop_device()?;
        device
            .file()
            .sync_all()
            .map_err(TestbedError::system(format!(
                "sync {}",
                device.path().display()
            )))?;
        let drop_all = || fs::write("/proc/sys/vm/drop_caches", "3");
        // The first pass frees inodes, and with them the pages that they pinned: the second drops
        // those.
        drop_all()
            .and_then(|()| drop_all())
            .map_err(TestbedError::system("write to /proc/sys/vm/drop_caches"))
    }

    /// Sets the readahead of the device and of the file system mounted on it.
    ///
    /// # Errors
    /// sysfs refuses.
    pub fn set_read_ahead_kib(&self, read_ahead_kib: u64) -> Result<(), TestbedError> {
        for setting in self.read_ahead_settings() {
            // This one counts blocks, and only those that the kernel reads of its own accord.
            if setting.ends_with(EXT4_INODE_READ_AHEAD) {
                continue;
            }
            fs::write(&setting, read_ahead_kib.to_string())
                .map_err(TestbedError::system(format!("write {}", setting.display())))?;
        }
        Ok(())
    }

    /// The files in sysfs that hold how far the kernel reads ahead on this device.
    pub(crate) fn read_ahead_settings(&self) -> Vec<PathBuf> {
        let Some(device) = &self.device else {
            return Vec::new();
        };
        let sysfs = device.sysfs();
        let name = sysfs.file_name().unwrap_or_default();
        let mut settings = vec![sysfs.join("queue/read_ahead_kb")];
        settings.push(
            Path::new("/sys/fs/ext4")
                .join(name)
                .join(EXT4_INODE_READ_AHEAD),
        );
        // btrfs has a readahead setting of its own, not the device's.
        for file_system in fs::read_dir("/sys/fs/btrfs")
            .into_iter()
            .flatten()
            .flatten()
        {
            if file_system.path().join("devices").join(name).exists() {
                settings.push(file_system.path().join("bdi/read_ahead_kb"));
            }
        }
        settings.retain(|setting| setting.exists());
        settings
    }

    /// Replaces the content of the disk by a saved image, which may be smaller.
    ///
    /// # Errors
    /// Something is mounted, or the image cannot be read or is larger than the disk.
    pub fn load_image(&self, path: &Path) -> Result<(), TestbedError> {
        self.refuse_if_mounted("load an image")?;
        let capacity_bytes = self.server.capacity_bytes();
        let what = || format!("load the image {}", path.display());
        let image = File::open(path).map_err(TestbedError::system(what()))?;
        let image_bytes = image
            .metadata()
            .map_err(TestbedError::system(what()))?
            .len();
        if image_bytes > capacity_bytes {
            return Err(TestbedError::Misuse(format!(
                "the image {} has {image_bytes} bytes, the disk only {capacity_bytes}: start the \
                 testbed with at least the image's capacity",
                path.display()
            )));
        }
        let store = self.server.store();
        store
            .set_len(0)
            .and_then(|()| image::copy_sparse(&image, store))
            .and_then(|_| store.set_len(capacity_bytes))
            .map_err(TestbedError::system(what()))?;
        self.forget_device_pages()
    }

    /// Saves the content of the disk as a sparse file. Returns the bytes it really takes.
    ///
    /// # Errors
    /// Something is mounted, or the file cannot be written.
    pub fn save_image(&self, path: &Path) -> Result<u64, TestbedError> {
        self.refuse_if_mounted("save an image")?;
        self.forget_device_pages()?;
        File::create(path)
            .and_then(|file| image::copy_sparse(self.server.store(), &file))
            .map_err(TestbedError::system(format!(
                "save the image {}",
                path.display()
            )))
    }

    /// Logs from now on what is written. The content at this time is kept beside it.
    ///
    /// # Errors
    /// The testbed takes no flushes, or memory is short.
    pub fn log_writes(&self) -> Result<(), TestbedError> {
        self.server.log_writes()
    }

    /// Ends the log.
    ///
    /// # Errors
    /// There is none, or memory is short.
    pub fn take_write_log(&self) -> Result<WriteLog, TestbedError> {
        let misuse = || TestbedError::Misuse("no log of writes was begun".to_owned());
        let (start, entries) = self.server.take_write_log().ok_or_else(misuse)?;
        let now = memory_file(self.server.capacity_bytes())?;
        write_log::copy(&start, &now).map_err(TestbedError::system("copy the disk"))?;
        Ok(WriteLog::new(start, now, entries))
    }

    /// Writes out and drops the pages that the kernel keeps of the device itself.
    fn forget_device_pages(&self) -> Result<(), TestbedError> {
        let device = self.loop_device()?;
        sys::flush_block_device(device.file()).map_err(TestbedError::system(format!(
            "flush {}",
            device.path().display()
        )))
    }

    fn mounts(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.mounts
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn refuse_if_mounted(&self, what: &str) -> Result<(), TestbedError> {
        match self.mounts().first() {
            None => Ok(()),
            Some(point) => Err(TestbedError::Misuse(format!(
                "cannot {what} while {} is mounted: unmount it first",
                point.display()
            ))),
        }
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        self.namespace
            .run(work)
            .map_err(TestbedError::system("enter the testbed's mount namespace"))
    }

    /// Unmounts, frees and stops everything.
    fn shut_down(&mut self) {
        // Reads of the unmount itself need not take the disk's time.
        let instant = DiskParameters {
            model: DiskModel::Instant,
            ..self.server.parameters()
        };
        self.server.set_parameters(instant);
        let mut points = std::mem::take(&mut *self.mounts());
        points.reverse();
        let fuse = self.home.fuse();
        let device = self.device.take();
        let _ = self.namespace.run(|| {
            for point in &points {
                if unmount_patiently(point).is_err() {
                    // In use; it goes when its users do. They get I/O errors from now on.
                    let _ = unmount(point, UnmountFlags::DETACH);
                }
            }
            release(device);
            // By force: it ends the connection, and with it the server's threads, even when a copy
            // of the mount is in another namespace.
            let _ = unmount(&fuse, UnmountFlags::FORCE | UnmountFlags::DETACH);
        });
        // Before the server's memory goes: its descriptor is the server's thread's too.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.home.remove();
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Frees the loop device and waits until it is free, for as long as a user may need to end.
fn release(device: Option<LoopDevice>) {
    let Some(device) = device else { return };
    let _ = device.detach();
    let bound = device.sysfs().join("loop/backing_file");
    drop(device);
    for _ in 0..100 {
        if !bound.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Unmounts; a program that has just ended may keep the mount busy for a moment.
fn unmount_patiently(point: &Path) -> rustix::io::Result<()> {
    for _ in 0..50 {
        match unmount(point, UnmountFlags::empty()) {
            Err(rustix::io::Errno::BUSY) => thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
    unmount(point, UnmountFlags::empty())
}

fn with_capacity(mut parameters: DiskParameters, capacity_bytes: u64) -> DiskParameters {
    if parameters.capacity_bytes == 0 {
        parameters.capacity_bytes = capacity_bytes;
    }
    parameters
}
