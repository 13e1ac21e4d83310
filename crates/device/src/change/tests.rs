// SPDX-License-Identifier: MIT OR Apache-2.0
//! A modelled machine, whose devices vanish and are replaced, whose administrator sets values, and
//! on which a change may be cut short at any point.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

const DEFAULT_KIB: u64 = 128;

/// One device, and who set its value last.
#[derive(Clone, Debug)]
struct Device {
    sequence: u64,
    kib: u64,
    /// The last value that wasn't ours.
    theirs_kib: u64,
    ours: bool,
}

#[derive(Debug, Default)]
struct State {
    devices: BTreeMap<u32, Device>,
    appeared: u64,
    boot: u64,
    kept: Journal,
    /// Writes and keeps that still succeed.
    lives: u64,
}

impl State {
    fn appear(&mut self, minor: u32) {
        self.appeared += 1;
        let device = Device {
            sequence: self.appeared,
            kib: DEFAULT_KIB,
            theirs_kib: DEFAULT_KIB,
            ours: false,
        };
        self.devices.insert(minor, device);
    }

    fn live(&mut self) -> bool {
        self.lives = self.lives.saturating_sub(1);
        self.lives > 0
    }
}

#[derive(Clone)]
struct Machine(Rc<RefCell<State>>);

struct OpenKnob {
    machine: Machine,
    minor: u32,
    sequence: u64,
    identity: Identity,
}

fn number(minor: u32) -> DeviceNumber {
    DeviceNumber { major: 8, minor }
}

impl Machine {
    fn new(devices: u32) -> Self {
        let mut state = State {
            lives: u64::MAX,
            ..State::default()
        };
        (0..devices).for_each(|minor| state.appear(minor));
        Self(Rc::new(RefCell::new(state)))
    }

    fn identity(&self, minor: u32) -> Option<Identity> {
        let state = self.0.borrow();
        let device = state.devices.get(&minor)?;
        Some(Identity {
            name: format!("sd{minor}"),
            disk_sequence: Some(device.sequence),
            boot: Some(state.boot.to_string()),
            ..Identity::default()
        })
    }

    fn kib(&self, minor: u32) -> Option<u64> {
        Some(self.0.borrow().devices.get(&minor)?.kib)
    }

    fn set_by_administrator(&self, minor: u32, kib: u64) {
        if let Some(device) = self.0.borrow_mut().devices.get_mut(&minor) {
            device.kib = kib;
            device.theirs_kib = kib;
            device.ours = false;
        }
    }

    fn boot_again(&self) {
        let mut state = self.0.borrow_mut();
        state.boot += 1;
        state.appeared = 0;
        let minors: Vec<u32> = state.devices.keys().copied().collect();
        minors.into_iter().for_each(|minor| state.appear(minor));
    }

    fn wish(&self, minor: u32, kib: u64, origin: Origin) -> Option<Wish> {
        Some(Wish {
            number: number(minor),
            identity: self.identity(minor)?,
            kib,
            reason: "a test".to_owned(),
            origin,
            take_over: false,
        })
    }

    /// As a process of its own: reads the journal, acts, ends.
    fn apply(&self, wishes: &[Wish]) -> Result<Vec<Applied>, KeepError> {
        let mut journal = self.0.borrow().kept.clone();
        apply(
            &mut journal,
            &mut self.clone(),
            &mut self.clone(),
            wishes,
            1,
        )
    }

    fn roll_back(&self, minors: &[u32]) -> Result<Vec<Option<RolledBack>>, KeepError> {
        let mut journal = self.0.borrow().kept.clone();
        let numbers: Vec<DeviceNumber> = minors.iter().map(|minor| number(*minor)).collect();
        roll_back(
            &mut journal,
            &mut self.clone(),
            &mut self.clone(),
            &numbers,
            2,
        )
    }

    fn kept(&self) -> Journal {
        self.0.borrow().kept.clone()
    }
}

impl Knobs for Machine {
    type Knob = OpenKnob;

    fn open(&mut self, number: DeviceNumber, _: Access) -> Result<Option<OpenKnob>, KnobError> {
        let Some(identity) = self.identity(number.minor) else {
            return Ok(None);
        };
        Ok(Some(OpenKnob {
            machine: self.clone(),
            minor: number.minor,
            sequence: identity.disk_sequence.unwrap_or(0),
            identity,
        }))
    }
}

impl OpenKnob {
    fn device<T>(&self, act: impl FnOnce(&mut Device) -> T) -> Result<T, KnobError> {
        let mut state = self.machine.0.borrow_mut();
        let device = state.devices.get_mut(&self.minor);
        let device = device.filter(|device| device.sequence == self.sequence);
        device
            .map(act)
            .ok_or(KnobError("no such device".to_owned()))
    }
}

impl Knob for OpenKnob {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn read_kib(&mut self) -> Result<u64, KnobError> {
        self.device(|device| device.kib)
    }

    fn write_kib(&mut self, kib: u64) -> Result<(), KnobError> {
        if !self.machine.0.borrow_mut().live() {
            return Err(KnobError("dead".to_owned()));
        }
        self.device(|device| {
            device.kib = kib;
            device.ours = kib != device.theirs_kib;
        })
    }
}

impl Keeper for Machine {
    fn keep(&mut self, journal: &Journal) -> Result<(), KeepError> {
        let mut state = self.0.borrow_mut();
        if !state.live() {
            return Err(KeepError("dead".to_owned()));
        }
        // As it would be read again.
        let text = journal.to_json().expect("a journal has a form in JSON");
        state.kept = Journal::from_json(&text).expect("and is read again");
        Ok(())
    }
}

#[test]
fn a_change_is_made_noted_and_undone() {
    let machine = Machine::new(2);
    let wish = machine.wish(1, 512, Origin::Advice).unwrap();
    let changed = Applied::Changed {
        from_kib: 128,
        to_kib: 512,
    };
    assert_eq!(
        machine.apply(std::slice::from_ref(&wish)),
        Ok(vec![changed])
    );
    assert_eq!(machine.apply(&[wish]), Ok(vec![Applied::AlreadySo]));
    let kept = machine.kept();
    let entry = kept.open_of(number(1)).expect("it is in the journal");
    assert_eq!((entry.original_kib, entry.steps.len()), (128, 1));
    let restored = RolledBack::Restored {
        from_kib: 512,
        to_kib: 128,
    };
    assert_eq!(machine.roll_back(&[0, 1]), Ok(vec![None, Some(restored)]));
    assert_eq!(machine.kib(1), Some(128));
    assert_eq!(machine.kept().open().count(), 0);
}

#[test]
fn what_somebody_else_has_set_stays() {
    let machine = Machine::new(1);
    let wish = |kib| machine.wish(0, kib, Origin::Advice).unwrap();
    machine.apply(&[wish(512)]).unwrap();
    machine.set_by_administrator(0, 64);
    let foreign = Applied::Foreign { now_kib: 64 };
    assert_eq!(machine.apply(&[wish(1024)]), Ok(vec![foreign]));
    let mut taken = wish(1024);
    taken.take_over = true;
    machine.apply(&[taken]).unwrap();
    // The foreign value is the original value of the next change.
    machine.roll_back(&[0]).unwrap();
    assert_eq!(machine.kib(0), Some(64));

    machine.apply(&[wish(512)]).unwrap();
    machine.set_by_administrator(0, 32);
    let foreign = RolledBack::Foreign { now_kib: 32 };
    assert_eq!(machine.roll_back(&[0]), Ok(vec![Some(foreign)]));
    assert_eq!(machine.kib(0), Some(32));
}

#[test]
fn advice_does_not_change_what_a_person_named() {
    let machine = Machine::new(1);
    let person = machine.wish(0, 64, Origin::Person).unwrap();
    machine.apply(&[person]).unwrap();
    for origin in [Origin::Advice, Origin::Udev] {
        let wish = machine.wish(0, 512, origin).unwrap();
        let manual = Applied::Manual { now_kib: 64 };
        assert_eq!(machine.apply(&[wish]), Ok(vec![manual]));
    }
    let again = machine.wish(0, 256, Origin::Person).unwrap();
    machine.apply(&[again]).unwrap();
    machine.roll_back(&[0]).unwrap();
    assert_eq!(machine.kib(0), Some(128));
}

#[test]
fn a_device_that_was_replaced_is_left_alone() {
    let machine = Machine::new(1);
    let wish = machine.wish(0, 512, Origin::Advice).unwrap();
    machine.0.borrow_mut().appear(0);
    let gone = Applied::Gone { replaced: true };
    assert_eq!(machine.apply(&[wish]), Ok(vec![gone]));
    assert_eq!(machine.kib(0), Some(128));

    let wish = machine.wish(0, 512, Origin::Advice).unwrap();
    machine.apply(&[wish]).unwrap();
    machine.0.borrow_mut().appear(0);
    let gone = RolledBack::Gone { replaced: true };
    assert_eq!(machine.roll_back(&[0]), Ok(vec![Some(gone)]));
    assert_eq!(machine.kib(0), Some(128));
}

#[test]
fn a_failed_write_leaves_nothing_in_the_journal() {
    let machine = Machine::new(1);
    let wish = machine.wish(0, 512, Origin::Advice).unwrap();
    // The journal is kept once, the write fails, and so does keeping it again.
    machine.0.borrow_mut().lives = 2;
    assert!(machine.apply(&[wish]).is_err());
    assert_eq!(machine.kept().open().count(), 1);
    machine.0.borrow_mut().lives = u64::MAX;
    assert_eq!(machine.apply(&[]), Ok(Vec::new()));
    assert_eq!(machine.kept().open().count(), 0);
}

/// Something that happens on a machine.
#[derive(Clone, Debug)]
enum Event {
    Apply(Vec<(u32, u64, Origin)>),
    RollBack(Vec<u32>),
    Administrator(u32),
    Replaced(u32),
    Vanished(u32),
    Boot,
}

fn event() -> impl Strategy<Value = (Event, u64)> {
    let origin = prop_oneof![
        Just(Origin::Advice),
        Just(Origin::Person),
        Just(Origin::Udev)
    ];
    let wish = (0u32..4, 1u64..6, origin).prop_map(|(minor, size, o)| (minor, 256 << size, o));
    let event = prop_oneof![
        6 => prop::collection::vec(wish, 1..4).prop_map(Event::Apply),
        4 => prop::collection::vec(0u32..4, 1..4).prop_map(Event::RollBack),
        2 => (0u32..4).prop_map(Event::Administrator),
        1 => (0u32..4).prop_map(Event::Replaced),
        1 => (0u32..4).prop_map(Event::Vanished),
        1 => Just(Event::Boot),
    ];
    // Half of the processes are killed after some writes.
    (event, prop_oneof![Just(u64::MAX), 1u64..8])
}

proptest! {
    #[test]
    fn whatever_happens_a_rollback_brings_back_what_was_not_ours(
        events in prop::collection::vec(event(), 1..40)
    ) {
        let machine = Machine::new(4);
        for (at, (event, lives)) in events.into_iter().enumerate() {
            machine.0.borrow_mut().lives = lives;
            match event {
                Event::Apply(wishes) => {
                    let wishes: Vec<Wish> = wishes
                        .into_iter()
                        .filter_map(|(minor, kib, origin)| machine.wish(minor, kib, origin))
                        .collect();
                    // It may be killed.
                    let _ = machine.apply(&wishes);
                }
                Event::RollBack(minors) => {
                    let _ = machine.roll_back(&minors);
                }
                // Odd, so never one of ours.
                Event::Administrator(minor) => {
                    machine.set_by_administrator(minor, 2 * at as u64 + 1);
                }
                Event::Replaced(minor) => machine.0.borrow_mut().appear(minor),
                Event::Vanished(minor) => {
                    machine.0.borrow_mut().devices.remove(&minor);
                }
                Event::Boot => machine.boot_again(),
            }
            // Values that somebody else has set are never changed, except by a wish that takes
            // over.
            for device in machine.0.borrow().devices.values() {
                prop_assert!(device.ours || device.kib == device.theirs_kib, "{device:?}");
            }
        }
        machine.0.borrow_mut().lives = u64::MAX;
        machine.roll_back(&[0, 1, 2, 3]).unwrap();
        for device in machine.0.borrow().devices.values() {
            prop_assert_eq!(device.kib, device.theirs_kib);
        }
        prop_assert_eq!(machine.kept().open().count(), 0);
    }
}
