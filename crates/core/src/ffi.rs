// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C core: its types, and its functions behind references. The only unsafe code of this crate.
//!
//! Every function of the core is total. It reads and writes through the pointers that it is given,
//! during the call only, and keeps none of them. Any bits in a struct are a valid input. So a call
//! is sound whenever its pointers come from references to types of the same layout. [`layout`] lets
//! a test compare the layouts.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use crate::policy::{
    Access, Budget, Decision, Device, Done, Kind, Limits, Near, Reason, State, Streams, Wants,
    Window,
};

/// `struct fr_call`.
#[repr(C)]
pub struct Call<'a> {
    pub state: &'a mut State,
    pub access: &'a Access,
    pub near: &'a Near,
    pub limits: &'a Limits,
    pub streams: Option<&'a mut Streams>,
    pub device: Option<&'a mut Device>,
    pub budget: Option<&'a mut Budget>,
}

/// `struct fr_probe`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    pub index: u64,
    pub low: u64,
    pub step: u64,
    pub kind: u32,
    pub looked: u32,
    pub hits: u32,
    pub followed: u32,
}

/// `struct fr_issue`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issue {
    pub index: u64,
    pub end: u64,
    pub mark: u64,
    pub window_start: u64,
    pub order: u8,
    pub folios: u8,
    pub broken: u8,
    pub chunks: u8,
    pub cut_async: u32,
    pub again_end: u64,
    pub again_size: u32,
    pub again_async: u32,
}

/// `struct fr_folio`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folio {
    pub index: u64,
    pub order: u8,
    pub marked: u8,
    pub starts_request: u8,
    pub reserved: [u8; 5],
}

/// The C functions, as in `core/core.h`; `&T` and `&mut T` are passed as `T *`.
mod raw {
    use super::*;

    unsafe extern "C" {
        pub fn foreread_open(state: *mut State, limits: *const Limits);
        pub fn foreread_advise(state: *mut State, limits: *const Limits, advice: u32);
        pub fn foreread_seek(state: *mut State);
        pub fn foreread_read_done(state: *mut State, end_bytes: u64);
        pub fn foreread_fault_mapped(state: *mut State, pages: u64);
        pub fn foreread_feedback(policy: u32, state: *mut State, kind: u32, pages: u64);
        pub fn foreread_policy_looks(policy: u32) -> u32;
        pub fn foreread_linux_rules(policy: u32) -> u32;
        pub fn foreread_linux_quirks(policy: u32) -> u32;
        pub fn foreread_policy_sees(policy: u32) -> u32;
        pub fn foreread_policy_remembers(policy: u32) -> u32;
        pub fn foreread_waited(policy: u32, call: *const Call<'_>, waited_ns: u64, asked: u32);
        pub fn foreread_issued(
            policy: u32,
            streams: *mut Streams,
            thread: u32,
            pages: u64,
            read_pages: u64,
        );
        pub fn foreread_device_turns(device: *mut Device);
        pub fn foreread_device_done(device: *mut Device, done: *const Done);
        pub fn foreread_budget_merge(
            budget: *mut Budget,
            before: *const Budget,
            after: *const Budget,
        );
        pub fn foreread_device_even_pages(device: *const Device, alone: u32) -> u32;
        pub fn foreread_decision_window(
            decision: *const Decision,
            limits: *const Limits,
            number: u32,
            window: *mut Window,
        ) -> u32;
        pub fn foreread_wants(
            policy: u32,
            state: *const State,
            access: *const Access,
            limits: *const Limits,
            wants: *mut Wants,
        );
        pub fn foreread_decide(policy: u32, call: *const Call<'_>, decision: *mut Decision);
        pub fn foreread_probe_begin(
            probe: *mut Probe,
            wants: *const Wants,
            near: *const Near,
            index: u64,
        );
        pub fn foreread_probe_next(probe: *const Probe, page: *mut u64) -> u32;
        pub fn foreread_probe_answer(probe: *mut Probe, read: u32);
        pub fn foreread_probe_end(probe: *const Probe, near: *mut Near);
        pub fn foreread_issue_begin(
            issue: *mut Issue,
            window: *const Window,
            limits: *const Limits,
        );
        pub fn foreread_issue_next(issue: *mut Issue, folio: *mut Folio) -> u32;
        pub fn foreread_issue_refuse(issue: *mut Issue, folio: *const Folio);
        pub fn foreread_capacity_cap_pages(capacity_bytes: u64) -> u32;
        pub fn foreread_device_default_pages(
            current_pages: u32,
            io_opt_bytes: u64,
            max_sectors_pages: u32,
            rotational: u32,
        ) -> u32;
        pub fn foreread_around_max_pages(memory_pages: u64) -> u32;
        pub fn foreread_policy_name(policy: u32) -> *const c_char;
        pub fn foreread_reason_name(reason: u32) -> *const c_char;
        #[cfg(test)]
        pub fn foreread_layout(item: u32) -> u32;
    }
}

/// Functions whose every argument is a number or a reference.
macro_rules! safe {
    ($($name:ident = $raw:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(pub fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the pointers come from references, and the function is total; see above.
            unsafe { raw::$raw($($argument),*) }
        })*
    };
}

safe! {
    open = foreread_open(state: &mut State, limits: &Limits);
    advise = foreread_advise(state: &mut State, limits: &Limits, advice: u32);
    seek = foreread_seek(state: &mut State);
    read_done = foreread_read_done(state: &mut State, end_bytes: u64);
    fault_mapped = foreread_fault_mapped(state: &mut State, pages: u64);
    feedback = foreread_feedback(policy: u32, state: &mut State, kind: u32, pages: u64);
    policy_looks = foreread_policy_looks(policy: u32) -> u32;
    linux_rules = foreread_linux_rules(policy: u32) -> u32;
    linux_quirks = foreread_linux_quirks(policy: u32) -> u32;
    policy_sees = foreread_policy_sees(policy: u32) -> u32;
    policy_remembers = foreread_policy_remembers(policy: u32) -> u32;
    waited = foreread_waited(policy: u32, call: &Call<'_>, waited_ns: u64, asked: u32);
    issued = foreread_issued(
        policy: u32, streams: &mut Streams, thread: u32, pages: u64, read_pages: u64
    );
    device_turns = foreread_device_turns(device: &mut Device);
    device_done = foreread_device_done(device: &mut Device, done: &Done);
    budget_merge = foreread_budget_merge(budget: &mut Budget, before: &Budget, after: &Budget);
    device_even_pages = foreread_device_even_pages(device: &Device, alone: u32) -> u32;
    probe_begin = foreread_probe_begin(
        probe: &mut Probe, wants: &Wants, near: &Near, index: u64
    );
    probe_next = foreread_probe_next(probe: &Probe, page: &mut u64) -> u32;
    probe_answer = foreread_probe_answer(probe: &mut Probe, read: u32);
    probe_end = foreread_probe_end(probe: &Probe, near: &mut Near);
    issue_begin = foreread_issue_begin(issue: &mut Issue, window: &Window, limits: &Limits);
    issue_next = foreread_issue_next(issue: &mut Issue, folio: &mut Folio) -> u32;
    issue_refuse = foreread_issue_refuse(issue: &mut Issue, folio: &Folio);
    capacity_cap_pages = foreread_capacity_cap_pages(capacity_bytes: u64) -> u32;
    device_default_pages = foreread_device_default_pages(
        current_pages: u32, io_opt_bytes: u64, max_sectors_pages: u32, rotational: u32
    ) -> u32;
    around_max_pages = foreread_around_max_pages(memory_pages: u64) -> u32;
}

/// One of the windows of a decision, by number; `None` beyond the last.
pub fn decision_window(decision: &Decision, limits: &Limits, number: u32) -> Option<Window> {
    let mut window = MaybeUninit::uninit();
    // SAFETY: as above; the core fills the window when it returns 1.
    unsafe {
        let there = raw::foreread_decision_window(decision, limits, number, window.as_mut_ptr());
        (there != 0).then(|| window.assume_init())
    }
}

/// Facts about the page cache that a policy needs for this access.
pub fn wants(policy: u32, state: &State, access: &Access, limits: &Limits) -> Wants {
    let mut wants = MaybeUninit::uninit();
    // SAFETY: as above; the core writes every field of the struct that it is given to fill.
    unsafe {
        raw::foreread_wants(policy, state, access, limits, wants.as_mut_ptr());
        wants.assume_init()
    }
}

/// The decision of a policy. It is filled in place: a decision is 96 bytes, and copying them just
/// after they were written in small pieces costs more than deciding.
pub fn decide(policy: u32, call: &Call<'_>) -> Decision {
    let mut decision = MaybeUninit::uninit();
    // SAFETY: as above. The reason that it writes is one of its constants on every input (fuzz/core
    // checks it). These are the constants of `Reason` (a test compares them).
    unsafe {
        raw::foreread_decide(policy, call, decision.as_mut_ptr());
        decision.assume_init()
    }
}

/// A decision from its bytes; `None` for another number of them, or a reason that there isn't.
pub fn decision_from(bytes: &[u8]) -> Option<Decision> {
    let reason = *bytes.get(std::mem::offset_of!(Decision, reason))?;
    if bytes.len() != size_of::<Decision>() || usize::from(reason) >= Reason::ALL.len() {
        return None;
    }
    // SAFETY: there are enough bytes, which need not be aligned; all fields but the reason are
    // numbers, and that is one of `Reason`.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// An access from the bytes of its `struct fr_access`; `None` when there are not as many, or it is
/// of no kind.
pub fn access_from(bytes: &[u8]) -> Option<Access> {
    let kind = *bytes.get(std::mem::offset_of!(Access, kind))?;
    if bytes.len() != size_of::<Access>() || usize::from(kind) >= Kind::ALL.len() {
        return None;
    }
    // SAFETY: there are enough bytes, which need not be aligned; all fields but the kind are
    // numbers, and that is one of `Kind`.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

#[cfg(test)]
safe! {
    layout = foreread_layout(item: u32) -> u32;
}

/// A type of the core that has no padding, so that all its bytes may be looked at.
///
/// # Safety
/// The type must be `repr(C)`, and the sizes of its fields must add up to its own.
pub unsafe trait Plain: Copy {
    /// Its bytes, as C and BPF see them.
    fn bytes(&self) -> &[u8] {
        let start = std::ptr::from_ref(self).cast();
        // SAFETY: the bytes of a value that is borrowed as long as they are; none is padding.
        unsafe { std::slice::from_raw_parts(start, size_of::<Self>()) }
    }
}

/// A [`Plain`] type all of whose bits are values.
///
/// # Safety
/// Every pattern of bits must be a value of the type.
pub unsafe trait AnyBits: Plain {
    /// A value from its bytes; `None` when there are not as many as it has.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: there are enough bytes, which need not be aligned, and any are a value.
        Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
    }
}

// SAFETY: `repr(C)` and without padding: core/foreread/types.h asserts their sizes, and the test
// below compares.
unsafe impl Plain for State {}
// SAFETY: as above.
unsafe impl Plain for Access {}
// SAFETY: as above.
unsafe impl Plain for Streams {}
// SAFETY: numbers only.
unsafe impl AnyBits for Streams {}
// SAFETY: as above.
unsafe impl Plain for Done {}
// SAFETY: numbers only.
unsafe impl AnyBits for Done {}
// SAFETY: as above.
unsafe impl Plain for Device {}
// SAFETY: numbers only.
unsafe impl AnyBits for Device {}
// SAFETY: as above.
unsafe impl Plain for Budget {}
// SAFETY: numbers only.
unsafe impl AnyBits for Budget {}
// SAFETY: as above.
unsafe impl Plain for Limits {}
// SAFETY: numbers only.
unsafe impl AnyBits for Limits {}
// SAFETY: as above.
unsafe impl Plain for Decision {}
// SAFETY: as above.
unsafe impl Plain for Near {}
// SAFETY: numbers only.
unsafe impl AnyBits for Near {}
// SAFETY: numbers only.
unsafe impl AnyBits for State {}

fn text(name: *const c_char) -> Option<&'static str> {
    // SAFETY: the core returns null or a string constant, which ends in 0 and lives forever.
    let name = unsafe { (!name.is_null()).then(|| CStr::from_ptr(name)) }?;
    name.to_str().ok()
}

pub fn policy_name(policy: u32) -> Option<&'static str> {
    // SAFETY: a number in, a pointer to a constant or null out.
    text(unsafe { raw::foreread_policy_name(policy) })
}

pub fn reason_name(reason: u32) -> Option<&'static str> {
    // SAFETY: a number in, a pointer to a constant or null out.
    text(unsafe { raw::foreread_reason_name(reason) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_mirrors_have_the_layout_of_c() {
        let mirrors = [
            size_of::<State>(),
            offset_of!(State, prev_end_bytes),
            offset_of!(State, aged_pages),
            offset_of!(State, ra_pages),
            offset_of!(State, mmap_miss),
            offset_of!(State, flags),
            size_of::<Access>(),
            offset_of!(Access, req_pages),
            offset_of!(Access, hit_pages),
            offset_of!(Access, time_ns),
            offset_of!(Access, kind),
            offset_of!(Access, flags),
            offset_of!(Access, thread),
            size_of::<Limits>(),
            offset_of!(Limits, aged_pages),
            offset_of!(Limits, ra_pages),
            offset_of!(Limits, pages_max),
            offset_of!(Limits, min_pages),
            offset_of!(Limits, quirks),
            size_of::<Wants>(),
            offset_of!(Wants, after_from),
            offset_of!(Wants, history_max),
            offset_of!(Wants, probing),
            size_of::<Near>(),
            offset_of!(Near, after_pages),
            offset_of!(Near, history_pages),
            offset_of!(Near, sampled_hits),
            size_of::<Window>(),
            offset_of!(Window, read_pages),
            offset_of!(Window, flags),
            size_of::<Decision>(),
            offset_of!(Decision, retain_start),
            offset_of!(Decision, next_look),
            offset_of!(Decision, step_pages),
            offset_of!(Decision, saw_pages),
            offset_of!(Decision, repeats),
            offset_of!(Decision, reason),
            size_of::<Call<'_>>(),
            offset_of!(Call<'_>, streams),
            offset_of!(Call<'_>, device),
            offset_of!(Call<'_>, budget),
            size_of::<Streams>(),
            size_of::<Done>(),
            offset_of!(Done, pages),
            offset_of!(Done, first),
            offset_of!(Done, left),
            offset_of!(Done, next),
            size_of::<Device>(),
            offset_of!(Device, latency_ns),
            offset_of!(Device, page_ns),
            offset_of!(Device, demand_ns),
            offset_of!(Device, wait_ns),
            offset_of!(Device, requests),
            size_of::<Budget>(),
            offset_of!(Budget, ahead_pages),
            size_of::<Probe>(),
            offset_of!(Probe, kind),
            size_of::<Issue>(),
            offset_of!(Issue, order),
            offset_of!(Issue, again_end),
            size_of::<Folio>(),
            offset_of!(Folio, starts_request),
        ];
        for (item, mirror) in (0u32..).zip(mirrors) {
            assert_eq!(layout(item) as usize, mirror, "item {item}");
        }
        assert_eq!(
            layout(mirrors.len() as u32),
            u32::MAX,
            "items of C left over"
        );
    }
}
