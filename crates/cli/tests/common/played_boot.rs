// SPDX-License-Identifier: MIT OR Apache-2.0
//! A boot that is played: `foreread boot serve` beside programs that read from a modelled disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_testbed::Testbed;
use foreread_testbed::workload::small_files;
use serde_json::Value;

use super::service::Service;
use super::watched::{disk, make_cold};
use super::{World, can_record, stderr, stdout};

pub const FILES: u64 = 300;
pub const BYTES: u64 = 3_000_000;

/// A boot that is under way; killed when dropped.
pub struct Boot<'a> {
    world: &'a World,
    pub serve: Service,
    pub reached: PathBuf,
}

impl<'a> Boot<'a> {
    /// Starts it. From then on everything is recorded.
    pub fn start(world: &'a World) -> Self {
        Self::start_with(world, &[])
    }

    /// The same with more arguments.
    pub fn start_with(world: &'a World, more: &[&str]) -> Self {
        let reached = world.path("reached");
        // An earlier boot may have made it.
        let _ = fs::remove_file(&reached);
        let mut serve = world.foreread(&["boot", "serve", "--json", "--idle", "0", "--reached"]);
        serve.arg(&reached).arg("--lock").arg(world.path("lock"));
        serve.args(more);
        Self {
            world,
            serve: Service::start_as(world, serve),
            reached,
        }
    }

    pub fn history(&self) -> String {
        fs::read_to_string(self.world.state().join("boot/history.json")).unwrap_or_default()
    }

    /// Reaches its target, and is over.
    pub fn end(self) -> Value {
        fs::write(&self.reached, "").expect("a file");
        let output = self.serve.wait();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).expect("one document")
    }
}

/// A disk with files that a boot reads; none is in memory.
pub fn bed(world: &World) -> Option<(Testbed, PathBuf)> {
    if !can_record() {
        return None;
    }
    let (testbed, root) = disk(world, "cloud", 128 << 20)?;
    let tree = root.join("tree");
    let files = usize::try_from(FILES).expect("a number");
    testbed
        .instantly(|| small_files(&tree, files, BYTES, 1))
        .expect("files");
    make_cold(&testbed);
    Some((testbed, tree))
}

pub fn read_all(tree: &Path) {
    let mut grep = Command::new("grep");
    let grep = grep.args(["-rq", "no such words in it"]).arg(tree);
    assert_eq!(grep.status().expect("grep").code(), Some(1));
}

/// All boots here are one to the kernel.
pub fn make_earlier(world: &World) {
    let path = world.state().join("boot/history.json");
    let mut history: Value =
        serde_json::from_slice(&fs::read(&path).expect("a history")).expect("JSON");
    for (at, boot) in history["boots"]
        .as_array_mut()
        .expect("a list")
        .iter_mut()
        .enumerate()
    {
        boot["id"] = format!("earlier {at}").into();
    }
    fs::write(&path, history.to_string()).expect("a file");
}
