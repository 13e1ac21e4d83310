// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as /proc/self/mountinfo, and looks paths up in it.
#![no_main]

use foreread_core::mounts::Mounts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mounts = Mounts::parse(input);
    let points = mounts.points();
    assert!(points.len() <= input.split(|byte| *byte == b'\n').count());
    for point in points {
        let _ = point.is_virtual();
        assert!(point.overlay_layers().iter().map(Vec::len).sum::<usize>() <= input.len());
        for path in [&point.mount_point, &point.root] {
            let found = mounts.mount_of(path);
            assert!(found.is_none_or(|index| index < points.len()));
            if !path.starts_with(b"/") {
                continue;
            }
            for (index, path) in mounts.reach(point.major, point.minor, path) {
                assert!(index < points.len() && path.starts_with(b"/"));
            }
        }
    }
    let _ = mounts.mount_of(input);
});
