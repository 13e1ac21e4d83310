// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that the tests share.

use std::fs::File;
use std::os::fd::AsFd;

use foreread_model::DiskParameters;
use foreread_testbed::{Testbed, TestbedConfig};

/// A testbed, or `None` and a printed reason where this machine cannot run one.
pub fn testbed_or_skip(preset: &str, capacity_bytes: u64) -> Option<Testbed> {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return None;
    }
    let parameters = DiskParameters::preset(preset).expect("a preset of that name");
    Some(Testbed::start(TestbedConfig::new(parameters, capacity_bytes)).expect("a testbed"))
}

/// Moves the calling thread into the mount namespace of `file`.
#[allow(dead_code, reason = "not every test binary needs it")]
pub fn enter_namespace(file: &File) {
    use rustix::thread::LinkNameSpaceType;
    #[allow(
        deprecated,
        reason = "its safe form; only root and working directory part here"
    )]
    rustix::thread::unshare(rustix::thread::UnshareFlags::FS).expect("a working directory");
    rustix::thread::move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Mount))
        .expect("the other namespace");
}
