// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine that boots several times, in virtual time: its disks keep what a boot writes.
//!
//! In virtual time the guest's clock counts instructions, 1 ns each, and no host is waited for.
//! The disks are files of this machine that QEMU shows as memory. A driver in the guest
//! (`tests/guest/disk/`) makes block devices of them, whose reads take the time of a model. So the
//! times of a guest don't depend on what else this machine does, and repeat within 1 %.

use std::fs::File;
use std::path::{Path, PathBuf};

use foreread_model::{DiskModel, DiskParameters};
use tempfile::TempDir;

use crate::error::GuestError;
use crate::lab::{Kernel, copy_sparse};

/// Name of the first disk, which has the root file system.
pub(crate) const ROOT: &str = "root";

/// The disks of a machine. One guest at a time may have it.
#[derive(Debug)]
pub struct Machine {
    folder: TempDir,
    disks: Vec<MachineDisk>,
    initrd: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct MachineDisk {
    name: String,
    file: PathBuf,
    parameters: DiskParameters,
}

impl Machine {
    /// A machine whose root disk has the content of a raw image, which stays as it is.
    ///
    /// # Errors
    /// The image can't be copied.
    pub fn of(image: &Path, parameters: DiskParameters) -> Result<Self, GuestError> {
        let mut machine = Self {
            folder: tempfile::Builder::new()
                .prefix("foreread-machine-")
                .tempdir()
                .map_err(GuestError::at("make a folder below", &std::env::temp_dir()))?,
            disks: Vec::new(),
            initrd: None,
        };
        machine.add_disk(ROOT, image, parameters)?;
        Ok(machine)
    }

    /// One disk more, with the content of a raw image. In the guest, `disk NAME` prints its device.
    ///
    /// # Errors
    /// The image can't be copied.
    pub fn add_disk(
        &mut self,
        name: &str,
        image: &Path,
        parameters: DiskParameters,
    ) -> Result<(), GuestError> {
        let file = self.folder.path().join(name);
        copy_sparse(image, &file)?;
        let at = |action| GuestError::at(action, &file);
        let opened = File::options()
            .write(true)
            .open(&file)
            .map_err(at("open"))?;
        let bytes = opened.metadata().map_err(at("look at"))?.len();
        opened.set_len(disk_bytes(bytes)).map_err(at("extend"))?;
        self.disks.push(MachineDisk {
            name: name.to_owned(),
            file,
            parameters,
        });
        Ok(())
    }

    /// Another machine with the same content on its disks.
    ///
    /// # Errors
    /// They can't be copied.
    pub fn copy(&self) -> Result<Self, GuestError> {
        let (root, others) = match self.disks.split_first() {
            Some(split) => split,
            None => return Err(GuestError::Unexpected("a machine without disks".into())),
        };
        let mut copy = Self::of(&root.file, root.parameters.clone())?;
        for disk in others {
            copy.add_disk(&disk.name, &disk.file, disk.parameters.clone())?;
        }
        copy.initrd.clone_from(&self.initrd);
        Ok(copy)
    }

    /// From now on all its disks have this speed.
    pub fn set_speed(&mut self, parameters: &DiskParameters) {
        for disk in &mut self.disks {
            disk.parameters = parameters.clone();
        }
    }

    /// The parameters of its root disk.
    #[must_use]
    pub fn speed(&self) -> &DiskParameters {
        &self.disks[0].parameters
    }

    /// From now on it starts from this archive of a kernel, and not from the lab's.
    pub fn set_initrd(&mut self, initrd: PathBuf) {
        self.initrd = Some(initrd);
    }

    /// The file with the content of its root disk, to be changed while no guest has the machine.
    #[must_use]
    pub fn root_image(&self) -> &Path {
        &self.disks[0].file
    }

    /// The archive that a kernel starts from.
    pub(crate) fn initrd(&self, kernel: &Kernel) -> Result<PathBuf, GuestError> {
        let lacking = || {
            GuestError::Unexpected("the lab has no disks in virtual time: use build_virtual".into())
        };
        match &self.initrd {
            Some(initrd) => Ok(initrd.clone()),
            None => kernel.virtual_initrd().ok_or_else(lacking),
        }
    }

    /// Files and names of the disks, in the order in which the driver finds them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.disks.iter().map(|disk| disk.file.as_path())
    }

    /// The parameter `disks` of the driver. Last comes a disk named `out`, which takes no time.
    pub(crate) fn driver_parameters(&self) -> String {
        let instant = DiskParameters::preset("instant").into_iter();
        let disks = self.disks.iter();
        let disks = disks.map(|disk| (disk.name.as_str(), disk.parameters.clone()));
        let disks = disks.chain(instant.map(|parameters| ("out", parameters)));
        let disks: Vec<String> = disks
            .map(|(name, parameters)| format!("{name}:{}", driver_numbers(&parameters)))
            .collect();
        disks.join(";")
    }
}

/// Size of the disk with an image of so many bytes: that of a PCI memory region, a power of two.
#[must_use]
pub fn disk_bytes(image_bytes: u64) -> u64 {
    image_bytes.next_power_of_two().max(1 << 20)
}

/// The parameters in the order of `struct fr_disk_parameters` of the driver, separated by commas.
/// Tables of transfer times are left out.
#[must_use]
pub fn driver_numbers(parameters: &DiskParameters) -> String {
    let kind = match parameters.model {
        DiskModel::Head => 0,
        DiskModel::Parallel => 1,
        DiskModel::Instant => 2,
    };
    let numbers = [
        kind,
        parameters.capacity_bytes,
        parameters.bandwidth_bytes_per_s,
        parameters.latency_ns,
        parameters.parallel_requests,
        parameters.rate_requests_per_s,
        parameters.seek_min_ns,
        parameters.seek_span_ns,
        parameters.half_turn_ns,
        parameters.gap_limit_bytes,
        parameters.gap_ns,
        parameters.first_touch_bytes,
        parameters.first_touch_ns,
        parameters.first_touch_parallel_requests,
        parameters.first_touch_rate_requests_per_s,
    ];
    numbers.map(|number| number.to_string()).join(",")
}
