// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that read parts of large files, for the bench itself, each timed from inside.

mod calls;
mod mapped;
pub mod order;
mod played;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use foreread_measure::MeasureError;
use serde_json::json;

pub use mapped::MapOrder;

/// Reads are counted in units of this many bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Programs that read at random read the same in every run.
pub const SEED: u64 = 2026;

#[derive(Debug, Args)]
pub struct ReaderArguments {
    /// Where to write what was read and how long that took, as JSON.
    #[arg(long)]
    out: PathBuf,
    #[command(subcommand)]
    how: How,
}

#[derive(Debug, Subcommand)]
enum How {
    /// Each page of a mapped file once.
    Map {
        #[arg(long, value_enum)]
        order: MapOrder,
        #[arg(long, default_value_t = 1)]
        threads: u64,
        /// Only so many pages: the first ones, or backward the last.
        #[arg(long)]
        pages: u64,
        file: PathBuf,
    },
    /// Files from their start, each by a thread of its own.
    Sequential {
        #[arg(long)]
        read_bytes: u64,
        /// So many of each file.
        #[arg(long)]
        bytes: u64,
        files: Vec<PathBuf>,
    },
    /// A file from its end.
    Backward {
        #[arg(long)]
        read_bytes: u64,
        #[arg(long)]
        reads: u64,
        file: PathBuf,
    },
    /// One page in each 16, and every fifth read a page elsewhere.
    Strided {
        /// How much of the file is gone through.
        #[arg(long)]
        pages: u64,
        file: PathBuf,
    },
    /// Pages here and there.
    Random {
        #[arg(long)]
        reads: u64,
        file: PathBuf,
    },
    /// Opens a file, reads a few pages, closes it, and again, of files of one size.
    EarlyStops {
        #[arg(long)]
        stops: u64,
        files: Vec<PathBuf>,
    },
    /// Pages of a file that is in memory, and every hundredth of another.
    MostlyCached {
        #[arg(long)]
        reads: u64,
        cached: PathBuf,
        other: PathBuf,
    },
    /// Maps one file after the other and takes its time over what it finds in each.
    Checkpoint {
        #[arg(long)]
        bytes_per_s: u64,
        files: Vec<PathBuf>,
    },
    /// What the programs of a scenario of `foreread sim` read, with a file for each of its files.
    Play {
        scenario: PathBuf,
        files: Vec<PathBuf>,
    },
}

/// Bytes that a program wanted, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    elapsed: Duration,
    bytes: u64,
}

/// Reads as the arguments ask.
pub fn read(arguments: &ReaderArguments) -> Result<ExitCode, MeasureError> {
    let done = done(&arguments.how)?;
    let elapsed_ns = u64::try_from(done.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let document = json!({ "elapsed_ns": elapsed_ns, "bytes": done.bytes });
    let what = format!("write {}", arguments.out.display());
    std::fs::write(&arguments.out, document.to_string()).map_err(MeasureError::system(what))?;
    Ok(ExitCode::SUCCESS)
}

fn done(how: &How) -> Result<Done, MeasureError> {
    match how {
        How::Map {
            order,
            threads,
            pages,
            file,
        } => mapped::read(file, *order, *threads, *pages),
        How::Sequential {
            read_bytes,
            bytes,
            files,
        } => calls::sequential(files, *read_bytes, *bytes),
        How::Backward {
            read_bytes,
            reads,
            file,
        } => calls::backward(file, *read_bytes, *reads),
        How::Strided { pages, file } => calls::strided(file, *pages),
        How::Random { reads, file } => calls::random(file, *reads),
        How::EarlyStops { stops, files } => calls::early_stops(files, *stops),
        How::MostlyCached {
            reads,
            cached,
            other,
        } => calls::mostly_cached(cached, other, *reads),
        How::Checkpoint { bytes_per_s, files } => mapped::checkpoint(files, *bytes_per_s),
        How::Play { scenario, files } => played::play(scenario, files),
    }
}

/// Where a thread has ended by itself, as none does.
fn panicked() -> MeasureError {
    MeasureError::Report("read", "a thread of the program ended early".to_owned())
}

fn opening(path: &Path) -> String {
    format!("open {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(directory: &Path, name: &str, pages: u64) -> PathBuf {
        let path = directory.join(name);
        let bytes = usize::try_from(pages * PAGE_BYTES).unwrap();
        fs::write(&path, vec![7; bytes]).unwrap();
        path
    }

    #[test]
    fn each_program_reads_what_it_says() {
        let scratch = tempfile::tempdir().unwrap();
        let files = vec![
            file(scratch.path(), "a", 640),
            file(scratch.path(), "b", 640),
        ];
        let one = files[0].clone();
        let map = |order, threads| How::Map {
            order,
            threads,
            pages: 500,
            file: one.clone(),
        };
        let sequential = How::Sequential {
            read_bytes: 65_536,
            bytes: 96 * PAGE_BYTES,
            files: files.clone(),
        };
        let backward = How::Backward {
            read_bytes: 65_536,
            reads: 30,
            file: one.clone(),
        };
        let strided = How::Strided {
            pages: 640,
            file: one.clone(),
        };
        let random = How::Random {
            reads: 9,
            file: one.clone(),
        };
        let cached = How::MostlyCached {
            reads: 200,
            cached: one.clone(),
            other: files[1].clone(),
        };
        let checkpoint = How::Checkpoint {
            bytes_per_s: u64::MAX,
            files: files.clone(),
        };
        for (how, pages) in [
            (map(MapOrder::Forward, 1), 500),
            (map(MapOrder::Backward, 1), 500),
            (map(MapOrder::Parts, 8), 500),
            (map(MapOrder::Tensors, 8), 500),
            (map(MapOrder::Slices, 8), 500),
            (map(MapOrder::Random, 1), 500 / 128),
            (sequential, 192),
            (backward, 480),
            (strided, 50),
            (random, 9),
            (cached, 200),
            (checkpoint, 1280),
        ] {
            let bytes = done(&how).unwrap().bytes;
            assert_eq!(bytes, pages * PAGE_BYTES, "{how:?}");
        }
        let stops = How::EarlyStops { stops: 5, files };
        let bytes = done(&stops).unwrap().bytes;
        assert!((5 * PAGE_BYTES..=200 * PAGE_BYTES).contains(&bytes));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let none = PathBuf::from("/no/such/file");
        let error = done(&How::Random {
            reads: 1,
            file: none.clone(),
        });
        assert!(error.unwrap_err().to_string().contains("/no/such/file"));
        let error = done(&How::Checkpoint {
            bytes_per_s: 1,
            files: vec![none],
        });
        assert!(error.unwrap_err().to_string().contains("/no/such/file"));
    }
}
