// SPDX-License-Identifier: MIT OR Apache-2.0
//! What made processes suspect, in a log of `watch`, found again.

use foreread_core::grouped;
use foreread_watch::detect::Suspicion;
use foreread_watch::detect_call::{DetectCall, Detectors};
use serde_json::{Value, json};

use super::replay_call::{Differs, Lost, Made};
use crate::output::counted;
use crate::text::escaped;

/// The detectors of walks.
#[derive(Default)]
pub(super) struct Detection {
    detectors: Detectors,
    /// Of the last call.
    number: u64,
    pub calls: u64,
    suspicions: u64,
}

impl Detection {
    pub fn make(&mut self, call: &DetectCall) -> Made {
        let expected = self.number + 1;
        let which = |number: u64| format!("call {number} of the detectors");
        if call.number != expected {
            return Made::Lost(Lost {
                which: which(expected),
                number: expected,
            });
        }
        self.number = expected;
        self.calls += 1;
        let made = self.detectors.make(call);
        self.suspicions += u64::from(made.is_some());
        let logged = call.what.suspicion();
        match made.as_ref() == logged {
            true => Made::Same,
            false => Made::Other(Differs {
                which: format!("{}, process {}", which(call.number), call.process),
                number: call.number,
                logged: words(logged),
                made: words(made.as_ref()),
            }),
        }
    }

    /// Somebody else watches from here on.
    pub fn start(&mut self) {
        self.detectors = Detectors::default();
        self.number = 0;
    }

    pub fn people(&self) -> String {
        let suspicions = counted(self.suspicions, "suspicion", "suspicions");
        let calls = grouped(self.calls);
        format!("{suspicions} in {calls} calls of the detectors")
    }

    pub fn document(&self) -> Value {
        json!({ "calls": self.calls, "suspicions": self.suspicions })
    }
}

fn words(suspicion: Option<&Suspicion>) -> String {
    let Some(suspicion) = suspicion else {
        return "suspects nothing".to_owned();
    };
    let passed = suspicion.passed.iter().map(|passed| {
        let children = passed.children.iter().map(|name| escaped(name));
        let children = children.collect::<Vec<_>>().join(", ");
        format!("{children} in {}", escaped(&passed.directory))
    });
    format!(
        "suspects a walk through {}, by {}",
        escaped(&suspicion.directory),
        passed.collect::<Vec<_>>().join(", and ")
    )
}
