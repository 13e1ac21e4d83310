// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disks and directories to run programs on.

use std::io;

use anyhow::{Context, Result};
use foreread_linux_check::{By, CheckError, Files, Kernel};
use foreread_model::DiskParameters;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

use super::{Outcome, Place};

/// Room for the files, and for what btrfs and XFS want at least.
const DISK_BYTES: u64 = 512 << 20;

impl Place {
    /// Runs something on its kernel.
    pub fn with_kernel(
        &self,
        by: By,
        run: impl FnOnce(&str, &mut Kernel<'_>) -> Result<Outcome, CheckError>,
    ) -> Result<Outcome> {
        match self {
            Self::Modelled(file_system) => on_modelled_disk(*file_system, by, run),
            Self::Directory(directory) => {
                let name = directory.to_string_lossy();
                let mut kernel = Kernel::new(Files::make(directory)?, None, by)?;
                Ok(run(&name, &mut kernel)?)
            }
        }
    }
}

/// A disk that needs no time: decisions do not depend on it, and waiting does.
fn on_modelled_disk(
    file_system: FileSystem,
    by: By,
    run: impl FnOnce(&str, &mut Kernel<'_>) -> Result<Outcome, CheckError>,
) -> Result<Outcome> {
    let parameters = DiskParameters::preset("nvme").context("no preset is called nvme")?;
    let testbed = Testbed::start(TestbedConfig::new(parameters, DISK_BYTES))?;
    testbed.instantly(|| {
        testbed.make_file_system(file_system, &[])?;
        let directory = testbed.mount(file_system, "noatime")?;
        let set = |kib| testbed.set_read_ahead_kib(kib).map_err(io::Error::other);
        let outcome = {
            let mut kernel = Kernel::new(Files::make(&directory)?, Some(&set), by)?;
            run(file_system.name(), &mut kernel)?
        };
        testbed.unmount()?;
        Ok(outcome)
    })
}
