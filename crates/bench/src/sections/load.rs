// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time to read a profile of 50,000 files.

use foreread_measure::MeasureError;
use foreread_measure::sample::Sample;
use foreread_profile::{
    Identity, NodeKind, Profile, ProfileBuilder, Program, Source, Uses, decode, encode,
};
use serde_json::json;

use super::costs::{elapsed_ns, milliseconds};
use super::memory::FILES;
use crate::context::Context;
use crate::report::{Row, Section, Target};

const TARGET_MS: Target = Target::AtMost(30.0);

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    context.say("load: a profile of 50,000 files");
    let profile = profile(FILES as u64);
    let bytes = encode(&profile);
    let rounds = if context.quick { 31 } else { 101 };
    let mut times = Vec::new();
    for _ in 0..rounds {
        let (decoded, ns) = elapsed_ns(|| decode(&bytes));
        let decoded = decoded.map_err(|error| MeasureError::Report("decode", error.to_string()))?;
        // It must read the profile that was written, or the time means nothing.
        if decoded != profile {
            let what = "the profile changed on the way".to_owned();
            return Err(MeasureError::Report("decode", what));
        }
        times.push(ns);
    }
    let times = Sample::new(times);
    let (low, high) = times.quartiles();
    Ok(Section {
        name: "load",
        about: "Reading a stored profile of 50,000 files, three ranges each, and checking it; \
                median."
            .to_owned(),
        header: vec!["files", "stored bytes", "rounds", "half of them", "ms"],
        rows: vec![Row {
            cells: vec![
                foreread_core::grouped(FILES as u64),
                foreread_core::grouped(bytes.len() as u64),
                times.len().to_string(),
                format!("{} to {}", milliseconds(low), milliseconds(high)),
            ],
            value: times.median() / 1e6,
            digits: 1,
            target: TARGET_MS,
            details: json!({ "median_ns": times.median(), "stored_bytes": bytes.len() }),
        }],
        notes: Vec::new(),
    })
}

/// As of a program that reads a source tree: twenty files to a directory, names that share
/// prefixes, inodes mostly in order, needs without order.
fn profile(files: u64) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    for file in 0..files {
        // Spread, so that it doesn't compress to nothing.
        let noise = (file + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let directory = file / 20;
        let path = format!(
            "/srv/data/project-{}/module_{}/part_{directory:x}/source_{:x}.c",
            directory / 400,
            directory / 20,
            noise >> 24
        );
        let Ok(id) = builder.node(path.as_bytes()) else {
            continue;
        };
        builder.set_kind(id, NodeKind::File);
        let identity = Identity {
            inode: 1_000_000 + file * 3 + noise % 3,
            generation: (noise >> 32) as u32,
            size_bytes: 40_000 + noise % 200_000,
            mtime_ns: 1_700_000_000_000_000_000 + (noise >> 14) as i64,
        };
        builder.set_identity(id, identity);
        let need_ns = file * 180_000 + noise % 100_000;
        builder.used(id, Uses::OPENED.union(Uses::READ), need_ns);
        let mut page = 0;
        for part in 0..3 {
            let pages = 1 + (noise >> (8 * part)) % 8;
            builder.pages(id, page, pages, need_ns + part * 5_000_000);
            page += pages + 1 + (noise >> part) % 4;
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_as_large_as_it_says() {
        let profile = profile(500);
        assert_eq!(profile.files().count(), 500);
        assert_eq!(decode(&encode(&profile)).unwrap(), profile);
    }
}
