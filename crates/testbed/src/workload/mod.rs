// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that programs are run over: trees of files that are the same each time they are made.
//!
//! Create them under [`crate::Testbed::instantly`], then call [`crate::Testbed::remount`]. A file
//! system that has just been written keeps metadata in memory that a cold machine would have to
//! read.

mod copy;
mod crowd;
mod files_below;
mod git;
mod python;
mod random;
mod real;
mod small_files;

pub use crowd::Crowd;
pub use files_below::files_below;
pub use git::{GIT_FILES, git_repository};
pub use python::{PythonTree, python_tree};
pub use real::{RealTree, real_tree};
pub use small_files::{ABSENT_PATTERN, SMALL_FILES, SMALL_FILES_BYTES, small_files};
