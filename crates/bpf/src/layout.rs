// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of the structs that go between the programs in `bpf/` and user space, as bytes.
//!
//! libbpf-cargo makes a type of each struct that a compiled program knows, from its BTF, and puts
//! it beside the skeleton. [`field!`](crate::field) and [`put!`](crate::put) find a field by that
//! type, so neither its place nor its width is written down a second time. When a header moves a
//! field, it is read from the new place. When a header removes it or changes its width, the code
//! that reads it doesn't compile.

/// The content of a field: a number, or bytes.
pub trait Plain: Sized {
    /// As it lies in memory; `None` when that is of another length.
    fn from_memory(bytes: &[u8]) -> Option<Self>;

    /// Lays it into memory of its length.
    fn to_memory(&self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Plain for $number {
            fn from_memory(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_ne_bytes)
            }

            fn to_memory(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

numbers!(u16 u32 u64 i32);

impl<const BYTES: usize> Plain for [u8; BYTES] {
    fn from_memory(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }

    fn to_memory(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
}

/// The field at `at`, of the type that `_select` gives; `None` when the bytes end before it does.
pub fn field_at<S, F: Plain>(bytes: &[u8], at: usize, _select: impl FnOnce(&S) -> F) -> Option<F> {
    F::from_memory(bytes.get(at..at.checked_add(size_of::<F>())?)?)
}

/// Lays the field at `at`, of the type that `_select` gives, where the bytes reach so far.
pub fn put_at<S, F: Plain>(bytes: &mut [u8], at: usize, _select: impl FnOnce(&S) -> F, value: &F) {
    let end = at.saturating_add(size_of::<F>());
    if let Some(bytes) = bytes.get_mut(at..end) {
        value.to_memory(bytes);
    }
}

/// Reads a field of a struct from its bytes: `field!(bytes, types::watch_seen, inode)`. `None` when
/// they end before it does.
#[macro_export]
macro_rules! field {
    ($bytes:expr, $struct:ty, $($field:ident).+) => {
        $crate::layout::field_at(
            $bytes,
            ::core::mem::offset_of!($struct, $($field).+),
            |of: &$struct| of.$($field).+,
        )
    };
}

/// Lays a field of a struct into its bytes: `put!(bytes, types::watch_seen, inode, 7)`.
#[macro_export]
macro_rules! put {
    ($bytes:expr, $struct:ty, $($field:ident).+, $value:expr) => {
        $crate::layout::put_at(
            $bytes,
            ::core::mem::offset_of!($struct, $($field).+),
            |of: &$struct| of.$($field).+,
            &$value,
        )
    };
}

#[cfg(test)]
mod tests {
    use crate::skeletons::record::types::{inode_key, inode_value};

    #[test]
    fn fields_are_found_by_their_names_and_read_in_their_width() {
        let mut key = [0u8; size_of::<inode_key>()];
        put!(&mut key, inode_key, number, 1 << 40);
        put!(&mut key, inode_key, generation, 7);
        put!(&mut key, inode_key, device, 9);
        assert_eq!(field!(&key, inode_key, number), Some(1 << 40));
        assert_eq!(field!(&key, inode_key, generation), Some(7));
        assert_eq!(field!(&key[..20], inode_key, generation), Some(7));
        assert_eq!(field!(&key[..19], inode_key, generation), None);
        // As bpf/record.h says.
        assert_eq!(key[16..20], 7u32.to_ne_bytes());
        assert_eq!(size_of::<inode_key>(), 24);
    }

    #[test]
    fn a_field_of_a_struct_in_a_struct_is_found() {
        let mut value = [0u8; size_of::<inode_value>()];
        value[8..16].copy_from_slice(&5u64.to_ne_bytes());
        assert_eq!(field!(&value, inode_value, first.used), Some(5));
    }
}
