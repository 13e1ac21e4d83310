// SPDX-License-Identifier: MIT OR Apache-2.0
//! Says what the weight of an entry tells of earlier recordings.
//!
//! In: a weight. Out: words. Each recording halves a weight, and adds 128 if it sees the entry. So
//! the eight bits are the last eight recordings, the newest one first. The first recording of a
//! profile sets all of them. A recording that lost many events changes nothing, and isn't counted.

/// The recorded boots that needed an entry: `all`, `the last 2`, `not the last 3`.
pub fn recordings(weight: u8) -> String {
    let last = |boots: u32| match boots {
        1 => "the last".to_owned(),
        _ => format!("the last {boots}"),
    };
    let missed = weight.leading_zeros();
    // All bits may be missing, and a shift by eight is none.
    let rest = weight.checked_shl(missed).unwrap_or(0);
    let seen = rest.leading_ones();
    let earlier = rest.checked_shl(seen).unwrap_or(0);
    match (missed, seen) {
        (0, u8::BITS) => "all".to_owned(),
        (0, _) if earlier == 0 => format!("only {}", last(seen)),
        (0, _) => format!("{}, not the one before", last(seen)),
        _ if missed + seen == u8::BITS && seen > 0 => format!("all but {}", last(missed)),
        _ => format!("not {}", last(missed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::{
        NodeKind, Observation, Profile, ProfileBuilder, Program, Source, Uses, merge,
    };

    #[test]
    fn the_bits_of_a_weight_are_recordings() {
        for (weight, words) in [
            (0b1111_1111, "all"),
            (0b1000_0000, "only the last"),
            (0b1110_0000, "only the last 3"),
            (0b1011_1111, "the last, not the one before"),
            (0b1101_0000, "the last 2, not the one before"),
            (0b0111_1111, "all but the last"),
            (0b0011_1111, "all but the last 2"),
            (0b0101_1111, "not the last"),
            (0b0001_0000, "not the last 3"),
            (0, "not the last 8"),
        ] {
            assert_eq!(recordings(weight), words, "{weight:#010b}");
        }
    }

    fn recorded(paths: &[&str]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for path in paths {
            let id = builder.node(path.as_bytes()).unwrap();
            builder.set_kind(id, NodeKind::File);
            builder.used(id, Uses::READ, 1);
            builder.pages(id, 0, 1, 1);
        }
        builder.finish()
    }

    #[test]
    fn profiles_age_as_the_words_say() {
        let mut profile = recorded(&["/always", "/once"]);
        for paths in [&["/always", "/new"][..], &["/always", "/new"]] {
            profile = merge(&profile, &recorded(paths), Observation::Full);
        }
        let words = |path: &[u8]| {
            let id = profile.find(path).unwrap();
            recordings(profile.node(id).unwrap().weight)
        };
        assert_eq!(words(b"/always"), "all");
        assert_eq!(words(b"/once"), "all but the last 2");
        assert_eq!(words(b"/new"), "only the last 2");
    }
}
