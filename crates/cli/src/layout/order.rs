// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread layout order`: the order of need, for who builds an image.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_layout::image::{files_by_need, squashfs_sort_file, tar_list};
use foreread_sys::save;
use serde::Serialize;

use super::args::{Builder, OrderArguments};
use super::profile;
use crate::output::{self, counted};
use crate::{EXIT_PARTLY, text};

/// `foreread.layout.order/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OrderReport {
    schema: &'static str,
    /// Name or path of the profile.
    profile: String,
    /// Files of the tree that the profile names, in the order of need.
    files: usize,
    /// Files of the profile that the tree doesn't have.
    gone_files: usize,
    /// Files whose path the format can't hold.
    left_out_files: usize,
}

/// What a tree holds, as paths relative to it, in the order of their bytes.
#[derive(Default)]
struct Tree {
    directories: Vec<Vec<u8>>,
    others: Vec<Vec<u8>>,
}

pub fn order(arguments: &OrderArguments) -> Result<ExitCode> {
    let (name, profile) = profile(&arguments.profile)?;
    let wanted = files_by_need(&profile, arguments.top.as_os_str().as_bytes());
    let tree = Tree::of(&arguments.tree)
        .with_context(|| format!("cannot list {}", arguments.tree.display()))?;
    let named = wanted.len();
    let is_there = |path: &Vec<u8>| tree.others.binary_search(path).is_ok();
    let files: Vec<Vec<u8>> = wanted.into_iter().filter(is_there).collect();
    if files.is_empty() {
        bail!(
            "{name} names no file of {}; --mounted-at says where the image was mounted when it \
             was recorded",
            arguments.tree.display()
        );
    }
    let (content, left_out_files) = match arguments.builder {
        Builder::Squashfs => squashfs_sort_file(&files),
        Builder::Tar => (tar_list(&files, &tree.directories, &tree.others), 0),
    };
    match &arguments.output {
        Some(path) => save::write(path, &content)
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => text::print_bytes(&content)?,
    }
    let report = OrderReport {
        schema: "foreread.layout.order/1",
        profile: name,
        files: files.len(),
        gone_files: named - files.len(),
        left_out_files,
    };
    if arguments.json {
        text::print_json(&report)?;
    }
    if left_out_files > 0 {
        let files = counted(left_out_files as u64, "file", "files");
        output::note(&format!("{files} left out: a line break in the path"));
        return Ok(ExitCode::from(EXIT_PARTLY));
    }
    Ok(ExitCode::SUCCESS)
}

impl Tree {
    /// All below a directory. No link is followed.
    fn of(top: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        let mut left: Vec<PathBuf> = vec![PathBuf::new()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(top.join(&directory))? {
                let entry = entry?;
                let path = directory.join(entry.file_name());
                let bytes = path.as_os_str().as_bytes().to_vec();
                if entry.file_type()?.is_dir() {
                    tree.directories.push(bytes);
                    left.push(path);
                } else {
                    tree.others.push(bytes);
                }
            }
        }
        tree.directories.sort_unstable();
        tree.others.sort_unstable();
        Ok(tree)
    }
}
