// SPDX-License-Identifier: MIT OR Apache-2.0
//! A modelled disk with a file system on which programs have their files.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use foreread_model::DiskParameters;
use foreread_testbed::workload::files_below;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

use crate::error::MeasureError;

/// Room for every program's files. What isn't written takes no memory.
pub const CAPACITY_BYTES: u64 = 4 << 30;

/// Reading must not write.
const MOUNT_OPTIONS: &str = "noatime";

/// Times that something is done before a disturbance is taken as it is.
const ATTEMPTS: usize = 5;

/// The file system with the programs' files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// ext4.
    #[default]
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// An overlay whose lower layer is an ext4.
    Overlay,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ext4, Self::Xfs, Self::Btrfs, Self::Overlay];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Overlay => "overlay",
        }
    }

    /// The file system on the disk itself.
    pub fn file_system(self) -> FileSystem {
        match self {
            Self::Ext4 | Self::Overlay => FileSystem::Ext4,
            Self::Xfs => FileSystem::Xfs,
            Self::Btrfs => FileSystem::Btrfs,
        }
    }
}

impl FromStr for Layout {
    type Err = MeasureError;

    fn from_str(name: &str) -> Result<Self, MeasureError> {
        let found = Self::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| MeasureError::NoSuchFileSystem(name.to_owned()))
    }
}

/// The parameters of the disk of that name.
///
/// # Errors
/// There is none.
pub fn preset(name: &str) -> Result<DiskParameters, MeasureError> {
    DiskParameters::preset(name).ok_or_else(|| MeasureError::NoSuchDevice(name.to_owned()))
}

/// A modelled disk, mounted.
#[derive(Debug)]
pub struct ModelledDisk {
    testbed: Testbed,
    layout: Layout,
    root: PathBuf,
}

impl ModelledDisk {
    /// Starts an empty disk. The calling thread moves into its mount namespace, see
    /// [`Testbed::start`]; measure from the same thread.
    ///
    /// # Errors
    /// The machine lacks something, or a system call failed.
    pub fn start(parameters: DiskParameters, layout: Layout) -> Result<Self, MeasureError> {
        Self::start_with(parameters, layout, CAPACITY_BYTES, &[])
    }

    /// The same, with a given size, and a file system made with these options of `mkfs`.
    ///
    /// # Errors
    /// As [`ModelledDisk::start`].
    pub fn start_with(
        parameters: DiskParameters,
        layout: Layout,
        capacity_bytes: u64,
        options: &[&str],
    ) -> Result<Self, MeasureError> {
        layout.file_system().available()?;
        let testbed = Testbed::start(TestbedConfig::new(parameters, capacity_bytes))?;
        testbed.make_file_system(layout.file_system(), options)?;
        let root = testbed.instantly(|| testbed.mount(layout.file_system(), MOUNT_OPTIONS))?;
        Ok(Self {
            testbed,
            layout,
            root,
        })
    }

    /// Puts files on it, without taking the disk's time. `work` gets the directory to put them
    /// into; where programs find them is [`ModelledDisk::root`].
    ///
    /// # Errors
    /// Those of `work`; or the disk can't be mounted again.
    pub fn fill<T>(
        &mut self,
        work: impl FnOnce(&Path) -> Result<T, MeasureError>,
    ) -> Result<T, MeasureError> {
        let file_system = self.layout.file_system();
        let (done, root) = self
            .testbed
            .instantly(|| -> Result<(T, PathBuf), MeasureError> {
                let lower = self.testbed.remount(file_system, MOUNT_OPTIONS)?;
                let done = work(&lower)?;
                // Drops metadata that a file system keeps only after it has just been written to.
                let lower = self.testbed.remount(file_system, MOUNT_OPTIONS)?;
                let root = match self.layout {
                    Layout::Overlay => self.testbed.overlay(&[&lower])?,
                    _ => lower,
                };
                Ok((done, root))
            })?;
        self.root = root;
        Ok(done)
    }

    /// Where programs find their files.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files below a directory there, in the order of their paths.
    ///
    /// # Errors
    /// A directory can't be listed.
    pub fn files_below(&self, directory: &str) -> Result<Vec<PathBuf>, MeasureError> {
        Ok(files_below(&self.root.join(directory))?)
    }

    /// Forgets all that is in memory of it. Fails where anything of it is open.
    ///
    /// # Errors
    /// The file system is in use, or can't be mounted again.
    pub fn forget(&self) -> Result<(), MeasureError> {
        let (testbed, file_system) = (&self.testbed, self.layout.file_system());
        testbed.instantly(|| testbed.remount(file_system, MOUNT_OPTIONS))?;
        Ok(())
    }

    /// Repeats the work, a limited number of times, while it reads more than a limit from the disk.
    /// In that case another process has dropped the caches of this machine meanwhile.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn undisturbed(
        &self,
        read_bytes_max: u64,
        mut work: impl FnMut() -> Result<f64, MeasureError>,
    ) -> Result<f64, MeasureError> {
        let mut result = f64::NAN;
        for _ in 0..ATTEMPTS {
            self.testbed.reset_counters();
            result = work()?;
            if self.testbed.counters().bytes <= read_bytes_max {
                break;
            }
        }
        Ok(result)
    }

    /// The disk itself.
    pub fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// Makes it another disk, with the same files.
    ///
    /// # Errors
    /// The device can't be told whether it turns.
    pub fn set_parameters(&self, parameters: DiskParameters) -> Result<(), MeasureError> {
        Ok(self.testbed.set_parameters(parameters)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_and_errors_name_the_choice() {
        for layout in Layout::ALL {
            assert_eq!(layout.name().parse::<Layout>().unwrap(), layout);
        }
        let error = "ntfs".parse::<Layout>().unwrap_err().to_string();
        assert!(error.contains("btrfs"), "{error}");
        let error = preset("floppy").unwrap_err().to_string();
        assert!(error.contains("nvme"), "{error}");
    }
}
