// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disks that a guest has besides its root disk.

use std::fs;
use std::path::{Path, PathBuf};

use foreread_model::DiskParameters;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig, workload};

use crate::error::GuestError;
use crate::lab::{Lab, write_ext4};

/// How a guest reaches a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// `virtio-blk`: `/dev/vdb` and so on.
    Virtio,
    /// An NVMe namespace: `/dev/nvme0n1` and so on.
    Nvme,
}

/// A disk that a guest has besides its root disk. Nothing that the guest writes is kept.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(crate) name: String,
    pub(crate) content: Content,
    pub(crate) bus: Bus,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Zeros; the size in MiB.
    Blank(u32),
    /// A raw image.
    Image(PathBuf),
    /// The same, at the speed of a model.
    Modelled(PathBuf, DiskParameters),
}

impl Disk {
    /// A disk of `size_mib` MiB of zeros. In the guest, `disk NAME` prints its device. The name has
    /// at most 20 characters.
    #[must_use]
    pub fn blank(name: &str, size_mib: u32) -> Self {
        Self::new(name, Content::Blank(size_mib))
    }

    /// A disk with the content of a raw image, which stays as it is.
    #[must_use]
    pub fn image(name: &str, image: &Path) -> Self {
        Self::new(name, Content::Image(image.to_owned()))
    }

    /// A disk with the content of a raw image, each read of which takes the time that a modelled
    /// disk needs. What the model counted is in [`crate::Outcome::modelled`].
    #[must_use]
    pub fn modelled(name: &str, image: &Path, parameters: DiskParameters) -> Self {
        Self::new(name, Content::Modelled(image.to_owned(), parameters))
    }

    /// The same disk on another bus; virtio is the default.
    #[must_use]
    pub fn on(mut self, bus: Bus) -> Self {
        self.bus = bus;
        self
    }

    fn new(name: &str, content: Content) -> Self {
        Self {
            name: name.to_owned(),
            content,
            bus: Bus::Virtio,
        }
    }
}

/// Bytes of a file on average: those of the tree that the bench greps through.
const FILE_BYTES: u64 = workload::SMALL_FILES_BYTES / workload::SMALL_FILES as u64;
const SEED: u64 = 1;
/// Version of the image's content. It grows with each change, so that no old image is taken for a
/// new one.
const TREE_VERSION: u32 = 3;

/// The image of an ext4 file system with `files` small files below `tree/`, like a program's
/// source; no file holds [`workload::ABSENT_PATTERN`]. Made once and kept in the lab.
///
/// The kernel of this machine writes the image, on a disk of the testbed. It puts the blocks of
/// directories together, at the beginning of a group, as on real disks. `mke2fs -d` puts each
/// directory before its files, which at least doubles the requests of any reader. It is used only
/// if there is no testbed, and the image then has another name.
///
/// # Errors
/// It can't be written.
pub fn tree_image(lab: &Lab, files: usize) -> Result<PathBuf, GuestError> {
    let by_kernel = Testbed::available().is_ok();
    let maker = if by_kernel { "" } else { "-mke2fs" };
    let image = lab
        .data_folder()?
        .join(format!("tree-{files}{maker}-v{TREE_VERSION}.ext4"));
    if image.exists() {
        return Ok(image);
    }
    let bytes = files as u64 * FILE_BYTES;
    // Room for the rest of each last block, inodes and the journal.
    let size_mib = (bytes >> 20) * 4 / 3 + 24;
    let unfinished = image.with_extension(format!("{}", std::process::id()));
    if by_kernel {
        let disk = DiskParameters::preset("instant")
            .ok_or_else(|| GuestError::Unexpected("the model has no instant".to_owned()))?;
        let testbed = Testbed::start(TestbedConfig::new(disk, size_mib << 20))?;
        testbed.make_file_system(FileSystem::Ext4, &["-b", "4096"])?;
        let top = testbed.mount(FileSystem::Ext4, "")?;
        testbed.instantly(|| workload::small_files(&top.join("tree"), files, bytes, SEED))?;
        testbed.unmount()?;
        testbed.save_image(&unfinished)?;
    } else {
        let scratch = tempfile::tempdir().map_err(GuestError::at("make a folder for", &image))?;
        let top = scratch.path().join("top");
        fs::create_dir(&top).map_err(GuestError::at("make", &top))?;
        workload::small_files(&top.join("tree"), files, bytes, SEED)?;
        write_ext4(&top, &unfinished, size_mib)?;
    }
    fs::rename(&unfinished, &image).map_err(GuestError::at("rename to", &image))?;
    Ok(image)
}

/// The image of an ext4 file system with `files` files of `file_mib` MiB, `large-0` and so on, one
/// behind the other. Made once and kept in the lab.
///
/// # Errors
/// It can't be written.
pub fn large_image(lab: &Lab, files: u32, file_mib: u32) -> Result<PathBuf, GuestError> {
    let image = lab
        .data_folder()?
        .join(format!("large-{files}-{file_mib}-v{TREE_VERSION}.ext4"));
    if image.exists() {
        return Ok(image);
    }
    let scratch = tempfile::tempdir().map_err(GuestError::at("make a folder for", &image))?;
    // A block of zeros would become a hole.
    let content = vec![b'x'; (file_mib as usize) << 20];
    for number in 0..files {
        let path = scratch.path().join(format!("large-{number}"));
        fs::write(&path, &content).map_err(GuestError::at("write", &path))?;
    }
    let unfinished = image.with_extension(format!("{}", std::process::id()));
    let size_mib = u64::from(files) * u64::from(file_mib) * 5 / 4 + 24;
    write_ext4(scratch.path(), &unfinished, size_mib)?;
    fs::rename(&unfinished, &image).map_err(GuestError::at("rename to", &image))?;
    Ok(image)
}
