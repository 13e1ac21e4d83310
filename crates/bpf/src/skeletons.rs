// SPDX-License-Identifier: MIT OR Apache-2.0
//! Skeletons that libbpf-cargo generates from each program file in `bpf/` at build time.

macro_rules! skeletons {
    ($($(#[$doc:meta])* $name:ident $file:literal,)*) => {$(
        $(#[$doc])*
        #[allow(
            missing_docs,
            clippy::all,
            clippy::pedantic,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            unused_qualifications
        )]
        pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", $file));
        }
    )*};
}

skeletons! {
    /// `bpf/block.bpf.c`: the block layer's events of a device's requests.
    block "block.skel.rs",
    /// `bpf/check.bpf.c`: readahead of one file, for check-kernel.
    check "check.skel.rs",
    /// `bpf/record.bpf.c`: the reads of a process tree.
    record "record.skel.rs",
    /// `bpf/stat.bpf.c`: accounts of pages.
    stat "stat.skel.rs",
    /// `bpf/streams.bpf.c`: streams of reads.
    streams "streams.skel.rs",
    /// `bpf/watch.bpf.c`: misses and listings of a process tree.
    watch "watch.skel.rs",
}
