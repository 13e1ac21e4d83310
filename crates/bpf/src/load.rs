// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the programs of an object as far as the running kernel takes them.
//!
//! Input: the wanted hooks, which of them are optional, and a way to open the object. Output: the
//! loaded object, the program that serves each hook, and the missing hooks with their reasons. If
//! the kernel refuses a program, another one for the same hook takes its place, or it is left out.
//! The reason of a refusal is taken from the verifier's own log. It guarantees that every wanted
//! hook is either served or named.
//!
//! libbpf loads all programs of an object or none, and an object that failed can't be used again.
//! So after each refusal the object is opened anew without the refused program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use foreread_sys::kernel::{BTF, kernel_release};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, Object, ProgramMut};

use super::btf::{KernelTypes, Types};
use super::error::{BpfError, lacking_here, refused};
use super::hooks::{Offered, Place, hook_of};
use super::missing_hook::MissingHook;
use super::survey;
use super::verifier_log::{Hindrance, Refusal, listening};

/// A hook that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    hook: &'static str,
    /// Events that aren't seen without it; `None` when nothing works without it.
    loss: Option<&'static str>,
}

/// A hook without which nothing works.
pub const fn needs(hook: &'static str) -> Wanted {
    Wanted { hook, loss: None }
}

/// An optional hook, and the events that aren't seen without it.
pub const fn likes(hook: &'static str, loss: &'static str) -> Wanted {
    Wanted {
        hook,
        loss: Some(loss),
    }
}

/// Which program serves each hook here.
#[derive(Clone, Debug, Default)]
pub struct Served {
    programs: BTreeMap<&'static str, String>,
    /// Optional hooks, each with the events that aren't seen without it.
    losses: BTreeMap<&'static str, &'static str>,
    lacking: Vec<MissingHook>,
}

impl Served {
    /// Events that aren't seen here, with the reasons.
    pub fn lacking(&self) -> &[MissingHook] {
        &self.lacking
    }

    /// Whether a hook is served.
    pub fn has(&self, hook: &str) -> bool {
        self.programs.contains_key(hook)
    }

    /// The program that serves a hook.
    pub fn program<'o>(&self, object: &'o Object, hook: &str) -> Option<ProgramMut<'o>> {
        let name = self.programs.get(hook)?;
        object
            .progs_mut()
            .find(|program| program.name() == name.as_str())
    }

    /// Attaches the programs that serve these hooks, in this order, as far as they are served. The
    /// programs are detached with their links.
    ///
    /// # Errors
    /// [`BpfError`] when the kernel refuses to attach one that can't be done without.
    pub fn attach(&mut self, object: &Object, hooks: &[&str]) -> Result<Vec<Link>, BpfError> {
        let mut links = Vec::new();
        for hook in hooks {
            let Some(program) = self.program(object, hook) else {
                continue;
            };
            match program.attach() {
                Ok(link) => links.push(link),
                Err(error) => self.leave_out(hook, error)?,
            }
        }
        Ok(links)
    }

    /// A program that couldn't be attached, as on kernels that patch no calls into functions.
    fn leave_out(&mut self, hook: &str, error: libbpf_rs::Error) -> Result<(), BpfError> {
        let served = self.programs.remove_entry(hook);
        let loss = self.losses.get(hook);
        let (Some((hook, program)), Some(loss)) = (served, loss) else {
            return Err(refused("attaching a program")(error));
        };
        self.lacking.push(MissingHook {
            hook,
            loss,
            reason: format!("the kernel refused to attach {program}: {error}"),
        });
        Ok(())
    }

    /// All programs that serve a hook.
    pub fn all<'o>(&self, object: &'o Object) -> Vec<ProgramMut<'o>> {
        let names: BTreeSet<&str> = self.programs.values().map(String::as_str).collect();
        let serves = |p: &ProgramMut<'_>| p.name().to_str().is_some_and(|n| names.contains(n));
        object.progs_mut().filter(serves).collect()
    }
}

/// A program of an object.
#[derive(Clone, Debug)]
struct Candidate {
    name: String,
    place: Place,
}

/// How often a load is tried again that a signal interrupted. The verifier ends with `EAGAIN` for a
/// pending signal (`bpf_check`), and libbpf tries five times itself. It was seen in a process of
/// which another thread started programs all the time.
const SIGNALS_MAX: u32 = 20;

/// Loads the programs that serve the wanted hooks; those that are attached to nothing are always
/// loaded. `set` makes the settings that must precede loading.
///
/// # Errors
/// [`BpfError`] when rights or types are missing, or a hook that can't be done without isn't
/// served.
pub fn load<B>(
    wanted: &[Wanted],
    set: impl Fn(&mut B::Output) -> Result<(), BpfError>,
) -> Result<(<B::Output as OpenSkel<'static>>::Output, Served), BpfError>
where
    B: SkelBuilder<'static> + Default,
{
    // Some megabytes, which are looked through once for both.
    let btf = fs::read(BTF).unwrap_or_default();
    let Some(types) = Types::parse(&btf) else {
        return Err(lacking_here().unwrap_or_else(|| BpfError::NoTypes(kernel_release())));
    };
    let used_types = KernelTypes::of(&types);
    let mut offered = None;
    let mut refusals: BTreeMap<String, String> = BTreeMap::new();
    let mut signals_left = SIGNALS_MAX;
    loop {
        let mut opened = open::<B>(used_types.as_ref())?;
        set(&mut opened)?;
        let candidates = candidates(&opened);
        let places = || {
            candidates
                .iter()
                .map(|c| c.place.clone())
                .collect::<Vec<_>>()
        };
        let offered = offered.get_or_insert_with(|| Offered::of(&types, &places()));
        let served = choose(wanted, &candidates, offered, &refusals)?;
        let names: BTreeSet<&str> = served.programs.values().map(String::as_str).collect();
        let programs = opened.open_object_mut().progs_mut();
        for (mut program, candidate) in programs.zip(&candidates) {
            let serves = names.contains(candidate.name.as_str());
            program.set_autoload(candidate.place == Place::None || serves);
            if survey::is_on() {
                program.set_log_level(survey::LOG_STATISTICS);
            }
        }
        let (loaded, heard) = listening(|| opened.load());
        let error = match loaded {
            Ok(skel) => {
                let served_by = candidates
                    .iter()
                    .filter(|c| names.contains(c.name.as_str()));
                let words = served_by.map(|c| (c.name.clone(), c.place.words()));
                survey::note(words, &heard.details);
                return Ok((skel, served));
            }
            Err(error) => error,
        };
        match Hindrance::of(&heard.warnings) {
            Some(Hindrance::Signal) if signals_left > 0 => {
                signals_left -= 1;
                continue;
            }
            Some(_) => return Err(refused("loading the programs")(error)),
            None => {}
        }
        let refusal = Refusal::of(&heard.warnings).filter(|r| !refusals.contains_key(&r.program));
        let Some(refusal) = refusal else {
            return Err(refused("loading the programs")(error));
        };
        if let Some(lacking) = lacking_here() {
            return Err(lacking);
        }
        if !names.contains(refusal.program.as_str()) {
            // One that is attached to nothing: the others need it.
            return Err(rejected(&refusal.program, &refusal.to_string()));
        }
        refusals.insert(refusal.program.clone(), refusal.to_string());
    }
}

/// Opens the object of a skeleton, which finds the fields of the kernel's types in these, and
/// without them in all that the kernel has.
fn open<B: SkelBuilder<'static> + Default>(
    types: Option<&KernelTypes>,
) -> Result<B::Output, BpfError> {
    let mut builder = B::default();
    if let Some(types) = types {
        builder
            .object_builder_mut()
            .btf_custom_path(types.path())
            .map_err(refused("naming the kernel's types"))?;
    }
    builder
        .open(super::storage())
        .map_err(refused("opening the programs"))
}

fn candidates<S: OpenSkel<'static>>(opened: &S) -> Vec<Candidate> {
    let candidate = |program: libbpf_rs::OpenProgram<'_>| {
        let name = program.name().to_string_lossy().into_owned();
        let place = Place::of(&program.section().to_string_lossy(), &name);
        Candidate { name, place }
    };
    opened.open_object().progs().map(candidate).collect()
}

fn choose(
    wanted: &[Wanted],
    candidates: &[Candidate],
    offered: &Offered,
    refusals: &BTreeMap<String, String>,
) -> Result<Served, BpfError> {
    let mut served = Served {
        losses: wanted
            .iter()
            .filter_map(|want| Some((want.hook, want.loss?)))
            .collect(),
        ..Served::default()
    };
    for want in wanted {
        let of_hook = || candidates.iter().filter(|c| hook_of(&c.name) == want.hook);
        let chosen = of_hook().find(|c| offered.has(&c.place) && !refusals.contains_key(&c.name));
        if let Some(chosen) = chosen {
            served.programs.insert(want.hook, chosen.name.clone());
            continue;
        }
        let refused = of_hook().find_map(|c| Some((c, refusals.get(&c.name)?)));
        let reason = refused.map_or_else(|| lacking_places(of_hook()), |(_, why)| why.clone());
        let Some(loss) = want.loss else {
            return Err(match refused {
                Some((candidate, why)) => rejected(&candidate.name, why),
                None => BpfError::NoHook {
                    release: kernel_release(),
                    program: want.hook.to_owned(),
                    reason,
                },
            });
        };
        served.lacking.push(MissingHook {
            hook: want.hook,
            loss,
            reason,
        });
    }
    Ok(served)
}

fn lacking_places<'c>(candidates: impl Iterator<Item = &'c Candidate>) -> String {
    let places: BTreeSet<String> = candidates.map(|c| c.place.words()).collect();
    let places: Vec<String> = places.into_iter().collect();
    format!("it has no {}", places.join(", and no "))
}

fn rejected(program: &str, reason: &str) -> BpfError {
    BpfError::Rejected {
        release: kernel_release(),
        program: program.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, section: &str) -> Candidate {
        Candidate {
            name: name.into(),
            place: Place::of(section, name),
        }
    }

    /// Programs for one hook that each kernel has, for one that has two ways, and for one that no
    /// kernel has.
    fn some() -> Option<(Vec<Candidate>, Offered)> {
        let candidates = vec![
            candidate("fr_rec_switched", "tp_btf/sched_switch"),
            candidate("fr_rec_fault", "tp_btf/no_such_tracepoint"),
            candidate("fr_rec_fault__fn9", "fentry/filemap_fault"),
            candidate("fr_rec_fault__fn1", "fentry/filemap_fault"),
            candidate("fr_rec_never", "tp_btf/no_such_tracepoint"),
        ];
        let btf = fs::read(BTF).unwrap_or_default();
        let Some(types) = Types::parse(&btf) else {
            println!("skipped: this kernel has no BTF at {BTF}");
            return None;
        };
        let places: Vec<Place> = candidates.iter().map(|c| c.place.clone()).collect();
        let offered = Offered::of(&types, &places);
        Some((candidates, offered))
    }

    #[test]
    fn the_first_program_that_has_a_place_serves_a_hook() {
        let Some((candidates, offered)) = some() else {
            return;
        };
        let wanted = [needs("switched"), needs("fault"), likes("never", "nothing")];
        let served = choose(&wanted, &candidates, &offered, &BTreeMap::new()).unwrap();
        assert_eq!(served.programs["switched"], "fr_rec_switched");
        assert_eq!(served.programs["fault"], "fr_rec_fault__fn1");
        let lacking = &served.lacking()[0];
        assert_eq!((lacking.hook, lacking.loss), ("never", "nothing"));
        assert_eq!(lacking.reason, "it has no tracepoint no_such_tracepoint");
        assert!(!served.has("never"));
    }

    #[test]
    fn what_was_refused_is_not_tried_again_and_is_said() {
        let Some((candidates, offered)) = some() else {
            return;
        };
        let refusals =
            BTreeMap::from([("fr_rec_fault__fn1".into(), "the stack is too large".into())]);
        let liked = [likes("fault", "faults")];
        let served = choose(&liked, &candidates, &offered, &refusals).unwrap();
        assert_eq!(served.lacking()[0].reason, "the stack is too large");
        let needed = choose(&[needs("fault")], &candidates, &offered, &refusals);
        let said = needed.unwrap_err().to_string();
        assert!(
            said.contains("fr_rec_fault__fn1: the stack is too large"),
            "{said}"
        );
        let never = choose(&[needs("never")], &candidates, &offered, &refusals);
        assert!(matches!(never, Err(BpfError::NoHook { .. })));
    }
}
