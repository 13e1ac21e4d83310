// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of directories as bytes: absolute, without a slash at the end, so that of the root is
//! empty.

/// Names in a path.
#[must_use]
pub fn depth(path: &[u8]) -> usize {
    path.iter().filter(|byte| **byte == b'/').count()
}

/// The lowest directory that holds both, or is one of them.
#[must_use]
pub fn common<'a>(one: &'a [u8], other: &[u8]) -> &'a [u8] {
    let mut end = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let is_whole = |path: &[u8]| path.get(end).is_none_or(|byte| *byte == b'/');
    if !(is_whole(one) && is_whole(other)) {
        end = one[..end]
            .iter()
            .rposition(|byte| *byte == b'/')
            .unwrap_or(0);
    }
    &one[..end]
}

/// The name below `top` on the way to `path`; `None` where that isn't below it.
#[must_use]
pub fn child_below<'a>(top: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(top)?.strip_prefix(b"/")?;
    rest.split(|byte| *byte == b'/').next()
}

/// Whether `path` is `top` or below it.
#[must_use]
pub fn is_within(top: &[u8], path: &[u8]) -> bool {
    path == top || child_below(top, path).is_some()
}

/// A directory's entry.
#[must_use]
pub fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    [directory, b"/", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_names_count() {
        assert_eq!(common(b"/a/bc", b"/a/bd"), b"/a");
        assert_eq!(common(b"/a/b", b"/a/bd"), b"/a");
        assert_eq!(common(b"/a/b", b"/a/b/c"), b"/a/b");
        assert_eq!(common(b"/a", b"/b"), b"");
        assert_eq!(child_below(b"/a", b"/a/b/c"), Some(&b"b"[..]));
        assert_eq!(child_below(b"", b"/a"), Some(&b"a"[..]));
        assert_eq!(child_below(b"/a", b"/ab"), None);
        assert_eq!(child_below(b"/a", b"/a"), None);
        assert!(is_within(b"", b"/a") && !is_within(b"/a", b"/ab"));
    }

    proptest! {
        #[test]
        fn what_is_common_holds_both(one in "(/[ab]{1,2}){0,5}", other in "(/[ab]{1,2}){0,5}") {
            let above = common(one.as_bytes(), other.as_bytes());
            prop_assert!(is_within(above, one.as_bytes()) && is_within(above, other.as_bytes()));
            prop_assert_eq!(above, common(other.as_bytes(), one.as_bytes()));
            if above != one.as_bytes() && above != other.as_bytes() {
                prop_assert_ne!(
                    child_below(above, one.as_bytes()), child_below(above, other.as_bytes())
                );
            }
        }
    }
}
