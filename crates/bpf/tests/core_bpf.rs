// SPDX-License-Identifier: MIT OR Apache-2.0
//! The policy core inside the running kernel: the verifier accepts it unchanged, and it decides
//! there as it does on the host. Needs root and BPF; says `skipped:` where it is refused.

use std::mem::MaybeUninit;

use foreread_core::policy::{
    Access, Budget, Decision, Device, Kind, Limits, Policy, State, Streams,
};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{OpenObject, ProgramInput, ProgramMut};

#[path = "../../core/tests/support/golden.rs"]
mod golden;
#[path = "../../core/tests/support/sequence.rs"]
mod sequence;

#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    unused_qualifications,
    dead_code
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/core_test.skel.rs"));
}
use sequence::{Core, Host, Told};
use skeleton::{CoreTestSkel, CoreTestSkelBuilder};

/// The loaded programs, or `None` and a line that says why.
fn loaded(object: &mut MaybeUninit<OpenObject>) -> Option<CoreTestSkel<'_>> {
    let skel = CoreTestSkelBuilder::default()
        .open(object)
        .expect("it opens");
    match skel.load() {
        Ok(skel) => Some(skel),
        Err(error) => {
            // The machine refuses with EPERM; the verifier rejects with EACCES or EINVAL.
            let text = format!("{error:#}");
            assert!(
                text.contains("os error 1)"),
                "the verifier rejects the core: {text}"
            );
            println!("skipped: BPF is refused here: {text}");
            None
        }
    }
}

/// Puts bytes into a variable of the program.
fn put<T>(variable: &mut T, bytes: &[u8]) {
    assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: the variable is plain data of C, as long as the bytes, and any bits are a value.
    unsafe {
        let start = std::ptr::from_mut(variable).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
    }
}

/// The bytes of a variable of the program.
fn bytes_of<T>(variable: &T) -> &[u8] {
    let start = std::ptr::from_ref(variable).cast();
    // SAFETY: plain data of C without padding, borrowed as long as the bytes.
    unsafe { std::slice::from_raw_parts(start, size_of::<T>()) }
}

fn run(program: &ProgramMut<'_>) -> u32 {
    let ran = program.test_run(ProgramInput::default()).expect("it runs");
    ran.return_value
}

#[test]
fn the_core_decides_in_the_kernel_as_on_the_host() {
    let mut object = MaybeUninit::uninit();
    let Some(mut skel) = loaded(&mut object) else {
        return;
    };
    let golden = golden::read();
    assert!(golden.len() > 200, "{} golden decisions", golden.len());
    for golden in golden {
        let test = &mut skel.maps.bss_data.as_mut().expect("variables").test;
        test.policy = golden.policy as u32;
        put(&mut test.state, golden.state.bytes());
        put(&mut test.access, golden.access.bytes());
        put(&mut test.near, golden.near.bytes());
        put(&mut test.limits, golden.limits.bytes());
        run(&skel.progs.fr_core_wants);
        let reason = run(&skel.progs.fr_core_decide);
        run(&skel.progs.fr_core_issue_begin);

        let test = &skel.maps.bss_data.as_ref().expect("variables").test;
        let line = golden.text();
        let decided = Decision::from_bytes(bytes_of(&test.decision)).expect("96 bytes");
        let after = State::from_bytes(bytes_of(&test.state)).expect("64 bytes");
        assert_eq!(golden::outcome(&decided, &after), golden.outcome, "{line}");
        assert_eq!(reason, decided.reason as u32, "{line}");
        let wants = golden
            .policy
            .wants(&golden.state, &golden.access, &golden.limits);
        assert_eq!(test.wants.before_max, wants.before_max, "{line}");
        assert_eq!(test.wants.after_max, wants.after_max, "{line}");
        let Some(window) = decided.windows().first() else {
            continue;
        };
        for here in window.folios(&golden.limits).take(20) {
            assert_eq!(run(&skel.progs.fr_core_issue_next), 1, "{line}");
            let there = &skel.maps.bss_data.as_ref().expect("variables").test.folio;
            let there = (there.index, there.order, there.marked != 0);
            assert_eq!((here.index, here.order, here.marked), there, "{line}");
        }
    }
}

/// The core in the kernel, as sequences see it.
struct Kernel<'a, 'b> {
    skel: &'a mut CoreTestSkel<'b>,
}

/// Variables that the programs share with user space.
macro_rules! shared {
    ($kernel:expr) => {
        $kernel.skel.maps.bss_data.as_mut().expect("variables").test
    };
}

impl Core for Kernel<'_, '_> {
    fn open(&mut self, policy: Policy, limits: &Limits) {
        let test = &mut shared!(self);
        test.policy = policy as u32;
        put(&mut test.limits, limits.bytes());
        put(&mut test.state, State::open(limits).bytes());
        put(&mut test.streams, Streams::new().bytes());
        put(&mut test.device, Device::default().bytes());
        put(&mut test.budget, Budget::default().bytes());
    }

    fn decide(&mut self, access: &Access) -> Decision {
        put(&mut shared!(self).access, access.bytes());
        let reason = run(&self.skel.progs.fr_core_decide);
        let decided = Decision::from_bytes(bytes_of(&shared!(self).decision));
        let decided = decided.expect("a decision");
        assert_eq!(reason, decided.reason as u32);
        decided
    }

    fn tell(&mut self, told: &Told) {
        let test = &mut shared!(self);
        let program = match *told {
            Told::Done(done) => {
                put(&mut test.done, done.bytes());
                &self.skel.progs.fr_core_device_done
            }
            Told::Waited {
                thread,
                waited_ns,
                asked,
            } => {
                let mut access = Access::new(Kind::ReadLook, 0, 1);
                access.thread = thread;
                put(&mut test.access, access.bytes());
                (test.waited_ns, test.asked) = (waited_ns, asked.into());
                &self.skel.progs.fr_core_waited
            }
            Told::Issued {
                thread,
                pages,
                read_pages,
            } => {
                let mut access = Access::new(Kind::ReadLook, 0, 1);
                access.thread = thread;
                put(&mut test.access, access.bytes());
                (test.pages, test.read_pages) = (pages, read_pages);
                &self.skel.progs.fr_core_issued
            }
            Told::Feedback(kind, pages) => {
                (test.kind, test.pages) = (kind as u32, pages);
                &self.skel.progs.fr_core_feedback
            }
        };
        run(program);
    }

    fn memory(&self) -> Vec<u8> {
        let test = &self.skel.maps.bss_data.as_ref().expect("variables").test;
        [
            bytes_of(&test.state),
            bytes_of(&test.streams),
            bytes_of(&test.device),
            bytes_of(&test.budget),
        ]
        .concat()
    }
}

#[test]
fn sequences_come_to_the_same_in_the_kernel() {
    let mut object = MaybeUninit::uninit();
    let Some(mut skel) = loaded(&mut object) else {
        return;
    };
    for policy in sequence::POLICIES {
        let there = sequence::play(policy, &mut Kernel { skel: &mut skel });
        let here = sequence::play(policy, &mut Host::new());
        // The remembered state is compared, too: it decides later answers.
        for (number, (there, here)) in there.iter().zip(&here).enumerate() {
            assert!(there == here, "{policy}: memory after sequence {number}");
        }
    }
}

#[test]
fn every_policy_is_in_the_golden_decisions_or_the_sequences() {
    let golden = golden::read();
    for policy in Policy::ALL {
        let is_golden = golden.iter().any(|golden| golden.policy == policy);
        assert!(
            is_golden || sequence::POLICIES.contains(&policy),
            "{policy}"
        );
    }
}
