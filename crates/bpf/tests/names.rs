// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps and programs say whose they are, and stay apart, where others list them. Opening an object
//! asks nothing of the kernel.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use foreread_bpf::skeletons::block::BlockSkelBuilder;
use foreread_bpf::skeletons::check::CheckSkelBuilder;
use foreread_bpf::skeletons::record::RecordSkelBuilder;
use foreread_bpf::skeletons::stat::StatSkelBuilder;
use foreread_bpf::skeletons::streams::StreamsSkelBuilder;
use foreread_bpf::skeletons::watch::WatchSkelBuilder;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

/// Bytes of a name that the kernel keeps.
const KEPT_BYTES: usize = 15;

fn kept(name: &str) -> &str {
    name.get(..KEPT_BYTES).unwrap_or(name)
}

/// Names of an object's maps, and of the hooks of its programs.
fn names<B: SkelBuilder<'static> + Default>() -> (Vec<String>, BTreeSet<String>) {
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let opened = B::default().open(storage).expect("an object that opens");
    let object = opened.open_object();
    let maps = object
        .maps()
        .map(|map| map.name().to_string_lossy().into_owned());
    // libbpf names the maps of variables after the object's file; several objects share the tree.
    let is_own = |name: &String| !name.contains('.') && name != "fr_tree";
    let maps = maps.filter(is_own).collect();
    let programs = object.progs().map(|program| {
        let name = program.name().to_string_lossy().into_owned();
        // Variants of a program for one hook (NAME__VARIANT) count as one: only one of them is
        // loaded.
        name.split("__").next().unwrap_or(&name).to_owned()
    });
    (maps, programs.collect())
}

fn assert_named<B: SkelBuilder<'static> + Default>(prefix: &str) {
    let (maps, programs) = names::<B>();
    assert!(!maps.is_empty() && !programs.is_empty());
    for name in maps.iter().chain(&programs) {
        assert!(
            name.starts_with(prefix),
            "{name} doesn't begin with {prefix}"
        );
    }
    let kept_maps: BTreeSet<&str> = maps.iter().map(|name| kept(name)).collect();
    assert_eq!(kept_maps.len(), maps.len(), "{kept_maps:?}");
    let kept_programs: BTreeSet<&str> = programs.iter().map(|name| kept(name)).collect();
    assert_eq!(kept_programs.len(), programs.len(), "{kept_programs:?}");
}

#[test]
fn maps_and_programs_have_the_prefix_of_their_object_and_stay_apart_in_15_bytes() {
    assert_named::<BlockSkelBuilder>("fr_blk_");
    assert_named::<CheckSkelBuilder>("fr_chk_");
    assert_named::<RecordSkelBuilder>("fr_rec_");
    assert_named::<StatSkelBuilder>("fr_stat_");
    assert_named::<StreamsSkelBuilder>("fr_str_");
    assert_named::<WatchSkelBuilder>("fr_watch_");
}
