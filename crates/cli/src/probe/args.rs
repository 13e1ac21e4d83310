// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `probe`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use foreread_core::{Bytes, KiB, Unit};
use foreread_device::SIZES_KIB;

use crate::typed::time_ns;

/// The most a readahead size may be: 1 GiB.
const SIZE_KIB_MAX: u64 = 1 << 20;
/// Reads are of one page, so no readahead is smaller.
const SIZE_KIB_STEP: u64 = 4;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo foreread probe /dev/sdb\n  \
    sudo foreread probe /mnt/data --svg data.svg      through a file of the mounted file system\n  \
    sudo foreread probe /dev/sdb --readers 1,2,4,8,16 --sizes 128K,512K\n  \
    sudo foreread probe /srv -- grep -rq needle /srv\n\n\
    While it measures, some seconds, the readahead setting of the device changes, for everybody who \
    opens a file there meanwhile. Then the old setting is back: also after Ctrl-C and SIGTERM, and \
    after SIGKILL with the next start. Nothing is written to the device, but to a mounted file \
    system without a large file, where a file without a name is made for as long as the probe takes.\n\n\
    Exit status: 0 done, 2 when nothing could be measured, 64 when it was interrupted or something \
    could not be read.")]
pub struct ProbeArguments {
    /// A block device, a file, or a directory of a mounted file system.
    #[arg(value_name = "DEVICE|FILE|MOUNT")]
    pub target: PathBuf,
    /// Readahead sizes to try, in place of 4K to 16M.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = read_ahead)]
    pub sizes: Vec<KiB>,
    /// Measure no longer than that; by default 7.5s, or 52s on devices below 20 MB/s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub max_time: Option<Duration>,
    /// Read past the page cache, too, and show both.
    #[arg(long)]
    pub direct: bool,
    /// Let so many sequential readers read at once, in turn, at the setting there was and at the
    /// plateau, or at --sizes.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=256))]
    pub readers: Vec<u64>,
    /// Draw throughput over readahead, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Go on when the command ends with another status than 0.
    #[arg(short, long, requires = "command")]
    pub ignore_failure: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Run this command at each size in place of the sweep: its time, the pages that it used of
    /// those read ahead, and the memory that these took.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["readers", "direct", "svg"])]
    pub command: Vec<OsString>,
}

impl ProbeArguments {
    /// The sizes to try, growing.
    pub fn sizes(&self) -> Vec<KiB> {
        if self.sizes.is_empty() {
            return SIZES_KIB.map(KiB::new).to_vec();
        }
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

fn read_ahead(text: &str) -> Result<KiB, String> {
    let bytes: Bytes = foreread_core::parse_size(text).map_err(|error| error.to_string())?;
    let kib: KiB = bytes.to_exact().map_err(|error| error.to_string())?;
    let sensible = SIZE_KIB_STEP..=SIZE_KIB_MAX;
    if !sensible.contains(&kib.count()) || !kib.count().is_multiple_of(SIZE_KIB_STEP) {
        return Err(format!(
            "{text}: a readahead size to try is a multiple of 4K, up to 1G"
        ));
    }
    Ok(kib)
}

fn duration(text: &str) -> Result<Duration, String> {
    let ns = time_ns(text)?;
    if ns < 100_000_000 {
        return Err(format!("{text} is too short: measure for 100ms or longer"));
    }
    Ok(Duration::from_nanos(ns))
}
