// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few of the kernel's types that the BPF programs look into.
//!
//! libbpf compares each name that a program uses with the names of all types of the kernel, some
//! hundred thousand. That is a third of the time that loading the recorder takes (18 of 50 ms,
//! measured with perf on Linux 6.18). With a BTF of only the used types, there is little to
//! compare. The target of a pointer isn't needed to find the offset of a field, so it is left out.
//!
//! The format is that of `Documentation/bpf/btf.rst` in the kernel's source.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

/// The types that `bpf/kernel.h` and `bpf/block_kernel.h` declare.
const NAMES: [&str; 55] = [
    "address_space",
    "atomic_t",
    "backing_dev_info",
    "bio",
    "bio_vec",
    "block_device",
    "buffer_head",
    "bvec_iter",
    "cgroup",
    "cgroup_subsys_state",
    "css_set",
    "dentry",
    "fdtable",
    "file",
    "file_lease",
    "file_lock",
    "file_lock_context",
    "file_lock_core",
    "file_ra_state",
    "files_struct",
    "folio",
    "fs_struct",
    "gendisk",
    "hlist_head",
    "hlist_node",
    "inode",
    "io_kiocb",
    "io_ring_ctx",
    "io_uring_cqe",
    "iov_iter",
    "kernfs_node",
    "kiocb",
    "linux_binprm",
    "list_head",
    "mapping_flags",
    "mm_struct",
    "page",
    "pageflags",
    "path",
    "pt_regs",
    "qstr",
    "queue_limits",
    "readahead_control",
    "req_flag_bits",
    "req_op",
    "request",
    "request_queue",
    "signal_struct",
    "super_block",
    "task_struct",
    "user_pt_regs",
    "vm_area_struct",
    "vm_fault",
    "xa_node",
    "xarray",
];

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
/// Name, kind with number of members, and size or type.
const TYPE_BYTES: usize = 12;

const INT: u32 = 1;
pub const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FWD: u32 = 7;
pub const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
pub const FUNC: u32 = 12;
pub const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const FLOAT: u32 = 16;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, at)?).ok()
}

/// A BTF for libbpf, as a file in memory.
pub struct KernelTypes(File);

impl KernelTypes {
    /// Selects the types that the programs need from all types of a kernel. `None` if they
    /// contradict each other; libbpf then looks for them itself.
    pub fn of(types: &Types<'_>) -> Option<Self> {
        let subset = subset(types, &NAMES)?;
        let mut file = File::from(memfd_create("foreread-btf", MemfdFlags::CLOEXEC).ok()?);
        file.write_all(&subset).ok()?;
        Some(Self(file))
    }

    /// Where this process finds it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// The types of these names with all that lies in them by value, as a BTF.
fn subset(whole: &Types<'_>, names: &[&str]) -> Option<Vec<u8>> {
    let wanted = whole.closure(whole.named(names)?)?;
    Subset::default().write(whole, &wanted)
}

/// A BTF, type by type.
pub struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where each type begins, by its number less one.
    places: Vec<u32>,
}

/// One type, with the data after its first three words.
#[derive(Clone, Copy)]
pub struct Type<'a> {
    pub name: u32,
    pub info: u32,
    pub size_or_type: u32,
    rest: &'a [u8],
}

impl Type<'_> {
    pub fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }

    /// The words of `rest` that are numbers of types.
    fn references(&self) -> impl Iterator<Item = usize> {
        let (from, every) = match self.kind() {
            // Element and index.
            ARRAY => (0, 4),
            // Name, type, offset.
            STRUCT | UNION => (4, 12),
            _ => (usize::MAX, 1),
        };
        let end = if self.kind() == ARRAY {
            8
        } else {
            self.rest.len()
        };
        (from..end).step_by(every)
    }

    /// Whether its third word is the number of a type that lies in it.
    fn is_alias(&self) -> bool {
        matches!(
            self.kind(),
            TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG
        )
    }
}

/// Bytes behind the first three words of a type.
fn rest_bytes(info: u32) -> Option<usize> {
    let members = (info & 0xffff) as usize;
    Some(match info >> 24 & 0x1f {
        INT | VAR | DECL_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | DATASEC | ENUM64 => members * 12,
        ENUM | FUNC_PROTO => members * 8,
        PTR | FWD | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNC | FLOAT | TYPE_TAG => 0,
        _ => return None,
    })
}

impl<'a> Types<'a> {
    /// `None` when the bytes aren't a BTF of this byte order and known kinds.
    pub fn parse(btf: &'a [u8]) -> Option<Self> {
        if btf.get(..2)? != MAGIC.to_ne_bytes() {
            return None;
        }
        let header_bytes = usize_at(btf, 4)?;
        let section = |at: usize| {
            let from = header_bytes.checked_add(usize_at(btf, at)?)?;
            btf.get(from..from.checked_add(usize_at(btf, at + 4)?)?)
        };
        let (types, strings) = (section(8)?, section(16)?);
        let mut places = Vec::with_capacity(types.len() / 32);
        let mut at = 0;
        while at < types.len() {
            places.push(u32::try_from(at).ok()?);
            at += TYPE_BYTES + rest_bytes(u32_at(types, at + 4)?)?;
        }
        (at == types.len()).then_some(Self {
            types,
            strings,
            places,
        })
    }

    /// Number of types. Their numbers go from 1 to this.
    pub fn count(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    pub fn get(&self, id: u32) -> Option<Type<'a>> {
        let at = *self.places.get((id as usize).checked_sub(1)?)? as usize;
        let info = u32_at(self.types, at + 4)?;
        let rest = at + TYPE_BYTES;
        Some(Type {
            name: u32_at(self.types, at)?,
            info,
            size_or_type: u32_at(self.types, at + 8)?,
            rest: self.types.get(rest..rest + rest_bytes(info)?)?,
        })
    }

    /// A string, without its NUL.
    pub fn string(&self, at: u32) -> Option<&'a [u8]> {
        let from = self.strings.get(at as usize..)?;
        from.split(|byte| *byte == 0).next()
    }

    fn named(&self, names: &[&str]) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        for id in (1..).take(self.places.len()) {
            let one = self.get(id)?;
            if !matches!(one.kind(), STRUCT | UNION | ENUM | ENUM64 | TYPEDEF) || one.name == 0 {
                continue;
            }
            let name = self.strings.get(one.name as usize..)?;
            let is_it = |wanted: &&str| {
                name.starts_with(wanted.as_bytes()) && name.get(wanted.len()) == Some(&0)
            };
            if names.iter().any(is_it) {
                found.push(id);
            }
        }
        Some(found)
    }

    /// With all types that lie in these, in order.
    fn closure(&self, mut left: Vec<u32>) -> Option<Vec<u32>> {
        let mut seen = vec![false; self.places.len() + 1];
        // Nothing lies in void.
        seen[0] = true;
        while let Some(id) = left.pop() {
            if std::mem::replace(seen.get_mut(id as usize)?, true) {
                continue;
            }
            let one = self.get(id)?;
            if one.is_alias() {
                left.push(one.size_or_type);
            }
            for at in one.references() {
                left.push(u32_at(one.rest, at)?);
            }
        }
        Some(
            (1..)
                .zip(&seen[1..])
                .filter(|(_, s)| **s)
                .map(|(id, _)| id)
                .collect(),
        )
    }
}

#[derive(Default)]
struct Subset {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// From a string's place in the whole.
    string_places: HashMap<u32, u32>,
}

impl Subset {
    fn write(mut self, whole: &Types<'_>, wanted: &[u32]) -> Option<Vec<u8>> {
        self.strings.push(0);
        self.string_places.insert(0, 0);
        let numbers: HashMap<u32, u32> = wanted.iter().copied().zip(1..).collect();
        // A type that isn't in the subset is only reached through a pointer, so it becomes void.
        let number = |id: u32| numbers.get(&id).copied().unwrap_or(0);
        for id in wanted {
            let one = whole.get(*id)?;
            let last = match one.kind() {
                PTR => 0,
                _ if one.is_alias() => number(one.size_or_type),
                _ => one.size_or_type,
            };
            let name = self.string(whole, one.name)?;
            for word in [name, one.info, last] {
                self.types.extend(word.to_ne_bytes());
            }
            let mut rest = one.rest.to_vec();
            let mut put =
                |at: usize, word: u32| rest[at..at + 4].copy_from_slice(&word.to_ne_bytes());
            for at in one.references() {
                put(at, number(u32_at(one.rest, at)?));
            }
            let member_bytes = match one.kind() {
                STRUCT | UNION | ENUM64 => 12,
                ENUM => 8,
                _ => usize::MAX,
            };
            for at in (0..one.rest.len()).step_by(member_bytes) {
                if member_bytes != usize::MAX {
                    put(at, self.string(whole, u32_at(one.rest, at)?)?);
                }
            }
            self.types.extend(rest);
        }
        self.finish()
    }

    fn string(&mut self, whole: &Types<'_>, at: u32) -> Option<u32> {
        if let Some(place) = self.string_places.get(&at) {
            return Some(*place);
        }
        let place = u32::try_from(self.strings.len()).ok()?;
        self.strings.extend(whole.string(at)?);
        self.strings.push(0);
        self.string_places.insert(at, place);
        Some(place)
    }

    fn finish(self) -> Option<Vec<u8>> {
        let types = u32::try_from(self.types.len()).ok()?;
        let strings = u32::try_from(self.strings.len()).ok()?;
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        // Version 1, no flags.
        btf.extend([1, 0]);
        for word in [HEADER_BYTES as u32, 0, types, types, strings] {
            btf.extend(word.to_ne_bytes());
        }
        btf.extend(self.types);
        btf.extend(self.strings);
        Some(btf)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use foreread_sys::kernel::BTF;

    fn subset_of(btf: &[u8], names: &[&str]) -> Option<Vec<u8>> {
        subset(&Types::parse(btf)?, names)
    }

    /// Every type that the programs' headers declare with fields is among [`NAMES`].
    #[test]
    fn all_types_of_the_headers_are_named() {
        let headers = concat!(
            include_str!("../../../bpf/kernel.h"),
            include_str!("../../../bpf/block_kernel.h")
        );
        let declared = headers.lines().filter_map(|line| {
            let line = line.strip_suffix(" {")?;
            let name = line
                .strip_prefix("struct ")
                .or_else(|| line.strip_prefix("enum "))?;
            // A flavour is another view of the type that it is named after.
            let name = name.split("___").next()?;
            (!name.is_empty()).then_some(name)
        });
        let missing: Vec<&str> = declared.filter(|name| !NAMES.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn of_the_running_kernel_little_is_left_and_every_reference_leads_somewhere() {
        let Ok(whole) = fs::read(BTF) else {
            println!("skipped: this kernel has no BTF at {BTF}");
            return;
        };
        let small = subset_of(&whole, &NAMES).unwrap();
        assert!(small.len() * 20 < whole.len(), "{} bytes", small.len());
        let (whole, types) = (Types::parse(&whole).unwrap(), Types::parse(&small).unwrap());
        let count = types.places.len();
        for id in (1..).take(count) {
            let one = types.get(id).unwrap();
            assert!(types.string(one.name).is_some());
            for at in one.references() {
                assert!(u32_at(one.rest, at).unwrap() as usize <= count);
            }
        }
        // The same fields in the same places.
        for name in ["inode", "task_struct", "folio"] {
            let fields = |types: &Types<'_>| {
                let id = types.named(&[name]).unwrap()[0];
                let one = types.get(id).unwrap();
                let fields = one.rest.chunks_exact(12).map(|field| {
                    let name = types.string(u32_at(field, 0).unwrap()).unwrap().to_vec();
                    (name, u32_at(field, 8).unwrap())
                });
                (one.size_or_type, fields.collect::<Vec<_>>())
            };
            assert_eq!(fields(&types), fields(&whole), "{name}");
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_give_something_and_never_panic() {
        let int = [1u32, INT << 24, 4, 32];
        // struct b { int a; } and a pointer to it.
        let pair = [3u32, STRUCT << 24 | 1, 4, 1, 1, 0];
        let words: Vec<u32> = int.into_iter().chain(pair).collect();
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let strings = b"\0a\0b\0";
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        let length = types.len() as u32;
        for word in [24, 0, length, length, strings.len() as u32] {
            btf.extend(word.to_ne_bytes());
        }
        btf.extend(types);
        btf.extend(strings);
        assert!(subset_of(&btf, &["b"]).is_some());
        for at in 0..btf.len() {
            assert!(subset_of(&btf[..at], &["b"]).is_none());
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = btf.clone();
                damaged[at] = value;
                let _ = subset_of(&damaged, &["b"]);
            }
        }
    }
}
