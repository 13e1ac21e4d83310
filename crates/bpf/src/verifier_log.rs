// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of libbpf and of the kernel's verifier while programs are loaded.
//!
//! libbpf prints the verifier's log of a refused program between two lines that name the program.
//! The last lines of that log contain the error, and the last source line that it quotes is its
//! place.

use std::cell::RefCell;
use std::fmt;

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    /// Output of libbpf on this thread, while it is kept.
    static HEARD: RefCell<Option<Heard>> = const { RefCell::new(None) };
}

/// Output of libbpf, by level.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Messages of failures; a refused program's log is among them.
    pub warnings: String,
    /// Messages of successes; the log of a program that was loaded with statistics is among them.
    pub details: String,
}

/// Keeps libbpf from printing to the terminal; its output is only kept by [`listening`].
pub(super) fn quieten() {
    set_print(Some((PrintLevel::Debug, |level, text| {
        HEARD.with_borrow_mut(|heard| match heard {
            Some(heard) if level == PrintLevel::Warn => heard.warnings.push_str(&text),
            Some(heard) => heard.details.push_str(&text),
            None => {}
        });
    })));
}

/// Runs `act`, and returns libbpf's output meanwhile on this thread.
pub(super) fn listening<T>(act: impl FnOnce() -> T) -> (T, Heard) {
    HEARD.set(Some(Heard::default()));
    let done = act();
    (done, HEARD.take().unwrap_or_default())
}

/// Why a program was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Its name.
    pub program: String,
    /// The verifier's message, or the error that the kernel gave without a message.
    pub reason: String,
    /// The source line that it was at, as `file:line: text`.
    pub line: Option<String>,
}

impl Refusal {
    /// The first program that was refused, of libbpf's warnings; `None` when none was.
    pub fn of(printed: &str) -> Option<Self> {
        let failed = printed.lines().find_map(|line| {
            let rest = line.strip_prefix("libbpf: prog '")?;
            let (program, rest) = rest.split_once("': ")?;
            let is_refusal = rest.contains("BPF program load failed")
                || rest.contains("failed to find kernel BTF type ID")
                || rest.contains("failed to load");
            is_refusal.then_some((program, rest))
        });
        let (program, error) = failed?;
        let begin = format!("prog '{program}': -- BEGIN PROG LOAD LOG --");
        let log = printed.split_once(&begin).map_or("", |(_, log)| log);
        let log = log.split("-- END PROG LOAD LOG --").next().unwrap_or("");
        let is_word = |line: &&str| !line.is_empty() && !line.starts_with("libbpf:");
        // The counts at the end, and the state of registers, aren't the reason.
        let said = log.lines().map(str::trim).filter(is_word).rfind(|line| {
            !line.starts_with("processed ")
                && !line.starts_with("verification time")
                && !line.starts_with("stack depth")
                && !line.starts_with(';')
        });
        let error = error.trim_end_matches('.');
        Some(Self {
            program: program.to_owned(),
            reason: said.unwrap_or(error).to_owned(),
            line: log.lines().rev().find_map(source_line),
        })
    }
}

/// Why the kernel could not look at a program, which is no refusal of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// A signal came while the verifier was at work. It may look again.
    Signal,
    /// Descriptors or memory are short.
    Shortage,
}

impl Hindrance {
    /// The hindrance of the first program that failed, in libbpf's warnings; `None` if none failed
    /// for one.
    pub fn of(printed: &str) -> Option<Self> {
        const FAILED: &str = "BPF program load failed: ";
        let error = printed.lines().find_map(|line| line.split_once(FAILED))?.1;
        match error.trim_end_matches('.').trim() {
            "-EAGAIN" | "Resource temporarily unavailable" => Some(Self::Signal),
            "-EMFILE"
            | "Too many open files"
            | "-ENFILE"
            | "Too many open files in system"
            | "-ENOMEM"
            | "Cannot allocate memory" => Some(Self::Shortage),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the verifier said \"{}\"", self.reason)?;
        if let Some(line) = &self.line {
            write!(f, " at {line}")?;
        }
        Ok(())
    }
}

/// `; text @ file:line` since Linux 6.9, `; text` before.
fn source_line(line: &str) -> Option<String> {
    let text = line.trim().strip_prefix("; ")?;
    Some(match text.rsplit_once(" @ ") {
        Some((text, place)) => format!("{}: {}", place, text.trim()),
        None => text.trim().to_owned(),
    })
}

/// Counts of the verifier for one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verified {
    /// The program.
    pub program: String,
    /// Instructions that were looked at, each as often as it was.
    pub instructions: u64,
    /// Bytes of stack of each of its functions, in the order of the program.
    pub stack_bytes: Vec<u64>,
}

impl Verified {
    /// Counts of all programs that were loaded with statistics, from libbpf's output.
    pub(super) fn all_of(printed: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for line in printed.lines() {
            if let Some(rest) = line.strip_prefix("libbpf: prog '")
                && let Some((program, rest)) = rest.split_once("': ")
                && rest.contains("-- BEGIN PROG LOAD LOG --")
            {
                all.push(Self {
                    program: program.to_owned(),
                    ..Self::default()
                });
            }
            let Some(last) = all.last_mut() else {
                continue;
            };
            if let Some(depths) = line.strip_prefix("stack depth ") {
                let depths = depths.split_whitespace().next().unwrap_or("");
                last.stack_bytes = depths.split('+').filter_map(|d| d.parse().ok()).collect();
            } else if let Some(rest) = line.strip_prefix("processed ") {
                let count = rest.split_whitespace().next();
                last.instructions = count.and_then(|n| n.parse().ok()).unwrap_or(0);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "\
libbpf: prog 'map_pages': BPF program load failed: -EACCES
libbpf: prog 'map_pages': -- BEGIN PROG LOAD LOG --
func#0 @0
; return handler(ctx, mapping, start, end); @ record.bpf.c:812
combined stack size of 4 calls is 544. Too large
verification time 1234 usec
stack depth 184+152+64+128
processed 812 insns (limit 1000000) max_states_per_insn 0
-- END PROG LOAD LOG --
libbpf: prog 'map_pages': failed to load: -EACCES
libbpf: failed to load object 'record_bpf'
";

    #[test]
    fn a_refusal_is_the_verifiers_last_word_and_its_line() {
        let refusal = Refusal::of(STACK).unwrap();
        assert_eq!(refusal.program, "map_pages");
        assert_eq!(
            refusal.reason,
            "combined stack size of 4 calls is 544. Too large"
        );
        let said = refusal.to_string();
        assert!(
            said.ends_with("at record.bpf.c:812: return handler(ctx, mapping, start, end);"),
            "{said}"
        );
        assert!(!said.contains('\n'));
    }

    #[test]
    fn a_refusal_without_a_log_is_the_kernels_error() {
        let printed = "libbpf: prog 'x': failed to find kernel BTF type ID of 'y': -ESRCH\n";
        let refusal = Refusal::of(printed).unwrap();
        assert_eq!(refusal.program, "x");
        assert!(refusal.reason.contains("ESRCH"), "{refusal}");
        assert_eq!(refusal.line, None);
        assert_eq!(Refusal::of("libbpf: something else\n"), None);
    }

    #[test]
    fn a_signal_or_a_shortage_is_no_refusal() {
        let failed = |error: &str| format!("libbpf: prog 'x': BPF program load failed: {error}\n");
        let of = |error: &str| Hindrance::of(&failed(error));
        assert_eq!(of("-EAGAIN"), Some(Hindrance::Signal));
        assert_eq!(
            of("Resource temporarily unavailable"),
            Some(Hindrance::Signal)
        );
        assert_eq!(of("-EMFILE"), Some(Hindrance::Shortage));
        assert_eq!(of("Cannot allocate memory"), Some(Hindrance::Shortage));
        assert_eq!(of("-EINVAL"), None);
        assert_eq!(Hindrance::of(STACK), None);
    }

    #[test]
    fn what_was_verified_is_counted_by_program() {
        let printed = "libbpf: prog 'a': -- BEGIN PROG LOAD LOG --\nverification time 5 usec\n\
                       stack depth 16+0\nprocessed 12 insns (limit 1000000)\n-- END PROG LOAD LOG --\n\
                       libbpf: prog 'b': -- BEGIN PROG LOAD LOG --\nprocessed 3 insns (limit 9)\n";
        let all = Verified::all_of(printed);
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].instructions, &all[0].stack_bytes[..]),
            (12, &[16, 0][..])
        );
        assert_eq!((all[1].program.as_str(), all[1].instructions), ("b", 3));
    }
}
