// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns of names as udev and TuneD write them: `sd[a-z]*|nvme?n1`.

/// Whether one of the patterns between `|` meets the whole text: `*`, `?`, `[a-z]`, `[!a-z]`.
#[must_use]
pub fn meets(patterns: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    patterns.split('|').any(|pattern| {
        let pattern: Vec<char> = pattern.chars().collect();
        meets_one(&pattern, &text)
    })
}

/// Steps through both; after a mismatch the last `*` takes one character more. So the work is at
/// most the product of both lengths.
fn meets_one(pattern: &[char], text: &[char]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(&c) = text.get(of) {
        match step(pattern, at, c) {
            Step::Star => {
                star = Some((at, of));
                at += 1;
            }
            Step::Meets(next) => (at, of) = (next, of + 1),
            Step::Fails => match star {
                Some((star_at, star_of)) => {
                    star = Some((star_at, star_of + 1));
                    (at, of) = (star_at + 1, star_of + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|&c| c == '*')
}

enum Step {
    Star,
    /// The character fits, and the pattern goes on there.
    Meets(usize),
    Fails,
}

fn step(pattern: &[char], at: usize, c: char) -> Step {
    match pattern.get(at) {
        None => Step::Fails,
        Some('*') => Step::Star,
        Some('?') => Step::Meets(at + 1),
        Some('[') => set(pattern, at, c),
        Some(&own) if own == c => Step::Meets(at + 1),
        Some(_) => Step::Fails,
    }
}

/// A set in brackets; one that isn't closed is a bracket.
fn set(pattern: &[char], at: usize, c: char) -> Step {
    let mut from = at + 1;
    let is_negated = matches!(pattern.get(from), Some('!' | '^'));
    from += usize::from(is_negated);
    // A closing bracket that comes first belongs to the set.
    let close = (from + 1..pattern.len()).find(|&i| pattern[i] == ']');
    let Some(close) = close else {
        return if c == '[' {
            Step::Meets(at + 1)
        } else {
            Step::Fails
        };
    };
    let inside = &pattern[from..close];
    let mut is_in = false;
    let mut i = 0;
    while let Some(&low) = inside.get(i) {
        let range = (inside.get(i + 1) == Some(&'-'))
            .then(|| inside.get(i + 2))
            .flatten();
        let high = *range.unwrap_or(&low);
        is_in |= (low..=high).contains(&c);
        i += if range.is_some() { 3 } else { 1 };
    }
    if is_in == is_negated {
        Step::Fails
    } else {
        Step::Meets(close + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_meet_what_they_meet_in_a_shell() {
        for (pattern, text, expected) in [
            ("sd[a-z]", "sda", true),
            ("sd[a-z]", "sdaa", false),
            ("sd*[!0-9]", "sda", true),
            ("sd*[!0-9]", "sda1", false),
            ("sd[a-z]|nvme[0-9]n[0-9]", "nvme0n1", true),
            ("*", "", true),
            ("", "", true),
            ("?", "", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("[]a]", "]", true),
            ("[abc", "[", false),
            ("[", "[", true),
            ("vd?", "vdé", true),
        ] {
            assert_eq!(meets(pattern, text), expected, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_gives_an_answer(pattern in ".{0,30}", text in ".{0,30}") {
            let _ = meets(&pattern, &text);
        }

        #[test]
        fn a_plain_name_meets_itself_and_a_star(text in "[a-z0-9]{1,12}") {
            prop_assert!(meets(&text, &text));
            prop_assert!(meets("*", &text));
            let star = format!("{}*", &text[..1]);
            prop_assert!(meets(&star, &text));
        }
    }
}
