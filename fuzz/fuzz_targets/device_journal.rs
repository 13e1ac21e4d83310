// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary text as the journal of `apply`, and as the book of probes. The journal comes
//! back from its own text, and changes that begin with it end: what is set is what its entry says.
#![no_main]

use std::cell::Cell;
use std::rc::Rc;

use foreread_device::{
    Access, DeviceNumber, Identity, Journal, KeepError, Keeper, Knob, KnobError, Knobs,
    MeasuredBook, Origin, Wish, apply, roll_back,
};
use libfuzzer_sys::fuzz_target;

/// One device: all numbers lead to it.
struct Machine {
    identity: Identity,
    kib: Rc<Cell<u64>>,
}

struct Setting(Identity, Rc<Cell<u64>>);

impl Knobs for Machine {
    type Knob = Setting;

    fn open(&mut self, number: DeviceNumber, _: Access) -> Result<Option<Setting>, KnobError> {
        let setting = || Setting(self.identity.clone(), Rc::clone(&self.kib));
        Ok((number.minor % 2 == 0).then(setting))
    }
}

impl Knob for Setting {
    fn identity(&self) -> &Identity {
        &self.0
    }

    fn read_kib(&mut self) -> Result<u64, KnobError> {
        Ok(self.1.get())
    }

    fn write_kib(&mut self, kib: u64) -> Result<(), KnobError> {
        self.1.set(kib);
        Ok(())
    }
}

struct Forgetful;

impl Keeper for Forgetful {
    fn keep(&mut self, journal: &Journal) -> Result<(), KeepError> {
        comes_back(journal);
        Ok(())
    }
}

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    if let Ok(book) = MeasuredBook::from_json(&text) {
        let written = book.to_json().expect("it is JSON");
        MeasuredBook::from_json(&written).expect("its own text can be read");
    }
    let Ok(mut journal) = Journal::from_json(&text) else {
        return;
    };
    comes_back(&journal);
    let numbers: Vec<DeviceNumber> = journal.open().map(|entry| entry.number).collect();
    let Some(entry) = journal.open().next() else {
        return;
    };
    let wish = Wish {
        number: entry.number,
        identity: entry.identity.clone(),
        kib: 4096,
        reason: "fuzz".to_owned(),
        origin: Origin::Person,
        take_over: numbers.len() % 2 == 0,
    };
    let mut machine = Machine {
        identity: entry.identity.clone(),
        kib: Rc::new(Cell::new(entry.wanted_kib())),
    };
    let kept = "this keeper keeps all";
    apply(&mut journal, &mut machine, &mut Forgetful, &[wish], 1).expect(kept);
    let undone = roll_back(&mut journal, &mut machine, &mut Forgetful, &numbers, 2).expect(kept);
    assert_eq!(undone.len(), numbers.len());
});

fn comes_back(journal: &Journal) {
    let text = journal.to_json().expect("it is JSON");
    assert_eq!(Journal::from_json(&text).as_ref().ok(), Some(journal));
}
