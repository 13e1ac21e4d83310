// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workloads that tell policies apart: those of `tests/scenarios/workloads/`, as a part of the
//! program.

macro_rules! workloads {
    ($($name:literal)*) => {
        /// Name and text of each workload, by name. [`Scenario::parse`](crate::Scenario::parse)
        /// reads the text.
        pub const WORKLOADS: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../tests/scenarios/workloads/", $name, ".toml")),
        )),*];
    };
}

workloads! {
    "w01-sequential-128k"
    "w01-sequential-16m"
    "w01-sequential-4k"
    "w02-slow-consumer"
    "w03-stops-after-1"
    "w03-stops-after-1024"
    "w03-stops-after-64"
    "w03-stops-after-8"
    "w04-one-miss-in-10"
    "w04-one-miss-in-100"
    "w04-one-miss-in-1000"
    "w05-interleaved-2"
    "w05-interleaved-64"
    "w05-interleaved-8"
    "w05-interleaved-9"
    "w06-streams-noise-10"
    "w06-streams-noise-90"
    "w07-reordered-2"
    "w07-reordered-32"
    "w07-reordered-8"
    "w08-holes-10"
    "w08-holes-25"
    "w08-holes-40"
    "w08-skip-17m"
    "w08-skip-99m"
    "w09-backward"
    "w09-backward-stride-64k"
    "w09-stride-1m"
    "w09-stride-64k"
    "w09-stride-64k-noise-20"
    "w09-zig-zag"
    "w10-random-128k"
    "w10-random-4k"
    "w10-random-mmap"
    "w11-mixed-30"
    "w11-mixed-50"
    "w11-mixed-70"
    "w11-phases"
    "w12-rows-1-rank"
    "w12-rows-8-ranks"
    "w12-tensors-1-thread"
    "w12-tensors-disjoint"
    "w12-tensors-interleaved"
    "w18-1000-handles"
    "w19-scan-beside-working-set"
    "w20-scan-beside-lookups"
}
