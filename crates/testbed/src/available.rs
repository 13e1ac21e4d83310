// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether this machine can run a testbed.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::thread;

use crate::error::Lacking;
use crate::sys;

/// Checks for the missing requirements; the error has the remedy.
pub(crate) fn check() -> Result<(), Lacking> {
    if !rustix::process::geteuid().is_root() {
        return Err(Lacking::Root);
    }
    open("/dev/fuse").map_err(|error| Lacking::Fuse(error.to_string()))?;
    open("/dev/loop-control").map_err(|error| Lacking::Loop(error.to_string()))?;
    // In a thread of its own, whose namespace ends with it.
    let tried = thread::spawn(sys::unshare_mounts).join();
    match tried {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Lacking::Namespace(error.to_string())),
        Err(_) => Err(Lacking::Namespace("the trial thread died".to_owned())),
    }
}

fn open(path: impl AsRef<Path>) -> io::Result<()> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map(drop)
}
