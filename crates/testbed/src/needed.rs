// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distinct bytes of the device that a program needs, for the limit of a workload.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use foreread_model::{DiskModel, DiskParameters, Extent, distinct_extents, limit_ns};

use crate::error::TestbedError;
use crate::testbed::Testbed;

/// Bytes that a program read from a cold device.
#[derive(Clone, Debug)]
pub struct Needed {
    /// The distinct bytes, data and metadata, in physical order.
    pub extents: Vec<Extent>,
    /// Number of these bytes.
    pub bytes: u64,
    /// How the program ended. A `grep` that finds nothing ends with 1, so this is for the caller to
    /// judge.
    pub status: ExitStatus,
}

impl Needed {
    /// The least time a disk needs for these bytes. As in [`Testbed::set_parameters`], a
    /// `capacity_bytes` of 0 stands for the size of the testbed's device.
    pub fn limit_ns(&self, parameters: &DiskParameters, testbed: &Testbed) -> u64 {
        let parameters = testbed.complete(parameters.clone());
        limit_ns(&parameters, &self.extents, testbed.request_bytes_max())
    }
}

/// Runs `command` to its end with the caches dropped, on a disk that needs no time and without any
/// readahead, and returns its reads. The disk and its readahead are afterwards as before; the
/// caches are as the program left them.
///
/// Start `command` from a thread inside the testbed, see [`Testbed::enter`]. Whatever else reads
/// the device meanwhile is counted too.
///
/// # Errors
/// The command cannot be started, or a setting is refused.
pub fn needed(testbed: &Testbed, command: &mut Command) -> Result<Needed, TestbedError> {
    let before = testbed.parameters();
    let instant = DiskParameters {
        model: DiskModel::Instant,
        ..before.clone()
    };
    let settings = Settings::switch_off(testbed)?;
    testbed.set_parameters(instant)?;
    let result = trace(testbed, command);
    testbed.set_parameters(before)?;
    settings.restore()?;
    let (status, extents) = result?;
    let bytes = extents.iter().map(|extent| extent.length_bytes).sum();
    Ok(Needed {
        extents,
        bytes,
        status,
    })
}

fn trace(
    testbed: &Testbed,
    command: &mut Command,
) -> Result<(ExitStatus, Vec<Extent>), TestbedError> {
    testbed.drop_caches()?;
    testbed.trace_start();
    let status = command.status();
    let reads = testbed.trace_stop();
    let status = status.map_err(TestbedError::system(format!("start {command:?}")))?;
    let extents: Vec<Extent> = reads
        .iter()
        .map(|read| Extent {
            offset_bytes: read.offset_bytes,
            length_bytes: read.length_bytes,
        })
        .collect();
    Ok((status, distinct_extents(&extents)))
}

/// The readahead settings of the device and its file system, with their values.
struct Settings(Vec<(PathBuf, String)>);

impl Settings {
    /// Switches all of them off.
    fn switch_off(testbed: &Testbed) -> Result<Self, TestbedError> {
        let mut settings = Self(Vec::new());
        for path in testbed.read_ahead_settings() {
            let value = fs::read_to_string(&path)
                .map_err(TestbedError::system(format!("read {}", path.display())))?;
            write(&path, "0")?;
            settings.0.push((path, value.trim().to_owned()));
        }
        Ok(settings)
    }

    fn restore(&self) -> Result<(), TestbedError> {
        self.0
            .iter()
            .try_for_each(|(path, value)| write(path, value))
    }
}

fn write(path: &PathBuf, value: &str) -> Result<(), TestbedError> {
    fs::write(path, value).map_err(TestbedError::system(format!(
        "write {value} to {}",
        path.display()
    )))
}
