// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which programs the running kernel has a place for.
//!
//! Input: the programs of an object, by name and section, and the kernel's BTF. Output: for each
//! hook, the first program whose tracepoint or function the kernel has, with as many arguments.
//! `bpf/hooks.h` describes the names of programs. The part before `__` is the hook. `__fnN` asks
//! for a function of N arguments, and `__tpN` for a tracepoint of N.

use std::collections::{BTreeMap, HashMap};

use super::btf::{FUNC, FUNC_PROTO, PTR, TYPEDEF, Types};

/// The place that a program is attached to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    /// A tracepoint, with the number of its arguments where that matters.
    Tracepoint(String, Option<usize>),
    /// A function, with the number of its arguments.
    Function(String, Option<usize>),
    /// Nothing: user space runs it, or another program goes on to it.
    None,
}

impl Place {
    /// By the section and the name of a program.
    pub fn of(section: &str, name: &str) -> Self {
        let suffix = name.split_once("__").map_or("", |(_, suffix)| suffix);
        let arguments = |kind: &str| suffix.strip_prefix(kind).and_then(|n| n.parse().ok());
        match section.split_once('/') {
            Some(("tp_btf" | "raw_tp", target)) => {
                Self::Tracepoint(target.to_owned(), arguments("tp"))
            }
            Some(("fentry" | "fexit", target)) => {
                Self::Function(target.to_owned(), arguments("fn"))
            }
            _ => Self::None,
        }
    }

    /// As people say it.
    pub fn words(&self) -> String {
        let with = |arguments: &Option<usize>| match arguments {
            Some(count) => format!(" of {count} arguments"),
            None => String::new(),
        };
        match self {
            Self::Tracepoint(name, arguments) => format!("tracepoint {name}{}", with(arguments)),
            Self::Function(name, arguments) => format!("function {name}(){}", with(arguments)),
            Self::None => "no place".to_owned(),
        }
    }
}

/// The hook of a program: its name without the prefix of its object, and without the way in which
/// it is attached.
#[must_use]
pub fn hook_of(name: &str) -> &str {
    let own = name.strip_prefix("fr_").and_then(|n| n.split_once('_'));
    let name = own.map_or(name, |(_, name)| name);
    name.split_once("__").map_or(name, |(hook, _)| hook)
}

/// Tracepoints and functions of a kernel, with how many arguments they have.
#[derive(Debug, Default)]
pub(super) struct Offered {
    tracepoints: HashMap<String, usize>,
    functions: HashMap<String, usize>,
}

impl Offered {
    /// The places that the kernel with these types has.
    pub fn of(types: &Types<'_>, places: &[Place]) -> Self {
        let mut wanted: BTreeMap<Vec<u8>, &str> = BTreeMap::new();
        for place in places {
            match place {
                Place::Tracepoint(name, _) => {
                    wanted.insert(format!("btf_trace_{name}").into_bytes(), name);
                }
                Place::Function(name, _) => {
                    wanted.insert(name.clone().into_bytes(), name);
                }
                Place::None => {}
            }
        }
        let mut offered = Self::default();
        let functions = (1..=types.count()).filter_map(|id| types.get(id));
        for one in functions.filter(|one| matches!(one.kind(), FUNC | TYPEDEF)) {
            let Some(name) = types.string(one.name).and_then(|name| wanted.get(name)) else {
                continue;
            };
            if one.kind() == FUNC {
                let arguments = types.arguments(one.size_or_type);
                offered
                    .functions
                    .extend(arguments.map(|count| ((*name).to_owned(), count)));
            } else if let Some(pointer) = types.get(one.size_or_type).filter(|t| t.kind() == PTR) {
                // The first argument is the tracepoint's own.
                let arguments = types.arguments(pointer.size_or_type);
                let count = arguments.map(|count| count.saturating_sub(1));
                offered
                    .tracepoints
                    .extend(count.map(|count| ((*name).to_owned(), count)));
            }
        }
        offered
    }

    /// Whether the kernel has such a place.
    pub fn has(&self, place: &Place) -> bool {
        let (known, name, wanted) = match place {
            Place::Tracepoint(name, wanted) => (&self.tracepoints, name, wanted),
            Place::Function(name, wanted) => (&self.functions, name, wanted),
            Place::None => return true,
        };
        known
            .get(name)
            .is_some_and(|have| wanted.is_none_or(|wanted| wanted == *have))
    }
}

impl Types<'_> {
    fn arguments(&self, prototype: u32) -> Option<usize> {
        let one = self.get(prototype)?;
        (one.kind() == FUNC_PROTO).then_some((one.info & 0xffff) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_sys::kernel::BTF;

    #[test]
    fn names_and_sections_say_where_a_program_belongs() {
        let tracepoint = |name: &str, n| Place::Tracepoint(name.into(), n);
        assert_eq!(
            Place::of("tp_btf/sched_switch", "switched"),
            tracepoint("sched_switch", None)
        );
        assert_eq!(
            Place::of("tp_btf/io_uring_complete", "done__tp7"),
            tracepoint("io_uring_complete", Some(7))
        );
        assert_eq!(
            Place::of("fexit/filemap_get_pages", "get_pages__fn3"),
            Place::Function("filemap_get_pages".into(), Some(3))
        );
        assert_eq!(Place::of("raw_tp", "whoami"), Place::None);
        assert_eq!(Place::of("syscall", "survey"), Place::None);
        assert_eq!(hook_of("fr_rec_get_pages__fn3"), "get_pages");
        assert_eq!(hook_of("fr_stat_get_pages"), "get_pages");
    }

    #[test]
    fn of_the_running_kernel_places_are_found_by_their_arguments() {
        let btf = std::fs::read(BTF).unwrap_or_default();
        let Some(types) = Types::parse(&btf) else {
            println!("skipped: this kernel has no BTF at {BTF}");
            return;
        };
        let switch = |n| Place::Tracepoint("sched_switch".into(), n);
        let fault = |n| Place::Function("filemap_fault".into(), n);
        let none = Place::Tracepoint("no_such_tracepoint".into(), None);
        let places = [switch(None), fault(None), none.clone()];
        let offered = Offered::of(&types, &places);
        // The previous state came with Linux 5.18 as the fourth.
        assert!(offered.has(&switch(None)) && offered.has(&switch(Some(4))));
        assert!(!offered.has(&switch(Some(3))));
        assert!(offered.has(&fault(Some(1))) && !offered.has(&fault(Some(2))));
        assert!(!offered.has(&none));
        assert!(Types::parse(b"no BTF").is_none());
    }
}
